"""The states of a pod, and the groups of states that the rules speak of."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Status(IntEnum):
    """The state of a task; the first seven are alive and placed or about to be."""

    PENDING = 0
    GATED = 1
    ALLOCATED = 2
    PIPELINED = 3
    BINDING = 4
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    STUCK_IN_RELEASING = 8
    #: Deleted by its owner, who gave it long to end: it runs on, and nobody should wait for its place.
    LINGERING = 9
    SUCCEEDED = 10
    FAILED = 11
    UNKNOWN = 12

    @property
    def label(self) -> str:
        """The name as users know it: ``StuckInReleasing``."""
        return "".join(part.capitalize() for part in self.name.split("_"))


def _members(*states: Status) -> tuple[bool, ...]:
    return tuple(state in states for state in Status)


S = Status
#: Holds or will hold resources, and is wanted there.
ACTIVE_ALLOCATED: Final = _members(S.ALLOCATED, S.PIPELINED, S.BINDING, S.BOUND, S.RUNNING)
#: Holds resources on a node, or will.
ACTIVE_USED: Final = _members(
    S.ALLOCATED,
    S.PIPELINED,
    S.BINDING,
    S.BOUND,
    S.RUNNING,
    S.RELEASING,
    S.STUCK_IN_RELEASING,
    S.LINGERING,
)
#: Has its place, and nobody waits for it to go, whether it is on its way out or not.
OCCUPYING: Final = tuple(
    used and state is not S.RELEASING for used, state in zip(ACTIVE_USED, S, strict=True)
)
#: Holds resources, and goes, whatever is decided.
LEAVING: Final = _members(S.RELEASING, S.STUCK_IN_RELEASING, S.LINGERING)
ALIVE: Final = tuple(
    used or state in (S.PENDING, S.GATED) for used, state in zip(ACTIVE_USED, S, strict=True)
)
#: What a queue is charged for.
ALLOCATED: Final = _members(S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING)
