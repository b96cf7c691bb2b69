"""Manifests as text: a YAML stream of objects and lists of objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import yaml

from kai_pod_grouper.errors import InvalidWorkload

#: Values of all objects of a stream, each alias counted as what it stands for.
VALUES_AT_MOST: Final = 1_000_000
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Times stay the strings that they are in JSON, and keys are strings as there: ``on`` is ``true``."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        found = super().construct_mapping(node, deep)
        return {_key(key, node): value for key, value in found.items()}


def _key(key: object, node: yaml.MappingNode) -> str:
    """A key as kubectl gives it to a server.

    Raises:
        ValueError: it gives none of that kind.
    """
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    problem = "a key is empty" if key is None else f"{key!r} is no key"
    raise ValueError(f"line {node.start_mark.line + 1}: {problem}; write a text, in quotes if need be")


class InvalidManifest(InvalidWorkload):
    """The text is not YAML, or there is no object in it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of a stream, those in lists too, in order; and where it has something else."""

    objects: tuple[dict[str, Any], ...]
    problems: tuple[str, ...] = ()


def read_manifest(text: str) -> Manifest:
    """Objects are not looked into, beyond that they say their kind.

    Raises:
        InvalidManifest: not YAML, or nothing in it is an object; the message says where.
    """
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidManifest(f"manifest is not YAML: {' '.join(str(error).split())}") from error
    _refuse_endless(documents)
    parts = [
        part for number, body in enumerate(documents, start=1) for part in _flat(body, f"document {number}")
    ]
    objects = tuple(part for part in parts if isinstance(part, dict))
    problems = tuple(part for part in parts if isinstance(part, str))
    if problems and not objects:
        raise InvalidManifest(problems[0])
    return Manifest(objects, problems)


def _refuse_endless(documents: list[object]) -> None:
    """An alias costs nothing to read, and its anchor over again for everybody who walks over it.

    Raises:
        InvalidManifest: one stands inside its own anchor, or they write out to more than anybody means.
    """
    sizes: dict[int, int | None] = {}

    def size(value: object) -> int:
        if not isinstance(value, dict | list):
            return 1
        known = sizes.get(id(value), 0)
        if known is None:
            raise InvalidManifest("manifest: a YAML alias stands inside its own anchor; write it out")
        if not known:
            sizes[id(value)] = None
            known = 1 + sum(map(size, value.values() if isinstance(value, dict) else value))
            sizes[id(value)] = known
        return known

    try:
        total = size(documents)
    except RecursionError as error:
        raise InvalidManifest("manifest is nested too deeply to be a workload") from error
    if total > VALUES_AT_MOST:
        raise InvalidManifest(
            f"manifest has {total:,} values with its YAML aliases written out; at most are {VALUES_AT_MOST:,}"
        )


def _flat(document: object, where: str) -> Iterator[dict[str, Any] | str]:
    """The objects in a document, and words for what is none."""
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        yield f"manifest: {where} is not an object with apiVersion, kind and metadata"
        return
    items = document.get("items")
    if not (document["kind"].endswith("List") and isinstance(items, list)):
        yield document
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):  # kubectl leaves kind out of the items of a typed list
            item.setdefault("apiVersion", document.get("apiVersion"))
            item.setdefault("kind", document["kind"].removesuffix("List"))
        yield from _flat(item, f"{where}, item {index}")
