"""What we have asked for and not seen yet.

A watch is behind one's own writes. A controller that counted its pods before those it just made have come
back would make them again; so it waits until all have been seen, or so long that some must be lost.
"""

from __future__ import annotations

from collections.abc import Callable

_PATIENCE = 30.0


class Expectations:
    """Creations by owner uid, deletions by the uid of what is deleted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._created: dict[str, tuple[int, float]] = {}
        self._doomed: dict[str, float] = {}

    def expect_created(self, owner: str) -> None:
        """One more object of this owner is about to be made."""
        count, _ = self._created.get(owner, (0, 0.0))
        self._created[owner] = (count + 1, self._clock() + _PATIENCE)

    def created(self, owner: str) -> None:
        """One was seen, or could not be made."""
        count, until = self._created.pop(owner, (0, 0.0))
        if count > 1:
            self._created[owner] = (count - 1, until)

    def remaining(self, owner: str) -> float:
        """Seconds for which the owner is to be left alone; 0 if everything has been seen."""
        count, until = self._created.get(owner, (0, 0.0))
        if not count:
            return 0.0
        remaining = until - self._clock()
        if remaining <= 0:
            del self._created[owner]
        return max(0.0, remaining)

    def expect_deleted(self, uid: str) -> None:
        """This object is about to be deleted."""
        self._doomed[uid] = self._clock() + _PATIENCE

    def deleted(self, uid: str) -> None:
        """It is gone, or could not be deleted."""
        self._doomed.pop(uid, None)

    def is_doomed(self, uid: str) -> bool:
        """Whether we have asked for its deletion."""
        until = self._doomed.get(uid)
        return until is not None and until > self._clock()
