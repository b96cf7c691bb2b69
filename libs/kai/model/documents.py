"""JSON and YAML as people write them: the same key twice in one mapping is a mistake, and not the last one's
victory.

YAML almost takes JSON: not where tabs indent it, and ``1e+16`` would be a text. Manifests of Kubernetes are
YAML whose values are those of JSON: what YAML takes for a day, a time or an operator is a text there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakSet

import yaml

T = TypeVar("T")

_MERGE: Final = "tag:yaml.org,2002:merge"
_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DuplicateKey(yaml.YAMLError):
    """A mapping has a key twice; the message names it and, of YAML, the line of the second."""


class _KeysOnce:
    """A part of a loader, before its class in YAML: refuses a key that somebody wrote twice.

    Merging writes keys of one mapping into another, and its own may come after them, so that each mapping is
    looked at before that.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        read: WeakSet[yaml.MappingNode] = self.__dict__.setdefault("_read", WeakSet())
        if node not in read:
            read.add(node)
            self._refuse_twice(node)
        super().flatten_mapping(node)  # type: ignore[misc]

    def _refuse_twice(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                continue
            text = self.text_of_key(key)
            if text in seen:
                raise DuplicateKey(f"line {key.start_mark.line + 1}: {text!r} is there twice; say it once")
            seen.add(text)

    def text_of_key(self, node: yaml.ScalarNode) -> str:
        """What two keys have in common that are the same one."""
        return str(node.value)


class _Loader(_KeysOnce, yaml.SafeLoader):
    pass


class _ManifestLoader(_KeysOnce, _Fast):  # type: ignore[misc]
    """Values are those of JSON, and keys are texts as there: ``on`` is ``true``."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        found = super().construct_mapping(node, deep)
        return {_key(key, node): value for key, value in found.items()}

    def text_of_key(self, node: yaml.ScalarNode) -> str:
        return _key(self.construct_object(node), node)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number; ``22:22`` is none, though YAML once counted in sixties."""
        if ":" in node.value:
            return self.construct_yaml_str(node)
        return (self.construct_yaml_int if node.tag == _INT else self.construct_yaml_float)(node)


_INT: Final = "tag:yaml.org,2002:int"
for _tag in ("timestamp", "value"):  # a day, and the operator =
    _ManifestLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Fast.construct_yaml_str)
for _tag in ("int", "float"):
    _ManifestLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _ManifestLoader.construct_number)


def _key(key: object, node: yaml.Node) -> str:
    """A key as kubectl gives it to a server.

    Raises:
        yaml.YAMLError: it gives none of that kind.
    """
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    problem = "a key is empty" if key is None else f"{key!r} is no key"
    raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {problem}; write a text, in quotes if need be")


def load(text: str) -> Any:
    """One document.

    Raises:
        yaml.YAMLError: it is neither JSON nor YAML, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_mapping, parse_constant=_no_number)
    except ValueError:
        return _of_yaml(lambda: yaml.load(text, Loader=_Loader))  # noqa: S506 (a safe loader)


def load_manifests(text: str) -> list[Any]:
    """All documents of a manifest, each as an API server gets it; None for an empty one.

    Raises:
        yaml.YAMLError: it is not YAML, or has a key twice or one that JSON has not.
        RecursionError: it is nested too deeply.
    """
    return _of_yaml(lambda: list(yaml.load_all(text, Loader=_ManifestLoader)))


def _of_yaml(read: Callable[[], T]) -> T:
    try:
        return read()
    except (ValueError, LookupError, AttributeError) as error:
        # A date that no calendar has, a number of thousands of digits, what is tagged as something else.
        raise yaml.YAMLError(f"a value is none of its kind: {error}") from error


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
