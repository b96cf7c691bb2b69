"""What a kubelet remembers of a pod and its containers. Times are Unix seconds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kai_local.kubelet.ledger import Devices
from kai_local.kubelet.references import Missing


class Stage(enum.Enum):
    """How far a pod has come."""

    NEW = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()
    ENDED = enum.auto()


@dataclass(slots=True)
class ContainerLife:
    """One container: running, or waiting for its next start, or ended for good."""

    started_at: float = 0.0
    ends_at: float | None = None
    exit_code: int = 0
    restarts: int = 0
    restarts_at: float | None = None
    ended_at: float | None = None

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.restarts_at is None and self.ended_at is None


@dataclass(slots=True)
class PodLife:
    """What the kubelet remembers of a pod between two steps. ``address`` is the IP it starts with."""

    address: str = ""
    stage: Stage = Stage.NEW
    devices: Devices = field(default_factory=dict)
    waiting_since: float = 0.0
    missing: Missing | None = None
    told: Missing | None = None
    started_at: float = 0.0
    containers: list[ContainerLife] = field(default_factory=list)
    ready_at: float = 0.0
    ready: bool = False
    asked_to_end_at: float | None = None
