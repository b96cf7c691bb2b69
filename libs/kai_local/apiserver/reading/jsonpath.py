"""The part of JSONPath that printer columns and scale paths use: members, indexes, wildcards and equality
filters.

As in a real API server, a dot that is not escaped parts two members, also within quotes: ``['a.b']`` is
``.a.b``, and ``['a\\.b']`` the member ``a.b``.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_\-$]+(?:\\\.[A-Za-z0-9_\-$/]+)*)   # .name, dots escaped
      | \[['"](?P<quoted>[^'"]+)['"]\]                           # ['name']
      | \[(?P<index>-?\d+)\]
      | \[\*\] | \.\*
      | \[\?\(@\.(?P<field>[\w.]+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|\w+)\)\]
    """,
    re.VERBOSE,
)

_DOT: Final = re.compile(r"(?<!\\)\.")

Read = Callable[[Any], list[Any]]


@lru_cache(maxsize=512)
def compile_path(path: str) -> Read:
    """A function that gives every value at the path; unreadable rests of a path give nothing."""
    steps: list[str | re.Match[str]] = []
    text, position = path.strip().removeprefix("{").removesuffix("}"), 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return lambda _value: []
        members = match["name"] or match["quoted"]
        steps += [name.replace("\\.", ".") for name in _DOT.split(members)] if members else [match]
        position = match.end()

    def read(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = [found for item in values for found in _follow(step, item)]
        return values

    return read


def _follow(step: str | re.Match[str], value: Any) -> list[Any]:
    if isinstance(step, str):
        return [value[step]] if isinstance(value, dict) and value.get(step) is not None else []
    if step["index"] is not None:
        index = int(step["index"])
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    if step["field"] is not None:
        wanted = step["value"].strip("\"'")
        return (
            [item for item in value if _text(item, step["field"]) == wanted]
            if isinstance(value, list)
            else []
        )
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _text(item: Any, path: str) -> str | None:
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    if isinstance(item, bool):
        return str(item).lower()
    return None if item is None else str(item)
