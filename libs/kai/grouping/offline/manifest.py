"""Manifests as text: a YAML stream of objects and lists of objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from kai.grouping.errors import InvalidWorkload
from kai.model import documents

#: Values of all objects of a stream, each alias counted as what it stands for.
VALUES_AT_MOST: Final = 1_000_000


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
        bodies = documents.load_manifests(text)
    except documents.DuplicateKey as error:
        raise InvalidManifest(f"manifest: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidManifest(f"manifest is not YAML: {' '.join(str(error).split())}") from error
    _refuse_endless(bodies)
    parts = [
        part for number, body in enumerate(bodies, start=1) for part in _flat(body, f"document {number}")
    ]
    objects = tuple(part for part in parts if isinstance(part, dict))
    problems = tuple(part for part in parts if isinstance(part, str))
    if problems and not objects:
        raise InvalidManifest(problems[0])
    return Manifest(objects, problems)


def _refuse_endless(bodies: list[object]) -> None:
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
        total = size(bodies)
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
