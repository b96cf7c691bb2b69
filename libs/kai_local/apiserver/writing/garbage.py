"""Garbage collection by owner references, and the end of namespaces and custom resource definitions.

Changes put work into a queue; one task does it. Every deletion goes through the registry, so that
finalizers, grace periods and webhooks count.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import structlog

from kai.kube.backoff import Backoff
from kai_local.apiserver.admission.builtin import NAMESPACES
from kai_local.apiserver.calls.requests import DeleteOptions, Target, User, WriteOptions
from kai_local.apiserver.errors import ApiFailure, Obj, show
from kai_local.apiserver.kinds import crds, events
from kai_local.apiserver.kinds.catalogue import Catalogue, Resource
from kai_local.apiserver.rules.strategy import FOREGROUND, ORPHAN
from kai_local.apiserver.store.storage import Change, Collection, Record
from kai_local.apiserver.writing.registry import Registry

_COLLECTOR: Final = User("system:serviceaccount:kube-system:generic-garbage-collector", ("system:masters",))
_BREATH: Final = 64
#: Seconds after which what was refused is tried again, the first time and at the longest.
_FIRST_RETRY: Final = 0.1
_LONGEST_RETRY: Final = 30.0

StorageKey = tuple[str, str]
Work = tuple[str, object]
"""What is to be done, and about what."""
Dependent = tuple[StorageKey, str, str]
"""Storage, namespace and name of an object that has owners."""

_log = structlog.get_logger(__name__)


class GarbageCollector:
    """Follows every change and removes what nothing owns any more."""

    def __init__(self, registry: Registry, catalogue: Catalogue) -> None:
        self._registry = registry
        self._catalogue = catalogue
        self._live: dict[str, str] = {}
        """Namespaces of what there is, by uid."""
        self._dependents: dict[str, set[Dependent]] = {}
        self._work: deque[Work] = deque()
        self._backoffs: dict[Work, Backoff] = {}
        self._retries: dict[Work, asyncio.TimerHandle] = {}
        self._foreground: dict[str, Dependent] = {}
        """Owners that wait for their dependents to go, by uid."""
        self._definitions_going: set[str] = set()
        self._wake = asyncio.Event()
        for key, collection in registry.store.collections().items():  # of what else is part of the server
            self._attach(key, collection)
        registry.store.on_new_collection.append(self._attach)

    def _attach(self, key: StorageKey, collection: Collection) -> None:
        collection.listeners.append(lambda change: self._follow(key, change))

    # --- what changes mean -------------------------------------------------------------------------

    def _follow(self, key: StorageKey, change: Change) -> None:
        record = change.record
        place = (key, record.namespace, record.name)
        metadata = record.obj["metadata"]
        before = change.previous.obj["metadata"] if change.previous is not None else {}
        if change.kind == "DELETED":
            self._live.pop(record.uid, None)
            self._foreground.pop(record.uid, None)
            self._forget_owners(place, before)
            if record.uid in self._dependents:
                self._push("owner leaves", record.uid)
            for uid in _owner_uids(before):
                self._push("dependent changed", uid)
            if record.namespace and self._terminating(record.namespace):
                self._push("namespace", record.namespace)
            for name in self._definitions_going:
                self._push("definition", name)
            return
        self._live[record.uid] = record.namespace
        if metadata.get("ownerReferences") != before.get("ownerReferences"):
            self._forget_owners(place, before)
            for uid in _owner_uids(metadata):
                self._dependents.setdefault(uid, set()).add(place)
            for uid in _owner_uids(before):
                self._push("dependent changed", uid)
            self._push("check", place)
        if "deletionTimestamp" in metadata:
            self._follow_end(key, record, metadata)

    def _follow_end(self, key: StorageKey, record: Record, metadata: Obj) -> None:
        place, finalizers = (key, record.namespace, record.name), metadata.get("finalizers", ())
        if FOREGROUND not in finalizers:
            self._foreground.pop(record.uid, None)
        elif record.uid not in self._foreground:
            self._foreground[record.uid] = place
            self._push("owner leaves", record.uid)
        if FOREGROUND in finalizers or ORPHAN in finalizers:
            self._push("finalize", place)
        if key == NAMESPACES:
            self._push("namespace", record.name)
        if key == crds.KEY and crds.CLEANUP in finalizers:
            self._push("definition", record.name)

    def _forget_owners(self, place: Dependent, metadata: Obj) -> None:
        for uid in _owner_uids(metadata):
            group = self._dependents.get(uid)
            if group is not None:
                group.discard(place)
                if not group:
                    del self._dependents[uid]

    def _terminating(self, namespace: str) -> bool:
        record = self._registry.store.collection(NAMESPACES).get("", namespace)
        return record is not None and "deletionTimestamp" in record.obj["metadata"]

    def _push(self, kind: str, what: object) -> None:
        self._work.append((kind, what))
        self._wake.set()

    # --- the task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled. What is refused is logged and tried again later, each time after longer."""
        done = 0
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._work:
                    await self._try(self._work.popleft())
                    done += 1
                    if done % _BREATH == 0:
                        await asyncio.sleep(0)
        finally:
            for timer in self._retries.values():
                timer.cancel()

    async def _try(self, work: Work) -> None:
        try:
            await self._handle(*work)
        except ApiFailure as failure:
            if failure.code != 404:  # what is gone needs no more of it
                self._try_later(work, failure.message)
                return
        except Exception as error:  # noqa: BLE001 (one bad object must not stop the others)
            self._try_later(work, repr(error))
            return
        self._backoffs.pop(work, None)

    def _try_later(self, work: Work, why: str) -> None:
        if work in self._retries:
            return
        backoff = self._backoffs.setdefault(work, Backoff(initial=_FIRST_RETRY, maximum=_LONGEST_RETRY))
        delay = backoff.next()
        kind, what = work
        _log.warning(
            "garbage collection failed",
            work=kind,
            what=str(what),
            error=why,
            retry_seconds=round(delay, 2),
        )
        self._retries[work] = asyncio.get_running_loop().call_later(delay, self._retry, work)

    def _retry(self, work: Work) -> None:
        del self._retries[work]
        self._push(*work)

    async def _handle(self, kind: str, what: object) -> None:
        if kind == "owner leaves":
            for place in self._dependents_of(str(what)):
                self._push("check", place)
        elif kind == "dependent changed":
            if (owner := self._foreground.get(str(what))) is not None:
                self._push("finalize", owner)
        elif kind == "namespace":
            await self._empty_namespace(str(what))
        elif kind == "definition":
            await self._empty_definition(str(what))
        elif isinstance(what, tuple):
            if kind == "check":
                await self._check(what)
            else:
                self._finalize(what)

    def _find(self, place: Dependent) -> tuple[Resource, Record] | None:
        key, namespace, name = place
        record = self._registry.store.collection(key).get(namespace, name)
        resource = self._catalogue.get(*key)
        return None if record is None or resource is None else (resource, record)

    async def _delete(
        self, resource: Resource, record: Record, propagation: str, *, admitted: bool = False
    ) -> None:
        version = resource.versions[resource.storage_version]
        target = Target(resource, version, record.namespace, record.name)
        options = DeleteOptions(propagation=propagation, uid=record.uid)
        await self._registry.delete(target, options, WriteOptions(_COLLECTOR), admitted=admitted)

    async def _delete_each(
        self, items: Iterable[tuple[Resource, Record]], propagation: str, *, admitted: bool = False
    ) -> None:
        """Delete those that are not going yet. Raises the last ApiFailure, after all were tried."""
        refused = None
        for resource, record in items:
            if "deletionTimestamp" in record.obj["metadata"]:
                continue
            try:
                await self._delete(resource, record, propagation, admitted=admitted)
            except ApiFailure as failure:
                if failure.code != 404:
                    refused = failure
        if refused is not None:
            raise refused

    async def _check(self, place: Dependent) -> None:
        """Delete an object that no owner keeps; drop its references to those that do not where another does.

        An owner that waits for its dependents to go keeps none.
        """
        found = self._find(place)
        if found is None or "deletionTimestamp" in found[1].obj["metadata"]:
            return
        resource, record = found
        metadata = record.obj["metadata"]
        references = metadata.get("ownerReferences") or []
        living = [reference for reference in references if self._is_owner(reference, record.namespace)]
        kept = [reference for reference in living if reference["uid"] not in self._foreground]
        strangers = [reference for reference in references if self._is_stranger(reference, record.namespace)]
        if kept and len(kept) < len(references):
            self._store(resource, record, ownerReferences=kept)
        elif references and not kept:
            await self._delete(resource, record, "Foreground" if living else _propagation(metadata))
        for reference in strangers:
            await self._tell_of_stranger(record.obj, reference)

    def _is_owner(self, reference: Obj, namespace: str) -> bool:
        """Whether the owner of an object in this namespace is there: in the same one, or in none.

        The owner of an object in no namespace cannot be found in one; then it is taken to be there.
        """
        if not namespace and self._is_namespaced(reference):
            return True
        return self._live.get(reference["uid"]) in ("", namespace)

    def _is_namespaced(self, reference: Obj) -> bool:
        resource = self._catalogue.of_kind(reference["apiVersion"], reference["kind"])
        return resource is not None and resource.namespaced

    def _is_stranger(self, reference: Obj, namespace: str) -> bool:
        return self._live.get(reference["uid"]) not in (None, "", namespace)

    async def _tell_of_stranger(self, about: Obj, reference: Obj) -> None:
        resource = self._catalogue.get(*events.KEY)
        if resource is None:
            return
        namespace = about["metadata"].get("namespace", "")
        owner = ", ".join(f"{key}: {reference[key]}" for key in ("apiVersion", "kind", "name", "uid"))
        message = f"ownerRef [{owner}] does not exist in namespace {show(namespace)}"
        event = events.warning(
            about,
            "OwnerRefInvalidNamespace",
            message,
            component="garbage-collector-controller",
            stamp=self._registry.clock.stamp(),
        )
        target = Target(resource, resource.versions[resource.storage_version], event["metadata"]["namespace"])
        try:
            await self._registry.create(target, event, WriteOptions(_COLLECTOR))
        except ApiFailure as failure:  # a namespace that is going takes no more events
            _log.info("event not made", about=about["metadata"]["name"], error=failure.message)

    def _store(self, resource: Resource, record: Record, **metadata: list[Obj] | list[str]) -> None:
        changed = {**record.obj["metadata"], **metadata}
        self._registry.store_update(
            resource, record, {**record.obj, "metadata": {k: v for k, v in changed.items() if v != []}}
        )

    def _finalize(self, place: Dependent) -> None:
        """Do what the deletion finalizers of an owner ask for, then take them away."""
        found = self._find(place)
        if found is None or "deletionTimestamp" not in found[1].obj["metadata"]:
            return
        resource, record = found
        finalizers = record.obj["metadata"].get("finalizers") or []
        if ORPHAN in finalizers:
            for kind, dependent in filter(None, map(self._find, self._dependents_of(record.uid))):
                references = dependent.obj["metadata"]["ownerReferences"]
                self._store(
                    kind, dependent, ownerReferences=[r for r in references if r["uid"] != record.uid]
                )
            self._store(resource, record, finalizers=[item for item in finalizers if item != ORPHAN])
        elif FOREGROUND in finalizers and not self._is_blocked(record.uid):
            self._store(resource, record, finalizers=[item for item in finalizers if item != FOREGROUND])

    def _is_blocked(self, uid: str) -> bool:
        """Whether an owner has to wait for a dependent. For one that waits for it, too, it would for ever."""
        return any(not self._waits_for(blocking, uid) for blocking in self._blocking(uid))

    def _blocking(self, uid: str) -> Iterator[str]:
        """The dependents without which an owner is not to go, by uid."""
        for _, dependent in filter(None, map(self._find, self._dependents.get(uid, ()))):
            if _blocks(dependent, uid):
                yield dependent.uid

    def _waits_for(self, uid: str, other: str) -> bool:
        """Whether an object is this other one, or goes only after it."""
        ahead, seen = [uid], set[str]()
        while ahead and ahead[-1] != other:
            if (one := ahead.pop()) in self._foreground and one not in seen:
                seen.add(one)
                ahead.extend(self._blocking(one))
        return bool(ahead)

    def _dependents_of(self, uid: str) -> list[Dependent]:
        return sorted(self._dependents.get(uid, ()))

    # --- namespaces and definitions -----------------------------------------------------------------

    async def _empty_namespace(self, name: str) -> None:
        record = self._registry.store.collection(NAMESPACES).get("", name)
        if record is None or "deletionTimestamp" not in record.obj["metadata"]:
            return
        await self._delete_each(list(self._contents(name)), "Background")
        record = self._registry.store.collection(NAMESPACES).get("", name)
        namespaces = self._catalogue.get(*NAMESPACES)
        if (
            next(self._contents(name), None) is None
            and record is not None
            and namespaces is not None
            and record.obj["spec"].get("finalizers")
        ):
            metadata = dict(record.obj["metadata"])
            self._registry.store_update(namespaces, record, {**record.obj, "metadata": metadata, "spec": {}})

    def _contents(self, namespace: str) -> Iterator[tuple[Resource, Record]]:
        for resource in list(self._catalogue):
            if resource.namespaced and resource.stored_as in (None, resource.key):
                for record in self._registry.collection(resource).records(namespace):
                    yield resource, record

    async def _empty_definition(self, name: str) -> None:
        """Delete the objects of a definition that is going; nobody's admission is asked about these."""
        record = self._definition_going(name)
        if record is None:
            self._definitions_going.discard(name)
            return
        spec = record.obj["spec"]
        resource = self._catalogue.get(spec["group"], spec["names"]["plural"])
        if resource is not None:
            collection = self._registry.collection(resource)
            records = [(resource, item) for item in collection.records()]
            await self._delete_each(records, "Background", admitted=True)
            if collection.count:
                self._definitions_going.add(name)
                return
        self._definitions_going.discard(name)
        current = self._definition_going(name)
        owner = self._catalogue.get(*crds.KEY)
        if current is not None and owner is not None:
            finalizers = current.obj["metadata"]["finalizers"]
            self._store(owner, current, finalizers=[item for item in finalizers if item != crds.CLEANUP])

    def _definition_going(self, name: str) -> Record | None:
        """A definition that waits for its objects to go; one that came after it does not."""
        record = self._registry.store.collection(crds.KEY).get("", name)
        metadata = record.obj["metadata"] if record is not None else {}
        going = "deletionTimestamp" in metadata and crds.CLEANUP in (metadata.get("finalizers") or ())
        return record if going else None


def _owner_uids(metadata: Obj) -> list[str]:
    return [reference["uid"] for reference in metadata.get("ownerReferences") or ()]


def _propagation(metadata: Obj) -> str:
    """What is to become of the dependents of an object, as its finalizers say."""
    finalizers = metadata.get("finalizers") or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _blocks(dependent: Record, uid: str) -> bool:
    references = dependent.obj["metadata"].get("ownerReferences") or ()
    return any(reference["uid"] == uid and reference.get("blockOwnerDeletion") for reference in references)
