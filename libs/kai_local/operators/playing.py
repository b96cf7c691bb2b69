"""What operators make of their workloads, made again where it goes, and no more of it than is asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.reflector import Reflector
from kai.kube.resources import Resource
from kai.kube.store import Store
from kai.kube.workqueue import WorkQueue
from kai.model.objects import Json
from kai.workloads.making import TooManyPods, amended, children_of
from kai_local.controllers.actions import Action, Create, Delete, Patch
from kai_local.controllers.actor import Actor
from kai_local.controllers.expectations import Expectations
from kai_local.controllers.objects import Workload
from kai_local.operators.definitions import a_definition
from kai_local.operators.projects import Served
from kai_local.parts.furnishing import ensure, until_served
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import Watches, controller_of

#: Kind, API group and ``namespace/name`` of a workload.
Key = tuple[str, str, str]

_WORKERS = 4
#: Changes of pods come in bunches; one look at all of them is enough.
_SETTLE_SECONDS = 0.05
#: Whom others make pods of.
_CONTROLLED = (resources.JOBS, resources.DEPLOYMENTS, resources.STATEFUL_SETS)

_log = structlog.get_logger(__name__)


class Operators:
    """All of them over one set of watches. :meth:`run` goes on until cancelled."""

    def __init__(
        self,
        client: KubeClient,
        watches: Watches,
        kinds: Iterable[Served],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ready = asyncio.Event()
        self._client = client
        self._kinds = list(kinds)
        self._queue: WorkQueue[Key] = WorkQueue("workloads of operators")
        self._expectations = Expectations(clock)
        self._events = EventRecorder(client, controller="kai-local-operators")
        self._actor = Actor(client, self._expectations, self._events)
        self._watches = watches
        self._stores: dict[tuple[str, str], tuple[Resource, Store[Workload]]] = {}
        self._reflectors: list[tuple[Reflector[Workload], Store[Workload]]] = []
        for kind in self._kinds:
            store: Store[Workload] = Store()
            store.listen(self._listener(kind.kind, kind.group))
            self._stores[kind.kind, kind.group] = kind.resource, store
            self._reflectors.append((Reflector(client, kind.resource, Workload), store))
        watches.pods.listen(self._pod_changed)

    async def run(self) -> None:
        """Have the kinds served, then watch and make."""
        definitions = [a_definition(kind.group, kind.kind, kind.versions) for kind in self._kinds]
        for definition in definitions:
            await ensure(self._client, resources.CRDS, definition)
        await until_served(self._client, definitions)
        async with asyncio.TaskGroup() as tasks:
            for reflector, store in self._reflectors:
                tasks.create_task(reflector.run(store))
            for reflector, _ in self._reflectors:
                await reflector.synced.wait()
            await self._watches.ready.wait()
            tasks.create_task(self._events.run())
            tasks.create_task(self._queue.run(self._work, workers=_WORKERS))
            self.ready.set()
            _log.info("operators play", kinds=[f"{kind}.{group}" for kind, group in self._stores])

    def _listener(self, kind: str, group: str) -> Callable[[Workload | None, Workload | None], None]:
        def changed(old: Workload | None, new: Workload | None) -> None:
            if new is not None:
                self._queue.add((kind, group, new.key))

        return changed

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        pod = new or old
        owner = controller_of(pod) if pod is not None else None
        group = owner.api_version.rpartition("/")[0] if owner is not None else ""
        if pod is None or owner is None or (owner.kind, group) not in self._stores:
            return
        if old is None:
            self._expectations.created(owner.uid)
        if new is None:
            self._expectations.deleted(pod.metadata.uid)
        self._queue.add_after((owner.kind, group, f"{pod.metadata.namespace}/{owner.name}"), _SETTLE_SECONDS)

    async def _work(self, key: Key) -> float | None:
        kind, group, name = key
        resource, store = self._stores[kind, group]
        workload = store.get(name)
        if workload is None or workload.terminating:
            return None
        uid = workload.metadata.uid
        if remaining := self._expectations.remaining(uid):
            return remaining
        body = _body(resource, workload)
        pods = self._watches.pods.by_index("owner", uid)
        try:
            actions = self._plan(resource, body, pods)
        except TooManyPods as error:
            self._events.emit(_reference(resource, workload), "Warning", "TooManyPods", str(error))
            return None
        await self._actor.carry_out(actions, uid)
        return None

    def _plan(self, resource: Resource, body: Json, pods: Iterable[LocalPod]) -> list[Action]:
        """Pods that lack are made and those too many deleted; other objects are made."""
        whole = amended(body)
        meta = body["metadata"]
        actions: list[Action] = []
        if whole is not body:
            patch = {"status": whole["status"]}
            actions.append(Patch(resource, meta["namespace"], meta["name"], patch))
        made = {child["metadata"]["name"]: child for child in children_of(whole)}
        there = {pod.metadata.name: pod for pod in pods}
        for name, child in made.items():
            if child["kind"] != "Pod" or name not in there:
                actions.append(Create(self._resource_of(child), meta["namespace"], _new(child)))
        surplus = (pod for name, pod in there.items() if name not in made)
        actions += [
            Delete.of(resources.PODS, pod) for pod in surplus if not pod.terminal and not pod.terminating
        ]
        return actions

    def _resource_of(self, child: Json) -> Resource:
        if child["kind"] == "Pod":
            return resources.PODS
        for resource in _CONTROLLED:
            if (resource.api_version, resource.kind) == (child["apiVersion"], child["kind"]):
                return resource
        resource, _ = self._stores[child["kind"], child["apiVersion"].rpartition("/")[0]]
        return resource


def _reference(resource: Resource, workload: Workload) -> ObjectReference:
    meta = workload.metadata
    return ObjectReference(resource.api_version, resource.kind, meta.namespace, meta.name, meta.uid)


def _body(resource: Resource, workload: Workload) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **msgspec.to_builtins(workload)}


def _new(child: Json) -> Json:
    """As one sends it: what a server says of an object is left to it."""
    metadata: dict[str, Any] = {
        **child["metadata"],
        "ownerReferences": [
            {**owner, "blockOwnerDeletion": True} for owner in child["metadata"]["ownerReferences"]
        ],
    }
    metadata.pop("uid", None)
    spec = dict(child["spec"])
    if child["kind"] in ("Deployment", "StatefulSet"):
        spec = _selecting(spec, {"kai.scheduler/local-owner": child["metadata"]["name"]})
    return {"metadata": metadata, "spec": spec}


def _selecting(spec: Json, labels: Json) -> Json:
    """With the selector that a server asks for, and pods that it selects."""
    template = spec["template"]
    metadata = template.get("metadata") or {}
    together = {**(metadata.get("labels") or {}), **labels}
    return {
        **spec,
        "selector": {"matchLabels": labels},
        "template": {**template, "metadata": {**metadata, "labels": together}},
    }
