"""What made a pod group, as people know it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from kai.model import names
from kai.model.objects import PodGroup

_FIELDS: Final = ("kind", "name")
#: Nothing that was written by a pod-grouper is longer; kinds and names have at most 253 characters.
_MOST_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class TopOwner:
    """A workload of the namespace of its pod group."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def top_owner(group: PodGroup | None) -> TopOwner | None:
    """The controller of a pod group, or else its first owner; None where it has none.

    A pod of a Deployment owns a group of its own; there it is the Deployment, which the pod-grouper has noted
    on the group.
    """
    owners = (group.metadata.owner_references or ()) if group is not None else ()
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    if group is None or owner is None:
        return None
    noted = _noted(group) if owner.kind == "Pod" else None
    return noted or TopOwner(owner.kind, owner.name)


def _noted(group: PodGroup) -> TopOwner | None:
    """Whom ``kai.scheduler/top-owner-metadata`` names in lines ``field: value``; None if that is nobody."""
    text = group.annotations.get(names.TOP_OWNER_METADATA, "")
    if len(text) > _MOST_CHARACTERS:
        return None
    lines = (line.partition(": ") for line in text.splitlines())
    found = {field: _unquoted(value) for field, _, value in lines if field in _FIELDS}
    return TopOwner(found["kind"], found["name"]) if all(found.get(field) for field in _FIELDS) else None


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        said = json.loads(value)
    except ValueError:
        return ""
    return said if isinstance(said, str) else ""
