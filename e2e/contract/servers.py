"""The two servers that are asked: API servers alone, without controllers and nodes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from deadlines import patience
from kai_local.processes import probes
from kai_local.processes.ports import LOOPBACK, free_ports
from kai_local.processes.programs import Program
from kai_local.processes.supervisor import Supervisor
from kai_local.real import binaries
from kai_local.real.programs import ControlPlane


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Path]:
    """Our own; its kubeconfig."""
    (port,) = free_ports(1)
    listen = f"{LOOPBACK}:{port}"
    flags = ("--listen", listen, "--dir", str(folder / "server"), "--authorization", "rbac")
    command = (sys.executable, "-m", "kai_local.apiserver", *flags)
    ready = probes.http(f"https://{listen}/readyz", folder / "server" / "ca.crt")
    async with Supervisor(folder / "logs") as supervisor:
        supervisor.start(Program("apiserver", command, ready=ready))
        await supervisor.wait_ready(["apiserver"], patience(2))
        yield folder / "server" / "kubeconfig"


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Path]:
    """etcd and kube-apiserver; the administrator's kubeconfig. Raises ``BinariesMissing``."""
    etcd, peer, api, controllers, kwok = free_ports(5)
    plane = ControlPlane(
        binaries=binaries.find(("etcd", "kube-apiserver")),
        folder=folder / "server",
        etcd_port=etcd,
        etcd_peer_port=peer,
        api_port=api,
        controllers_port=controllers,
        kwok_port=kwok,
    )
    plane.folder.mkdir(parents=True)
    async with Supervisor(folder / "logs") as supervisor:
        await supervisor.run_to_end(plane.credentials())
        for program in (plane.etcd(), plane.api_server()):
            supervisor.start(program)
            await supervisor.wait_ready([program.name], patience(2))
        yield plane.folder / "kubeconfig"
