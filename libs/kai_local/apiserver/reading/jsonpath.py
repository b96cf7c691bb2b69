"""The part of JSONPath that printer columns and scale paths use: members, indexes, wildcards and equality
filters.
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

Read = Callable[[Any], list[Any]]


@lru_cache(maxsize=512)
def compile_path(path: str) -> Read:
    """A function that gives every value at the path; unreadable rests of a path give nothing."""
    steps: list[re.Match[str]] = []
    text, position = path.strip().removeprefix("{").removesuffix("}"), 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return lambda _value: []
        steps.append(match)
        position = match.end()

    def read(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = [found for item in values for found in _follow(step, item)]
        return values

    return read


def _follow(step: re.Match[str], value: Any) -> list[Any]:
    name = step["quoted"] or (step["name"].replace("\\.", ".") if step["name"] else None)
    if name is not None:
        return [value[name]] if isinstance(value, dict) and value.get(name) is not None else []
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
