"""Objects that belong to others, as controllers make them.

Whatever a file says is taken as far as it has the type that it should have: what is wrong with the rest is
told by who reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kai.model.objects import Json

#: Objects that are made of one file: more is a slip, or nothing that one looks at.
MOST_MADE: Final = 20_000
_LONGEST_NAME: Final = 253
#: What is made directly of an object; what comes of that is made in turn.
Maker = Callable[[Json], Iterator[Json]]


class TooMany(Exception):
    """More than :data:`MOST_MADE` of one sort are to be made."""


def at(body: Json, *path: str) -> Json:
    """The mapping at a path; an empty one where there is none."""
    found: Any = body
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def listed(body: Json, *path: str) -> list[Json]:
    """The mappings in the list at a path."""
    *above, last = path
    found = at(body, *above).get(last)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(fields: Json, name: str) -> str:
    """A name or the like; empty where there is none, or one that is longer than names are."""
    found = fields.get(name)
    return found if isinstance(found, str) and len(found) <= _LONGEST_NAME else ""


def count(fields: Json, name: str, *, default: int = 1) -> int:
    """A number of pods or replicas as an API server leaves it, never negative.

    One that is larger than can be made is told as :data:`MOST_MADE` and one: nobody counts what users write.
    """
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return default
    return min(max(value, 0), MOST_MADE + 1)


def numbers(many: int) -> range:
    """Of so many objects to be made of one sort, in order.

    Raises:
        TooMany: there are more than can be made; none need be made to tell.
    """
    if many > MOST_MADE:
        raise TooMany
    return range(many)


def owned(
    owner: Json,
    api_version: str,
    kind: str,
    name: str,
    *,
    labels: Json | None = None,
    annotations: Json | None = None,
    spec: Json | None = None,
) -> Json:
    """An object that ``owner`` controls, in its namespace."""
    meta = owner["metadata"]
    reference = {
        "apiVersion": owner.get("apiVersion", ""),
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "ownerReferences": [reference],
        },
        "spec": dict(spec or {}),
    }


def pod(
    owner: Json, template: Json, name: str, *, labels: Json | None = None, annotations: Json | None = None
) -> Json:
    """A pod of a template, with what its controller adds; it waits."""
    body = owned(
        owner,
        "v1",
        "Pod",
        name,
        labels={**at(template, "metadata", "labels"), **(labels or {})},
        annotations={**at(template, "metadata", "annotations"), **(annotations or {})},
        spec=at(template, "spec"),
    )
    return {**body, "status": {"phase": "Pending"}}


def labelled(template: Json, labels: Json, annotations: Json | None = None) -> Json:
    """A pod template whose pods have these labels and annotations as well."""
    meta = at(template, "metadata")
    together = {
        **meta,
        "labels": {**at(meta, "labels"), **labels},
        "annotations": {**at(meta, "annotations"), **(annotations or {})},
    }
    return {**template, "metadata": together}


def ending(template: Json, policy: str) -> Json:
    """A pod template whose pods are restarted as ``policy`` says, unless it says that itself."""
    spec = at(template, "spec")
    return {**template, "spec": {"restartPolicy": policy, **spec}} if spec else template
