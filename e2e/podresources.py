"""A kubelet that tells what it gave to pods, and a ``/sys`` with NUMA nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from kai.wire.kubelet import podresources_pb2 as pb
from kai.wire.kubelet import podresources_pb2_grpc as pb_grpc


# --- what it tells -----------------------------------------------------------------------------
def devices(resource: str, *ids: str, zones: tuple[int, ...] = (0,)) -> pb.ContainerDevices:
    """Devices, each of which is near these NUMA nodes."""
    return pb.ContainerDevices(resource_name=resource, device_ids=ids, topology=_topology(zones))


def memory(kind: str, size: int, *, zones: tuple[int, ...] = (0,)) -> pb.ContainerMemory:
    """Memory of these NUMA nodes."""
    return pb.ContainerMemory(memory_type=kind, size=size, topology=_topology(zones))


def _topology(zones: tuple[int, ...]) -> pb.TopologyInfo | None:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=zone) for zone in zones]) if zones else None


def container(
    *given: pb.ContainerDevices | pb.ContainerMemory, cpus: tuple[int, ...] = ()
) -> pb.ContainerResources:
    """A container with these devices and this memory, and with CPUs of its own."""
    return pb.ContainerResources(
        name="main",
        devices=[each for each in given if isinstance(each, pb.ContainerDevices)],
        memory=[each for each in given if isinstance(each, pb.ContainerMemory)],
        cpu_ids=cpus,
    )


def given(name: str, *containers: pb.ContainerResources, namespace: str = "team") -> pb.PodResources:
    """What a pod was given."""
    return pb.PodResources(name=name, namespace=namespace, containers=containers)


# --- who tells it ------------------------------------------------------------------------------
class PlayedKubelet(pb_grpc.PodResourcesListerServicer):
    """Answers with ``pods``; with ``failure`` it does not."""

    def __init__(self) -> None:
        self.pods: list[pb.PodResources] = []
        self.failure: grpc.StatusCode | None = None
        self.asked = 0

    async def List(  # noqa: N802 (the service's name for it)
        self, request: pb.ListPodResourcesRequest, context: Any
    ) -> pb.ListPodResourcesResponse:
        self.asked += 1
        if self.failure is not None:
            await context.abort(self.failure, "not now")
        return pb.ListPodResourcesResponse(pod_resources=self.pods)


@asynccontextmanager
async def a_kubelet(socket: Path) -> AsyncIterator[PlayedKubelet]:
    """A kubelet at this socket while the block runs."""
    kubelet = PlayedKubelet()
    server = grpc.aio.server()
    pb_grpc.add_PodResourcesListerServicer_to_server(kubelet, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield kubelet
    finally:
        await server.stop(None)


def a_sysfs(folder: Path, *cpulists: str) -> Path:
    """The root of a ``/sys`` whose NUMA nodes have these CPUs."""
    nodes = folder / "sys" / "devices" / "system" / "node"
    nodes.mkdir(parents=True)
    (nodes / "possible").write_text("0-1\n")
    for number, cpus in enumerate(cpulists):
        (nodes / f"node{number}").mkdir()
        (nodes / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    return folder / "sys"
