"""YAML as people write it: the same key twice in one mapping is a mistake, and not the last one's victory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import yaml

_MERGE: Final = "tag:yaml.org,2002:merge"


class DuplicateKey(yaml.YAMLError):
    """A mapping has a key twice; the message names it and the line of the second."""


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
        yaml.YAMLError: it is not YAML, or has a key twice.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader)


def load_written(text: str) -> Any:
    """One document that a program wrote, as definitions of resources are: the loader in C is seven times as
    fast, and does not take all that people write (``{gpu:, cpu: 1}``).

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    return yaml.load(text, Loader=yaml.CSafeLoader)
