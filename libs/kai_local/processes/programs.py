"""What is run, and what is known of it while it runs."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.probes import Probe


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. ``environment`` is added to the supervisor's own; ``ready`` says when it serves."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: Probe | None = None
    address: str = ""
    #: Where it serves snapshots, if it does.
    debug_address: str = ""
    #: Where it answers people's questions over HTTP, if it does.
    api_address: str = ""
    #: URL at which a service tells whether it is ready, and what people should know.
    health: str = ""
    stop_after: float = 10.0
    #: Whether it is not started again after it has ended with a status.
    is_final: Callable[[int], bool] = lambda status: False


class State(enum.StrEnum):
    """Where a child is in its life."""

    STARTING = "starting"
    READY = "ready"
    CRASHED = "crashed"
    STOPPED = "stopped"


@dataclass(slots=True)
class Run:
    """One process of a program. ``log``: where in the log it begins and, once it has ended, ends (bytes)."""

    started_at: float
    log: tuple[int, int | None]
    ended_at: float = 0.0
    exit_status: int | None = None


@dataclass(slots=True)
class Child:
    """A program being run. ``identity`` is that of the current process, ``None`` between two of them.

    ``run`` is the current process or, between two, the one that ended; ``previous`` the one before.
    """

    program: Program
    log: Path
    state: State = State.STARTING
    identity: ProcessIdentity | None = None
    restarts: int = 0
    exit_status: int | None = None
    started_at: float = 0.0
    run: Run | None = None
    previous: Run | None = None
    #: Seconds until it is started again, where it is between two processes.
    backoff: float = 0.0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
