"""A real control plane as the plane of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kai_local.processes.ports import free_ports
from kai_local.processes.supervisor import Program, Supervisor
from kai_local.real import binaries
from kai_local.real.programs import ControlPlane

_PATIENCE = 180.0


class RealPlane:
    """etcd, kube-apiserver, kube-controller-manager, KWOK, and our stand-in for device plugins."""

    programs: Sequence[str] = ("devices", "kwok", "controllers", "apiserver", "etcd")

    def __init__(
        self, folder: Path, port: int, shape: Sequence[str], *, egress: str = "", runtime_config: str = ""
    ) -> None:
        """``egress``: the socket at which this machine's agent leads to the chart's pods. ``runtime_config``:
        the API server's flag.

        Raises :class:`BinariesMissing`.
        """
        etcd, peer, controllers, kwok = free_ports(4, taken={port})
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
        self._shape = (*shape, "--chart") if egress else tuple(shape)
        self.url = self._plane.url

    async def start(self, supervisor: Supervisor) -> None:
        """Keys, then etcd, then the API server: each needs the one before."""
        self._plane.folder.mkdir(exist_ok=True)
        self._plane.write_egress()
        await supervisor.run_to_end(self._plane.credentials())
        for program in (self._plane.etcd(), self._plane.api_server()):
            supervisor.start(program)
            await supervisor.wait_ready([program.name], _PATIENCE)

    def nodes(self) -> list[Program]:
        """The controllers, the hardware, and who plays the kubelets."""
        return [self._plane.controllers(), self._plane.devices(*self._shape), self._plane.kwok()]
