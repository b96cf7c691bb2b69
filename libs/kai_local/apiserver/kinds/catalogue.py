"""Which resources are served: the built-in ones and those that CustomResourceDefinitions add."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kai_local.apiserver.errors import Obj
from kai_local.apiserver.schemas.schema import Node

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(slots=True, eq=False)
class Version:
    """One version of a resource. ``from_storage`` and ``to_storage`` convert;

    None where the forms are equal.
    """

    name: str
    node: Node | None
    columns: tuple[Obj, ...] = ()
    schema: Obj | None = None
    from_storage: Callable[[Obj], Obj] | None = None
    to_storage: Callable[[Obj], Obj] | None = None
    deprecation: str = ""
    served: bool = True


@dataclass(slots=True, eq=False)
class Resource:
    """A kind of object with its place in the URL space and the habits of its storage.

    ``unconditional``: an update need not say which version it saw.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: dict[str, Version]
    storage_version: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    generation: bool = False
    custom: bool = False
    unconditional: bool = True
    selectable: tuple[str, ...] = ()
    orphan_by_default: bool = False
    verbs: tuple[str, ...] = ALL_VERBS
    scale_paths: dict[str, str] = field(default_factory=dict)
    stored_as: tuple[str, str] | None = None

    @property
    def storage_key(self) -> tuple[str, str]:
        """Whose storage holds the objects: both event APIs show the same ones."""
        return self.stored_as or self.key

    @property
    def key(self) -> tuple[str, str]:
        """Group and plural: the identity of the resource."""
        return self.group, self.plural

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own subresource only."""
        return "status" in self.subresources

    def api_version(self, version: str) -> str:
        """``apps/v1``, or ``v1`` in the core group."""
        return f"{self.group}/{version}" if self.group else version

    @property
    def storage_api_version(self) -> str:
        """The ``apiVersion`` that stored objects carry."""
        return "v1" if self.stored_as == ("", "events") else self.api_version(self.storage_version)


class Catalogue:
    """Resources by group and plural."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], Resource] = {}
        self.generation = 0
        """Rises with each change, so that documents made of the catalogue know when they are old."""

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def add(self, resource: Resource) -> None:
        """Serve this resource from now on (in place of an older description of it)."""
        self._resources[resource.key] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve it no more."""
        self._resources.pop((group, plural), None)
        self.generation += 1

    def get(self, group: str, plural: str) -> Resource | None:
        """The resource, or None."""
        return self._resources.get((group, plural))

    def serves(self, group: str, version: str) -> bool:
        """Whether any resource is served in this version of the group."""
        versions = (one.versions.get(version) for one in self if one.group == group)
        return any(found is not None and found.served for found in versions)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource that serves objects of this kind."""
        group, _, version = api_version.rpartition("/")
        for resource in self._resources.values():
            if resource.kind == kind and resource.group == group and version in resource.versions:
                return resource
        return None


def dig(obj: Any, *keys: str) -> Any:
    """The value below ``keys``, or None where there is none."""
    for key in keys:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj
