"""What warnings and refusals go by, from watches that hold little and hold up nobody.

Admission works without any of it: what is not known is neither warned of nor refused, and an API server that
cannot be reached is tried again in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from kai.advice.facts import Capacity, Facts
from kai.advice.finding import Reference
from kai.advice.sizes import amount
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.kube.pace import Pace
from kai.kube.reflector import Change, Reflector, Removed, Upserted
from kai.kube.resources import DEVICE_CLASSES, NAMESPACES, NODES, PRIORITY_CLASSES, QUEUES
from kai.model import names
from kai.model.dra import DeviceClass
from kai.model.objects import ApiObject, ApiStruct, Queue, ResourceList
from kai.model.quantity import integer
from kai.model.rules.gpus import is_mig, shared_memory_mib
from kai_admission.looks import LIVE_READ_SECONDS, Looks

_CONNECT_SECONDS: Final = 30.0
#: Looks at who may use a queue.
_USE: Final = "use"

_log = structlog.get_logger(__name__)


class _NodeStatus(ApiStruct):
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None


class NodeRecord(ApiObject):
    """core/v1 Node, without most of it."""

    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class NodeBook:
    """The most that nodes ever offered; a sink for a reflector."""

    def __init__(self) -> None:
        self.capacity = Capacity()
        self._offers: dict[str, dict[str, float]] = {}
        self._total: dict[str, float] = {}

    def __call__(self, change: Change[NodeRecord]) -> None:
        """Take in a change."""
        if isinstance(change, Upserted):
            self._put(change.obj)
        elif isinstance(change, Removed):
            self._charge(self._offers.pop(change.obj_key, {}), sign=-1)

    def _put(self, node: NodeRecord) -> None:
        known, seen = self._offers.get(node.key, {}), self.capacity
        offer = _offer(node)
        seen.label_keys.update(node.labels)
        seen.gpu_memory_mib = max(seen.gpu_memory_mib, shared_memory_mib(node.labels) or 0)
        self._charge(known, sign=-1)
        self._offers[node.key] = offer
        self._charge(offer, sign=1)
        for resource, value in offer.items():
            if value > 0:
                seen.largest[resource] = max(seen.largest.get(resource, 0), value)
                seen.total[resource] = max(seen.total.get(resource, 0), self._total[resource])
        seen.nodes = max(seen.nodes, len(self._offers))

    def _charge(self, offer: dict[str, float], *, sign: int) -> None:
        for resource, value in offer.items():
            self._total[resource] = self._total.get(resource, 0) + sign * value


def _offer(node: NodeRecord) -> dict[str, float]:
    """What a node offers; of devices as many as it has, also while their plugin starts or is replaced."""
    offer = {resource: amount(text) for resource, text in (node.status.allocatable or {}).items()}
    for resource, text in (node.status.capacity or {}).items():
        if "/" in resource:
            offer[resource] = max(offer.get(resource, 0.0), amount(text))
    if (gpus := integer(node.labels.get(names.GPU_COUNT_LABEL))) is not None and not any(map(is_mig, offer)):
        offer[names.NVIDIA_GPU] = max(offer.get(names.NVIDIA_GPU, 0.0), float(gpus))
    return offer


class ClusterWatch:
    """Follows what facts are about while :meth:`run` runs; they begin with ``known``."""

    def __init__(
        self,
        known: Facts,
        *,
        kubeconfig: str = "",
        context: str = "",
        registry: CollectorRegistry | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._looks = Looks()
        self._known = known
        self._pace = pace
        #: For the first client only: metrics are registered once.
        self._registry = registry
        self._kubeconfig = kubeconfig
        self._context = context
        self._client: KubeClient | None = None
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._queues: dict[str, Queue] = {}
        self._priority_classes: set[str] = set()
        self._namespaces: dict[str, dict[str, str]] = {}
        self._device_classes: dict[str, tuple[str, ...]] = {}
        self._nodes = NodeBook()

    def facts(self) -> Facts:
        """What is known now; of kinds that were not read yet nothing."""
        return replace(
            self._known,
            queues=self._queues if self._has("queues") else None,
            priority_classes=self._priority_classes if self._has("priorityclasses") else None,
            capacity=self._nodes.capacity if self._has("nodes") else None,
            device_classes=self._device_classes if self._has("deviceclasses") else None,
            namespaces=self._namespaces if self._has("namespaces") else None,
        )

    def _has(self, plural: str) -> bool:
        reflector = self._reflectors.get(plural)
        return reflector is not None and reflector.synced.is_set()

    async def is_missing(self, reference: Reference) -> bool:
        """Whether an object that no watch knows is not there indeed: it may have been made this moment."""
        client = self._client
        if client is None:
            return False
        try:
            return await self._is_missing(client, reference.kind, reference.name)
        except KubeError:
            return False

    async def _is_missing(self, client: KubeClient, kind: str, name: str) -> bool:
        if kind == QUEUES.kind:
            return await self._looks.at(kind, name, lambda: _exists(_queue(client, name))) is False
        if kind == PRIORITY_CLASSES.kind:
            return await self._looks.at(kind, name, lambda: _exists(_priority_class(client, name))) is False
        backed = await self._looks.at(DEVICE_CLASSES.kind, "", lambda: _backed(client))
        return backed is not None and name not in backed

    async def renewed(self, namespace: str, queue: str) -> Facts:
        """What is known now, with this namespace, queue and those above it as the API server has them.

        Of an API server that was asked too often, or takes too long, it is what the watches tell. Where it
        does not answer nothing is known of the cluster.
        """
        client = self._client
        if client is None:
            return self._known

        async def read() -> tuple[ApiObject, dict[str, Queue | None]]:
            there = client.get(NAMESPACES, namespace, type=ApiObject, deadline=LIVE_READ_SECONDS)
            return await asyncio.gather(there, _lineage(client, queue))

        try:
            seen = await self._looks.at(_USE, (namespace, queue), read)
        except KubeError:
            return self._known
        facts = self.facts()
        if seen is None:
            return facts
        found, live = seen
        queues = {**(facts.queues or {}), **live}
        return replace(
            facts,
            queues={name: each for name, each in queues.items() if each is not None},
            namespaces={namespace: found.labels},
        )

    async def run(self) -> None:
        """Follow the cluster until cancelled, whatever happens to it."""
        backoff = Backoff(initial=1.0, maximum=60.0)
        while True:
            try:
                await self._follow()
            except* Exception as failed:  # noqa: BLE001 (no warning is worth the pods that we refuse)
                told = "; ".join(str(error) or repr(error) for error in failed.exceptions)
                _log.warning("warnings know nothing of the cluster", error=told)
            finally:
                self._client, self._reflectors = None, {}
            await asyncio.sleep(backoff.next())

    async def _follow(self) -> None:
        registry, self._registry = self._registry, None
        client = KubeClient.connect(
            self._kubeconfig or None,
            context=self._context or None,
            user_agent="kai-admission",
            wait=_CONNECT_SECONDS,
            registry=registry,
            pace=self._pace,
        )
        async with client, asyncio.TaskGroup() as tasks:
            self._client = client
            self._queues, self._nodes, self._priority_classes = {}, NodeBook(), set()
            self._namespaces, self._device_classes = {}, {}
            queues = Reflector(client, QUEUES, Queue)
            nodes = Reflector(client, NODES, NodeRecord)
            classes = Reflector(client, PRIORITY_CLASSES, ApiObject, metadata_only=True)
            namespaces = Reflector(client, NAMESPACES, ApiObject, metadata_only=True)
            devices = Reflector(client, DEVICE_CLASSES, DeviceClass, optional=True)
            followed = (queues, nodes, classes, namespaces, devices)
            self._reflectors = {each.resource.plural: each for each in followed}
            tasks.create_task(queues.run(self._take_queue), name="watch queues")
            tasks.create_task(nodes.run(self._nodes), name="watch nodes")
            tasks.create_task(classes.run(self._take_class), name="watch priorityclasses")
            tasks.create_task(namespaces.run(self._take_namespace), name="watch namespaces")
            tasks.create_task(devices.run(self._take_device_class), name="watch deviceclasses")

    def _take_queue(self, change: Change[Queue]) -> None:
        if isinstance(change, Upserted):
            self._queues[change.obj.metadata.name] = change.obj
        elif isinstance(change, Removed):
            self._queues.pop(change.obj_key, None)

    def _take_class(self, change: Change[ApiObject]) -> None:
        if isinstance(change, Upserted):
            self._priority_classes.add(change.obj.metadata.name)
        elif isinstance(change, Removed):
            self._priority_classes.discard(change.obj_key)

    def _take_device_class(self, change: Change[DeviceClass]) -> None:
        if isinstance(change, Upserted):
            self._device_classes[change.obj.metadata.name] = change.obj.resources
        elif isinstance(change, Removed):
            self._device_classes.pop(change.obj_key, None)

    def _take_namespace(self, change: Change[ApiObject]) -> None:
        if isinstance(change, Upserted):
            self._namespaces[change.obj.metadata.name] = change.obj.labels
        elif isinstance(change, Removed):
            self._namespaces.pop(change.obj_key, None)


async def _queue(client: KubeClient, name: str) -> ApiObject:
    return await client.get(QUEUES, name, type=ApiObject, deadline=LIVE_READ_SECONDS)


async def _priority_class(client: KubeClient, name: str) -> ApiObject:
    return await client.get(PRIORITY_CLASSES, name, type=ApiObject, deadline=LIVE_READ_SECONDS)


async def _exists(answer: Awaitable[ApiObject]) -> bool:
    try:
        await answer
    except NotFound:
        return False
    return True


async def _backed(client: KubeClient) -> frozenset[str]:
    """The extended resources that device classes stand behind."""
    classes = await client.list(DEVICE_CLASSES, type=DeviceClass)
    return frozenset(name for each in classes for name in each.resources)


async def _lineage(client: KubeClient, queue: str) -> dict[str, Queue | None]:
    """A queue and those above it by name; None for what does not exist."""
    found: dict[str, Queue | None] = {}
    name = queue
    while name and name not in found:
        try:
            live = await client.get(QUEUES, name, type=Queue, deadline=LIVE_READ_SECONDS)
        except NotFound:
            found[name] = None
            break
        found[name], name = live, live.spec.parent_queue
    return found
