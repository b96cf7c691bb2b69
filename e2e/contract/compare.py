"""Where two sets of answers differ in what programs read.

The wording of refusals is left out: programs read status, reason, and which fields are at fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = Any
_ABSENT = "(absent)"


def binding(answer: Json) -> Json:
    """An answer without wording, and without what is as good as absent."""
    if isinstance(answer, dict):
        refusal = answer.get("kind") == "Status" or ("field" in answer and "reason" in answer)
        kept = {key: binding(value) for key, value in answer.items() if not (refusal and key == "message")}
        return {key: value for key, value in kept.items() if value not in (None, {})}
    if isinstance(answer, list):
        return [binding(value) for value in answer]
    return answer


def differences(expected: Json, found: Json, path: str = "") -> Iterator[str]:
    """One line for each place where ``found`` is not as expected."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            inner = f"{path}.{key}" if path else key
            yield from differences(expected.get(key, _ABSENT), found.get(key, _ABSENT), inner)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif expected != found:
        yield f"{path}: expected {_short(expected)}, found {_short(found)}"


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:297]}..."
