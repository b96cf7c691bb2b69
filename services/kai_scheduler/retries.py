"""When the engine decides anew about a pod whose bind failed."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from kai.model.ids import PodUid
from kai.model.pauses import doubled

#: How long such a pod waits, in periods: it begins with one and doubles.
AT_MOST_PERIODS: Final = 16.0


class Retries:
    """How often the binds of pods failed in a row. ``period`` is the one of cycles, in seconds."""

    def __init__(self, *, period: float) -> None:
        self._period = period
        self._failures: dict[PodUid, int] = {}

    def bound(self, uid: PodUid) -> None:
        """It succeeded."""
        self._failures.pop(uid, None)

    def failed(self, uid: PodUid, *, counts: bool, waiting: Container[str]) -> float:
        """Seconds to wait, the longer the more often it failed; others than the ``waiting`` are forgotten.

        A failure that does not count is none of the pod's.
        """
        if self._failures and uid not in waiting:
            self._failures = {each: times for each, times in self._failures.items() if each in waiting}
        failures = self._failures[uid] = self._failures.get(uid, 0) + counts
        return self._period * doubled(0.5, failures, most=AT_MOST_PERIODS)
