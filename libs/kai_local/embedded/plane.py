"""Our own API server, controllers and nodes as the plane of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kai_local.processes import probes
from kai_local.processes.ports import LOOPBACK
from kai_local.processes.programs import Program
from kai_local.processes.supervisor import Supervisor

_PATIENCE = 60.0
_MACHINERY = "machinery"
_API_SERVER = "apiserver"
_LEAN = {"MALLOC_ARENA_MAX": "2"}


class EmbeddedPlane:
    """Our own: one process is the API server, one all the rest.

    ``shape``: flags of the nodes. ``rbac``: whether stored roles say who may do what, or everybody may.
    ``egress``: the ``host:port`` at which this machine's agent leads to the chart's pods, if it runs them.
    ``runtime_config``: which versions are served where there are several.
    """

    programs: Sequence[str] = (_MACHINERY, _API_SERVER)

    def __init__(
        self,
        folder: Path,
        port: int,
        shape: Sequence[str],
        *,
        rbac: bool = False,
        egress: str = "",
        runtime_config: str = "",
    ) -> None:
        self.url = f"https://{LOOPBACK}:{port}"
        self._folder = folder
        self._listen = f"{LOOPBACK}:{port}"
        self._shape = (*shape, "--chart") if egress else tuple(shape)
        self._egress = egress
        self._runtime_config = runtime_config
        self._authorization = "rbac" if rbac else "always-allow"

    async def start(self, supervisor: Supervisor) -> None:
        """Start the API server. Killed, it is started again and goes on with what is in its folder."""
        self._folder.mkdir(exist_ok=True)
        flags = (
            f"--listen={self._listen}",
            f"--dir={self._folder}",
            f"--authorization={self._authorization}",
            *([f"--egress={self._egress}"] if self._egress else ()),
            *([f"--runtime-config={self._runtime_config}"] if self._runtime_config else ()),
        )
        supervisor.start(
            Program(
                _API_SERVER,
                (sys.executable, "-m", "kai_local.apiserver", *flags),
                _LEAN,
                ready=probes.http(f"{self.url}/readyz", self._folder / "ca.crt"),
                address=self.url,
            )
        )
        await supervisor.wait_ready([_API_SERVER], _PATIENCE)

    def nodes(self) -> list[Program]:
        """Kubelets and controllers in one process."""
        ready_file = self._folder / f"{_MACHINERY}.ready"
        config = self._folder / f"{_MACHINERY}.kubeconfig"
        flags = [f"--kubeconfig={config}", f"--ready-file={ready_file}", *self._shape]
        command = (sys.executable, "-m", "kai_local.embedded.machinery", *flags)
        return [Program(_MACHINERY, command, _LEAN, ready=probes.file(ready_file))]

    async def join(self, supervisor: Supervisor) -> None:
        """Nothing is left to be brought up: its nodes are in that process."""
