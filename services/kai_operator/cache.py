"""The objects of an installation as they were last told, whoever told them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from kai.kube.endings import Endings
from kai.kube.reflector import Change, Removed, Upserted
from kai.kube.resources import Resource
from kai_operator.kinds import Manifest, Ref, ref_of
from kai_operator.ownership import controller_of


class Cache:
    """Objects by what they are. Sinks for reflectors come from :meth:`sink`; it tells ``changed`` of each."""

    def __init__(self, changed: Callable[[Manifest], None]) -> None:
        self._objects: dict[Ref, Manifest] = {}
        self._changed = changed
        self._endings = Endings()

    def get(self, ref: Ref) -> Manifest | None:
        """The object as last told; None if it is not known."""
        return self._objects.get(ref)

    def owned_by(self, uid: str) -> Iterator[Manifest]:
        """All objects that this owner controls."""
        for manifest in list(self._objects.values()):
            controller = controller_of(manifest)
            if controller is not None and controller.get("uid") == uid:
                yield manifest

    def writing(self, ref: Ref) -> AbstractContextManager[None]:
        """While an object is written, and until the answer is taken in."""
        return self._endings.writing(str(ref))

    def take(self, manifest: Manifest, *, listed: bool = False) -> None:
        """Take in an object, unless it is gone by now, or older than what is known.

        What we wrote comes in here first. What was ``listed`` just now counts though it is older.
        """
        ref = ref_of(manifest)
        if self._endings.has_ended(str(ref), _uid(manifest)):
            return
        known = self._objects.get(ref)
        newer = known is None or _uid(known) != _uid(manifest) or version_of(known) <= version_of(manifest)
        if listed or newer:
            self._objects[ref] = manifest

    def forget(self, manifest: Manifest) -> None:
        """It is gone, unless there is another one of its name now."""
        ref = ref_of(manifest)
        if (known := self._objects.get(ref)) is not None and _uid(known) == _uid(manifest):
            del self._objects[ref]

    def forget_all(self, kind: str) -> None:
        """There are no objects of this kind any more."""
        self._objects = {ref: manifest for ref, manifest in self._objects.items() if ref.kind != kind}

    def sink(self, resource: Resource) -> Callable[[Change[Any]], None]:
        """A sink for a reflector of this kind."""

        def take(change: Change[Any]) -> None:
            if isinstance(change, Upserted):
                # A list says its kind once, and its items do not.
                manifest = {"apiVersion": resource.api_version, "kind": resource.kind, **change.obj}
                self.take(manifest, listed=change.listed)
                self._changed(manifest)
            elif isinstance(change, Removed):
                namespace, _, name = change.obj_key.rpartition("/")
                ref = Ref(resource.kind, namespace, name)
                self._endings.told(str(ref), change.uid)
                known = self._objects.get(ref)
                if known is not None and _uid(known) == change.uid:
                    self.forget(known)
                    self._changed(known)

        return take


def _uid(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("uid", ""))


def version_of(manifest: Manifest) -> int:
    """Its resource version, by which what is newer is known; 0 if it says none."""
    text = str(manifest["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0
