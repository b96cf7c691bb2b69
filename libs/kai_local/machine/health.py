"""What a kubelet does for a process while it lives: asks its probes, and renews what it has mounted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kai.kube.errors import KubeError
from kai_local.machine.hosted import Hosted
from kai_local.machine.launch import CannotLaunch, Check, Manifest, Surroundings, write_mounts
from kai_local.machine.program import probe_of
from kai_local.machine.reports import Reports
from kai_local.processes.programs import State

_MOUNTS_EVERY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """Watches one process.

    ``folder`` has the pod's files; ``around`` finds what its manifest refers to; ``changed`` is told when its
    readiness has.
    """

    hosted: Hosted
    folder: Path
    around: Callable[[Manifest], Awaitable[Surroundings]]
    reports: Reports
    changed: Callable[[], None]

    async def watch(self) -> None:
        """Until cancelled."""
        launch = self.hosted.launch
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._renew_mounts())
            for check in (launch.ready, launch.alive):
                if check is not None:
                    tasks.create_task(self._ask(check))

    async def _renew_mounts(self) -> None:
        """A Secret or ConfigMap that changes changes in the pods that have it mounted, some time later."""
        while True:
            await asyncio.sleep(_MOUNTS_EVERY)
            with contextlib.suppress(KubeError, CannotLaunch, OSError):  # what is there stays
                write_mounts(self.hosted.pod, self.folder, await self.around(self.hosted.pod))

    async def _ask(self, check: Check) -> None:
        hosted, probe, failed = self.hosted, probe_of(check), 0
        while True:
            await asyncio.sleep(check.every)
            if hosted.child.state is not State.READY:
                failed = 0
                continue
            failed = 0 if await probe() else failed + 1
            if hosted.child.state is not State.READY or 0 < failed < check.failures:
                continue
            if check is hosted.launch.ready and hosted.ready != (failed == 0):
                hosted.ready = failed == 0
                self.changed()
            if check is hosted.launch.alive and failed and hosted.child.identity is not None:
                text = "Liveness probe failed: the process is killed"
                self.reports.emit(hosted.pod, "Warning", "Unhealthy", text)
                hosted.child.identity.signal(signal.SIGKILL)
                failed = 0
