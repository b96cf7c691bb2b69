"""A process that is kept running, as others read of it in a file."""

from __future__ import annotations

import msgspec

from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.programs import Child


class ProcessRecord(msgspec.Struct, omit_defaults=True):
    """One process. ``pid`` is 0 between two runs."""

    name: str
    state: str
    pid: int = 0
    started: str = ""
    started_at: float = 0.0
    restarts: int = 0
    address: str = ""
    debug_address: str = ""
    api_address: str = ""
    health: str = ""

    @classmethod
    def of(cls, child: Child) -> ProcessRecord:
        """What is to be known of a process that is kept running."""
        identity = child.identity
        return cls(
            name=child.program.name,
            state=str(child.state),
            pid=identity.pid if identity else 0,
            started=identity.started if identity else "",
            started_at=child.started_at,
            restarts=child.restarts,
            address=child.program.address,
            debug_address=child.program.debug_address,
            api_address=child.program.api_address,
            health=child.program.health,
        )

    @classmethod
    def of_running(cls, name: str, identity: ProcessIdentity, started_at: float) -> ProcessRecord:
        """A process that runs, and of which no more is to be known."""
        return cls(name, "ready", identity.pid, identity.started, started_at)

    @property
    def identity(self) -> ProcessIdentity | None:
        """The process itself."""
        return ProcessIdentity(self.pid, self.started) if self.pid else None
