"""The actions of a cycle, by the names of the configuration."""

from collections.abc import Callable
from typing import Final

from kai.engine.actions import allocate, consolidation, preempt, reclaim, stalegangeviction
from kai.engine.framework.session import Session

ACTIONS: Final[dict[str, Callable[[Session], None]]] = {
    "allocate": allocate.run,
    "consolidation": consolidation.run,
    "reclaim": reclaim.run,
    "preempt": preempt.run,
    "stalegangeviction": stalegangeviction.run,
}
