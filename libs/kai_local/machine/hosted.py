"""A pod with the process that it is here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from kai_local.machine import status
from kai_local.machine.launch import Launch, Manifest
from kai_local.processes.programs import Child


@dataclass(slots=True)
class Hosted:
    """A pod with its process. ``told`` is the status that was written last."""

    pod: Manifest
    launch: Launch
    child: Child
    before: status.Before
    ready: bool = False
    told: dict[str, Any] | None = None
    health: asyncio.Task[None] | None = None

    @property
    def uid(self) -> str:
        """Of the pod."""
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        """Of the process."""
        return self.child.program.name
