"""``python -m kai_local.real.devices``: the hardware of a cluster whose nodes KWOK plays.

It registers the Node objects with their GPUs, and does what a device plugin and the kubelet's device
manager do: hand devices to pods, tell on a reservation pod which one it got, and refuse a pod for which there
is none. So a node that is booked twice shows, as it would on hardware. It is also the scheduler of those pods
that name none, where kube-scheduler is no part of the cluster. Real nodes it leaves alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from kai.kube import resources
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import AlreadyExists, NotFound
from kai.kube.resources import Resource
from kai.kube.workqueue import WorkQueue
from kai.model import names
from kai.model.objects import Node
from kai_local.controllers.placing import Placing
from kai_local.kubelet import status
from kai_local.kubelet.__main__ import add_shape
from kai_local.kubelet.ledger import Devices, NodeLedger, Rejection
from kai_local.kubelet.nodes import NodeShape, node_manifest, node_name, node_status
from kai_local.node.kubelet import REAL_LABEL, REAL_VALUE
from kai_local.parts.objects import LocalPod
from kai_local.parts.program import Part, run_program
from kai_local.parts.requests import container_requests
from kai_local.parts.this_machine import runs_here
from kai_local.parts.watches import Watches
from kai_local.processes.ports import LOOPBACK

_WORKERS = 16
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)

_log = structlog.get_logger(__name__)


class DeviceManager:
    """The devices of all nodes. :meth:`run` goes on until cancelled; ``ready`` is set once nodes exist."""

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
        self._watches = watches
        self._count = count
        self._shape = shape
        self._clock = clock
        self._ledgers: dict[str, NodeLedger] = {}
        self._work: WorkQueue[str] = WorkQueue("devices")

    async def run(self) -> None:
        """Register the nodes, take over what is handed out already, and go on."""
        await self._register()
        await self._watches.ready.wait()
        for node in self._watches.nodes:
            self._node_changed(None, node)
        self._watches.nodes.listen(self._node_changed)
        self._watches.pods.listen(self._pod_changed)
        for pod in self._watches.pods:
            self._work.add(pod.key)
        self.ready.set()
        _log.info("nodes are registered", nodes=len(self._watches.nodes))
        await self._work.run(self._tend, workers=_WORKERS)

    async def _register(self) -> None:
        limit = asyncio.Semaphore(_WORKERS)

        async def register(name: str) -> None:
            manifest = node_manifest(name, self._shape)
            manifest["status"] |= node_status(name, LOOPBACK, self._clock())
            async with limit:
                try:
                    await self._client.create(resources.NODES, manifest)
                except AlreadyExists:
                    return

        with contextlib.suppress(AlreadyExists):  # the GPU operator brings it
            await self._client.create(RUNTIME_CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        async with asyncio.TaskGroup() as tasks:
            for index in range(self._count):
                tasks.create_task(register(node_name(index)))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._ledgers.pop(old.metadata.name, None)
            return
        if new.labels.get(REAL_LABEL) == REAL_VALUE:
            return  # its kubelet hands out its devices
        name = new.metadata.name
        if name in self._ledgers:
            self._ledgers[name].resize(new.status.allocatable)
            return
        ledger = self._ledgers[name] = NodeLedger(name)
        ledger.resize(new.status.allocatable)
        for pod in sorted(self._watches.pods.by_index("node", name), key=_told_first):
            self._restore(pod)
            self._work.add(pod.key)

    def _restore(self, pod: LocalPod) -> None:
        """A device that was told is taken; which ones the other pods have, nobody has asked."""
        ledger, told = self._ledgers.get(pod.spec.node_name), pod.annotations.get(names.RESERVED_GPU)
        if ledger is None or pod.terminal:
            return
        if told:
            ledger.restore(pod, {pod.spec.containers[0].name: {names.NVIDIA_GPU: [told]}})
        else:
            ledger.admit(pod)

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid or new.terminal):
            ledger = self._ledgers.get(old.spec.node_name)
            if ledger is not None:
                ledger.release(old.metadata.uid)
        if new is not None and new.spec.node_name and not new.terminal:
            self._work.add(new.key)

    async def _tend(self, key: str) -> None:
        """Give a pod what it needs, once, and tell it or refuse it."""
        pod = self._watches.pods.get(key)
        ledger = self._ledgers.get(pod.spec.node_name) if pod is not None else None
        if pod is None or ledger is None or pod.terminal or pod.terminating:
            return
        if runs_here(pod.labels, pod.spec.node_name):
            return
        answer = ledger.admit(pod)
        try:
            if isinstance(answer, Rejection):
                await self._refuse(pod, answer)
            elif device := _device_to_tell(pod, answer):
                await self._tell(pod, device)
        except NotFound:
            ledger.release(pod.metadata.uid)

    async def _tell(self, pod: LocalPod, device: str) -> None:
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {names.RESERVED_GPU: device}}}
        await self._client.patch(resources.PODS, meta.name, patch, namespace=meta.namespace)

    async def _refuse(self, pod: LocalPod, rejection: Rejection) -> None:
        meta = pod.metadata
        _log.warning("pod refused", pod=pod.key, node=pod.spec.node_name, reason=rejection.reason)
        patch = {"metadata": {"uid": meta.uid}, "status": status.rejected(rejection, self._clock())}
        await self._client.patch(
            resources.PODS,
            meta.name,
            patch,
            namespace=meta.namespace,
            subresource="status",
            kind=PatchKind.STRATEGIC,
        )


def _told_first(pod: LocalPod) -> bool:
    return names.RESERVED_GPU not in pod.annotations


def _device_to_tell(pod: LocalPod, held: Devices) -> str:
    """The device that a reservation pod's program would report, unless it has."""
    if pod.labels.get(names.APP_LABEL) != names.RESERVATION_APP or names.RESERVED_GPU in pod.annotations:
        return ""
    wanting = (c.name for c in pod.spec.containers if container_requests(c).get(names.NVIDIA_GPU))
    devices = (held.get(name, {}).get(names.NVIDIA_GPU, []) for name in wanting)
    return next((device for several in devices for device in several), "")


def main() -> None:
    """Be the hardware until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.real.devices", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--ready-file", type=Path, help="made when the nodes are registered")
    parser.add_argument(
        "--kube-scheduler", action="store_true", help="pods that name no scheduler are placed by it"
    )
    add_shape(parser)
    args = parser.parse_args()
    shape = NodeShape(
        gpus=args.gpus_per_node,
        cpus=args.cpus_per_node,
        memory=args.memory_per_node,
        gpu_memory_mib=args.gpu_memory,
    )

    def make(client: KubeClient) -> list[Part]:
        watches = Watches(client)
        parts: list[Part] = [watches, DeviceManager(client, watches, count=args.nodes, shape=shape)]
        if not args.kube_scheduler:
            parts.append(Placing(client, watches.pods, watches.nodes, chart_elsewhere=args.chart))
        return parts

    run_program(make, name="devices", kubeconfig=args.kubeconfig, ready_file=args.ready_file)


if __name__ == "__main__":
    main()
