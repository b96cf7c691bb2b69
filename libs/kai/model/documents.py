"""JSON and YAML as people write them: the same key twice in one mapping is a mistake, and not the last one's
victory.

YAML almost takes JSON: not where tabs indent it, and ``1e+16`` would be a text.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any, Final

import yaml

_MERGE: Final = "tag:yaml.org,2002:merge"


class DuplicateKey(yaml.YAMLError):
    """A mapping has a key twice; the message names it and, of YAML, the line of the second."""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise DuplicateKey(
                    f"line {key.start_mark.line + 1}: {key.value!r} is there twice; say it once"
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(text: str) -> Any:
    """One document.

    Raises:
        yaml.YAMLError: it is neither JSON nor YAML, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_mapping, parse_constant=_no_number)
    except ValueError:
        return _of_yaml(text)


def _of_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader)
    except ValueError as error:  # a date that no calendar has, a number of thousands of digits
        raise yaml.YAMLError(str(error)) from error


def _mapping(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKey(f"{key!r} is there twice; say it once")
        found[key] = value
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def load_written(text: str) -> Any:
    """One document that a program wrote, as definitions of resources are: the loader in C is seven times as
    fast, and does not take all that people write (``{gpu:, cpu: 1}``).

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    return yaml.load(text, Loader=yaml.CSafeLoader)
