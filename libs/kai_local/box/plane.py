"""What a cluster's API server, controllers and nodes are made of: the part that can be another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kai_local.processes.programs import Program
from kai_local.processes.supervisor import Supervisor


class Plane(Protocol):
    """A control plane with nodes, whose administrator's kubeconfig lies in its folder."""

    #: URL of the API server.
    url: str
    #: Programs in the order in which they are to end.
    programs: Sequence[str]

    async def start(self, supervisor: Supervisor) -> None:
        """Start the API server; returns when it serves."""
        ...

    def nodes(self) -> list[Program]:
        """Controllers and nodes, to be started then."""
        ...

    async def join(self, supervisor: Supervisor) -> None:
        """Bring up what is started in steps and needs all of these; returns when it is ready."""
        ...
