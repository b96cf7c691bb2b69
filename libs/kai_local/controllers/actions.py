"""What a controller wants done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from kai.kube.client import PatchKind
from kai.kube.resources import Resource
from kai.model.objects import ApiObject, Json


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object; one of the same name being there already is as good."""

    resource: Resource
    namespace: str
    body: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly this object. ``propagation`` as the API calls it.

    ``finalizer`` is one that is taken off first.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    propagation: str = "Background"
    finalizer: str = ""

    @classmethod
    def of(cls, resource: Resource, obj: ApiObject, *, finalizer: str = "") -> Self:
        """Delete this one, and none of its name that came later."""
        meta = obj.metadata
        return cls(resource, meta.namespace, meta.name, meta.uid, finalizer=finalizer)


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take a finalizer off exactly this object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    finalizer: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Give exactly this object, as it was seen, an owner (reference) and finalizers more."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    version: str
    owner: Json
    finalizers: tuple[str, ...] = ()

    @classmethod
    def of(cls, resource: Resource, obj: ApiObject, owner: Json, *finalizers: str) -> Self:
        """Take over this one."""
        meta = obj.metadata
        version = meta.resource_version
        return cls(resource, meta.namespace, meta.name, meta.uid, version, owner, finalizers)


@dataclass(frozen=True, slots=True)
class Release:
    """Take an owner, by its uid, away from exactly this object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    owner: str

    @classmethod
    def of(cls, resource: Resource, obj: ApiObject, owner: ApiObject) -> Self:
        """Let go of this one."""
        meta = obj.metadata
        return cls(resource, meta.namespace, meta.name, meta.uid, owner.metadata.uid)


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object, or its status."""

    resource: Resource
    namespace: str
    name: str
    patch: Json
    subresource: str = ""
    kind: PatchKind = PatchKind.MERGE


Action = Adopt | Create | Delete | LetGo | Patch | Release


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and after how many seconds to look again if nothing happens before."""

    actions: list[Action] = field(default_factory=list)
    again_in: float | None = None
