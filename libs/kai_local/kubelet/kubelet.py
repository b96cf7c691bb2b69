"""Plays the kubelets of all nodes: watches what is bound to them and writes what becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Address

import structlog

from kai.kube import resources
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.workqueue import WorkQueue
from kai.model.objects import Node
from kai_local.kubelet.cluster import References
from kai_local.kubelet.ledger import NodeLedger
from kai_local.kubelet.life import PodLife, Stage
from kai_local.kubelet.lifecycle import Annotate, Delete, Effect, PatchStatus, Report, recover, step
from kai_local.kubelet.nodes import (
    HOSTNAME_LABEL,
    NODE_LEASE_NAMESPACE,
    NodeShape,
    lease_manifest,
    node_manifest,
    node_name,
    node_status,
)
from kai_local.kubelet.status import lost
from kai_local.parts.objects import LocalPod
from kai_local.parts.this_machine import runs_here
from kai_local.parts.watches import Watches

_WORKERS = 16
_LEASE_SECONDS = 1200
#: How long pods are left alone whose node is not there: those that watch nodes may be behind.
_QUARANTINE_SECONDS = 40.0
_POD_NETWORK = int(IPv4Address("10.244.0.0"))
_POD_ADDRESSES = 2**16 - 2

_log = structlog.get_logger(__name__)


class Kubelets:
    """All nodes of the cluster: ``count`` of its own making and any that somebody adds.

    :meth:`run` goes on until cancelled; ``ready`` is set when the nodes exist and all pods are known.
    """

    def __init__(
        self,
        client: KubeClient,
        watches: Watches,
        *,
        count: int,
        shape: NodeShape,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ready = asyncio.Event()
        self._client = client
        self._count = count
        self._shape = shape
        self._clock = clock
        self._watches = watches
        self._pods, self._nodes = watches.pods, watches.nodes
        self._work: WorkQueue[str] = WorkQueue("pods")
        self._node_work: WorkQueue[str] = WorkQueue("nodes")
        self._references = References(client, self._work.add)
        self._ledgers: dict[str, NodeLedger] = {}
        #: When pods of nodes that are not there are given up.
        self._gone: dict[str, float] = {}
        self._lives: dict[str, PodLife] = {}
        self._outbox: dict[str, list[Effect]] = {}
        self._events = EventRecorder(client, controller="kubelet")
        self._next_address = 0
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)

    async def run(self) -> None:
        """Register the nodes, take over the pods that run already, and go on."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            for reflector, store in self._references.reflectors:
                tasks.create_task(reflector.run(store))
            await self._register()
            await self._watches.ready.wait()
            for reflector, _ in self._references.reflectors:
                await reflector.synced.wait()
            self._recover()
            tasks.create_task(self._node_work.run(self._tend_node, workers=4))
            tasks.create_task(self._work.run(self._tend_pod, workers=_WORKERS))
            tasks.create_task(self._heartbeat())
            self.ready.set()
            _log.info("nodes are up", nodes=len(self._nodes), pods=len(self._pods))

    # --- nodes ---------------------------------------------------------------------------------
    async def _register(self) -> None:
        limit = asyncio.Semaphore(_WORKERS)

        async def register(name: str) -> None:
            manifest = node_manifest(name, self._shape)
            manifest["status"] |= node_status(name, "127.0.0.1", self._clock())
            async with limit:
                try:
                    await self._client.create(resources.NODES, manifest)
                except AlreadyExists:
                    return

        async with asyncio.TaskGroup() as tasks:
            for index in range(self._count):
                tasks.create_task(register(node_name(index)))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._gone[old.metadata.name] = self._clock()
                self._ledgers.pop(old.metadata.name, None)
                self._wake_pods_of(old.metadata.name)
            return
        name = new.metadata.name
        self._gone.pop(name, None)
        ledger = self._ledgers.get(name)
        if ledger is None:
            ledger = self._ledgers[name] = NodeLedger(name)
            self._keep_lives_on(ledger)
            self._wake_pods_of(name)
        ledger.resize(new.status.allocatable)
        if not any(condition.type == "Ready" for condition in new.status.conditions or ()):
            self._node_work.add(name)

    def _keep_lives_on(self, ledger: NodeLedger) -> None:
        """Pods that live on a node which was away for a moment have their devices still."""
        for pod in self._pods.by_index("node", ledger.name):
            life = self._lives.get(pod.metadata.uid)
            if life is not None and life.stage in (Stage.WAITING, Stage.RUNNING):
                ledger.restore(pod, life.devices)

    def _wake_pods_of(self, node: str) -> None:
        for pod in self._pods.by_index("node", node):
            if not runs_here(pod.labels, node):
                self._work.add(pod.key)

    async def _tend_node(self, name: str) -> None:
        """Be the kubelet of a node that somebody made without one."""
        node = self._nodes.get(name)
        if node is None:
            return
        status = node_status(name, "127.0.0.1", self._clock())
        if not node.status.allocatable:
            resources_ = node_manifest(name, self._shape)["status"]
            status |= {"capacity": node.status.capacity or resources_["capacity"]}
            status |= {"allocatable": node.status.capacity or resources_["allocatable"]}
        if HOSTNAME_LABEL not in node.labels:
            labels = {"metadata": {"labels": {HOSTNAME_LABEL: name}}}
            await self._client.patch(resources.NODES, name, labels)
        await self._client.patch(
            resources.NODES, name, {"status": status}, subresource="status", kind=PatchKind.STRATEGIC
        )
        await self._renew(node)

    async def _heartbeat(self) -> None:
        """Renew the nodes' leases: often enough to be seen, seldom enough to cost nothing."""
        while True:
            for node in list(self._nodes):
                with contextlib.suppress(KubeError):  # the next one will do
                    await self._renew(node)
            await asyncio.sleep(_LEASE_SECONDS / 2)

    async def _renew(self, node: Node) -> None:
        name = node.metadata.name
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = lease_manifest(name, node.metadata.uid, now, _LEASE_SECONDS)
        try:
            await self._client.create(resources.LEASES, lease, namespace=NODE_LEASE_NAMESPACE)
        except AlreadyExists:
            patch = {"spec": lease["spec"]}
            await self._client.patch(resources.LEASES, name, patch, namespace=NODE_LEASE_NAMESPACE)
        except NotFound:
            _log.info("no namespace for heartbeats", namespace=NODE_LEASE_NAMESPACE)

    # --- pods ----------------------------------------------------------------------------------
    def _recover(self) -> None:
        """Give the pods that run already their devices back before anybody else gets them."""
        for pod in self._pods:
            ledger = self._ledgers.get(pod.spec.node_name)
            life = recover(pod, ledger) if ledger is not None else None
            if life is not None:
                self._lives[pod.metadata.uid] = life
            if not runs_here(pod.labels, pod.spec.node_name):
                self._next_address = max(self._next_address, _number_of(pod.status.pod_ip))

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old)
        if new is not None and new.spec.node_name and not runs_here(new.labels, new.spec.node_name):
            self._work.add(new.key)

    def _forget(self, pod: LocalPod) -> None:
        uid = pod.metadata.uid
        ledger = self._ledgers.get(pod.spec.node_name)
        if ledger is not None:
            ledger.release(uid)
        self._lives.pop(uid, None)
        self._outbox.pop(uid, None)

    async def _tend_pod(self, key: str) -> float | None:
        """One step in the life of a pod; the seconds until its next one."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        uid, again_at = pod.metadata.uid, None
        outbox = self._outbox.setdefault(uid, [])
        ledger = self._ledgers.get(pod.spec.node_name)
        if ledger is not None:
            life = self._lives.get(uid)
            if life is None:
                life = self._lives[uid] = PodLife(self._address())
            answer = step(pod, life, ledger, self._references, self._clock())
            outbox.extend(answer.effects)
            again_at = answer.again_at
            if life.missing is not None:
                self._references.wait_for(life.missing, key)
        else:
            again_at = self._give_up(pod, outbox)
        await self._send(pod, outbox)
        return None if again_at is None else max(0.0, again_at - self._clock())

    def _give_up(self, pod: LocalPod, outbox: list[Effect]) -> float | None:
        """Remove a pod whose node is not there, or say when to look again: the node may come into sight."""
        now = self._clock()
        gone_at = self._gone.setdefault(pod.spec.node_name, now + _QUARANTINE_SECONDS)
        if now < gone_at and not pod.terminating:
            return gone_at
        if pod.metadata.finalizers and not pod.terminal:
            outbox.append(PatchStatus(lost(now)))
        outbox.append(Delete())
        return None

    def _address(self) -> str:
        self._next_address = self._next_address % _POD_ADDRESSES + 1
        return str(IPv4Address(_POD_NETWORK + self._next_address))

    async def _send(self, pod: LocalPod, outbox: list[Effect]) -> None:
        """Write what is to be written, in order. What fails stays in the outbox and is tried again."""
        try:
            while outbox:
                await self._apply(pod, outbox[0])
                outbox.pop(0)
        except (NotFound, Conflict):  # it is gone, or another one has its name
            outbox.clear()
        if not outbox:
            self._outbox.pop(pod.metadata.uid, None)

    async def _apply(self, pod: LocalPod, effect: Effect) -> None:
        meta = pod.metadata
        match effect:
            case PatchStatus(status):
                await self._client.patch(
                    resources.PODS,
                    meta.name,
                    {"metadata": {"uid": meta.uid}, "status": status},
                    namespace=meta.namespace,
                    subresource="status",
                    kind=PatchKind.STRATEGIC,
                )
            case Annotate(annotations):
                patch = {"metadata": {"uid": meta.uid, "annotations": annotations}}
                await self._client.patch(resources.PODS, meta.name, patch, namespace=meta.namespace)
            case Delete():
                await self._client.delete(
                    resources.PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_seconds=0
                )
            case Report(kind, reason, message):
                self._events.emit(
                    _reference(pod), "Normal" if kind == "Normal" else "Warning", reason, message
                )


def _number_of(address: str) -> int:
    """Which of the pods' addresses this is; 0 for one that somebody else has given."""
    try:
        number = int(IPv4Address(address)) - _POD_NETWORK
    except ValueError:
        return 0
    return number if 0 < number <= _POD_ADDRESSES else 0


def _reference(pod: LocalPod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )
