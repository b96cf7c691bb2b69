"""A real control plane as the plane of a cluster, maybe with real nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kai_local.errors import ClusterError
from kai_local.kubelet.nodes import NodeShape
from kai_local.node import needs
from kai_local.node.nodes import Nodes
from kai_local.processes.ports import free_ports
from kai_local.processes.programs import Program
from kai_local.processes.supervisor import Supervisor
from kai_local.real import binaries
from kai_local.real.programs import ControlPlane

_PATIENCE = 180.0
#: What builds the programs of real nodes.
BUILD_NODES = "make controlplane PROGRAMS=nodes"


@dataclass(frozen=True, slots=True)
class Kubelets:
    """Which real nodes a cluster is to have. Each has the images of ``archives``."""

    count: int
    gpus: int
    gpu_memory_mib: int
    archives: tuple[Path, ...] = ()


def look_for_programs(directory: Path, *, kubelets: int = 0) -> None:
    """See that all is there of which a cluster in ``directory`` is made.

    Raises:
        ClusterError: something is not; says what, and where to get it.
    """
    binaries.find()
    if kubelets:
        found = []
        for look in (_programs_of_nodes, lambda: needs.require(directory)):
            try:
                look()
            except ClusterError as error:
                found.append(str(error))
        if found:
            raise ClusterError("\n".join(found))


def _programs_of_nodes() -> Mapping[str, Path]:
    return binaries.find(binaries.NODES, who="a cluster with real kubelets", target=BUILD_NODES)


class RealPlane:
    """etcd, kube-apiserver, kube-controller-manager, KWOK, and our stand-in for device plugins.

    With ``kubelets`` there are real nodes, a network that leads to them, kube-scheduler, and names.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        shape: Sequence[str],
        *,
        egress: str = "",
        runtime_config: str = "",
        kubelets: Kubelets | None = None,
    ) -> None:
        """``egress``: the socket at which this machine's agent leads to the chart's pods. ``runtime_config``:
        the API server's flag.

        Raises :class:`ClusterError` where something is missing.
        """
        etcd, peer, controllers, kwok = free_ports(4, taken={port})
        self.programs: Sequence[str] = ("devices", "kwok", "controllers", "apiserver", "etcd")
        self._nodes: Nodes | None = None
        self._archives: tuple[Path, ...] = ()
        self._plane = ControlPlane(
            binaries=binaries.find(),
            folder=folder,
            etcd_port=etcd,
            etcd_peer_port=peer,
            api_port=port,
            controllers_port=controllers,
            kwok_port=kwok,
            egress=egress,
            runtime_config=runtime_config,
        )
        if kubelets is not None:
            self._join(kubelets)
        self._shape = (*shape, "--chart") if egress else tuple(shape)
        self.url = self._plane.url

    async def start(self, supervisor: Supervisor) -> None:
        """Keys, then etcd, then the API server: each needs the one before."""
        if self._nodes is not None:
            await asyncio.to_thread(self._nodes.prepare)
        self._plane.folder.mkdir(exist_ok=True)
        self._plane.write_egress()
        await supervisor.run_to_end(self._plane.credentials())
        for program in (self._plane.etcd(), self._plane.api_server()):
            supervisor.start(program)
            await supervisor.wait_ready([program.name], _PATIENCE)

    def nodes(self) -> list[Program]:
        """The controllers, the hardware, who plays kubelets, and with real ones what serves all nodes."""
        shape = (*self._shape, "--kube-scheduler") if self._nodes is not None else self._shape
        programs = [self._plane.controllers(), self._plane.devices(*shape), self._plane.kwok()]
        if self._nodes is not None:
            programs += [self._plane.scheduler(), self._nodes.names_server(self._plane.folder)]
        return programs

    async def join(self, supervisor: Supervisor) -> None:
        """Bring the real nodes up, if there are to be any; returns when they are ready."""
        if self._nodes is not None:
            await self._nodes.start(supervisor, self._plane.folder, self._archives)

    def _join(self, kubelets: Kubelets) -> None:
        """Plan real nodes, and a control plane that they reach."""
        programs = {**self._plane.binaries, **_programs_of_nodes()}
        shape = NodeShape(gpus=kubelets.gpus, gpu_memory_mib=kubelets.gpu_memory_mib)
        nodes = Nodes(self._plane.folder.parent, count=kubelets.count, shape=shape, programs=programs)
        self._nodes, self._archives = nodes, kubelets.archives
        self.programs = (*nodes.program_names, "kube-scheduler", *self.programs)
        self._plane = replace(
            self._plane,
            binaries=programs,
            address=str(nodes.network.gateway),
            service_network=str(nodes.network.services),
            service_address=str(nodes.network.services[1]),
            kubelets={name: str(nodes.network.node(index)) for index, name in enumerate(nodes.names)},
        )
