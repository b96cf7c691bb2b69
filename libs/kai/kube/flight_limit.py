"""How many writes an API server bears at once, learnt from its answers.

It begins with more than an installation of ours needs, and is made smaller only where the server says or
shows that it is too much: halved where it pushes back (429, 503), by three tenths where it answers slowly.
Slow is what takes longer than Kubernetes promises of its API (:data:`SLOW_SECONDS`), and several times
longer than the same kind of write took before: a server that is far away is not slow. If fewer at once did
not make it faster, it is others who keep it busy, or the server itself; then we take back the cut, for
whoever asks less than others is served less. It grows again while somebody waits for a place.
"""

from __future__ import annotations

from typing import Final

#: Writes at once: at least, at first, at most.
LEAST: Final = 8
START: Final = 64
MOST: Final = 128
#: What 99 of 100 writes take at most in a cluster that is well (the service level objective of Kubernetes).
SLOW_SECONDS: Final = 1.0
#: So many times as long as usual is slow, and not merely far away.
SLOW_RATIO: Final = 3.0
#: What is left of the limit after answers that were slow, and after push-back.
_AFTER_SLOW: Final = 0.7
_AFTER_PUSH_BACK: Final = 0.5
#: A cut was of no use if answers take more than this part of the time they took before.
_OF_NO_USE: Final = 0.9
#: Differences below are the machine's.
_SHORTEST_SECONDS: Final = 0.001


class FlightLimit:
    """A number that follows what the server bears; no I/O, and no clock of its own."""

    def __init__(self) -> None:
        #: Writes that may be under way at once; between ``LEAST`` and ``MOST``.
        self.current = START
        #: The shortest time that each kind of write took.
        self._usual: dict[str, float] = {}
        self._cut_at = float("-inf")
        #: The limit and the mean seconds before the last cut for slowness, until it is known to have helped.
        self._before: tuple[int, float] | None = None
        self._begin_window()

    def answered(self, kind: str, seconds: float, *, wanted: bool) -> None:
        """An answer came after ``seconds``; ``wanted``: others wait for a place."""
        seconds = max(seconds, _SHORTEST_SECONDS)
        usual = self._usual[kind] = min(self._usual.get(kind, seconds), seconds)
        self._answers += 1
        self._seconds += seconds
        self._ratio += seconds / usual
        self._wanted |= wanted
        if self._answers >= self.current:
            self._look_back()

    def pushed_back(self, *, began: float, now: float) -> None:
        """The server did not take a write sent at ``began``; what was sent before a cut asks for no other."""
        if began < self._cut_at:
            return
        self._cut_at = now
        self.current = max(LEAST, int(self.current * _AFTER_PUSH_BACK))
        self._before = None
        self._begin_window()

    def _begin_window(self) -> None:
        self._answers, self._seconds, self._ratio, self._wanted = 0, 0.0, 0.0, False

    def _look_back(self) -> None:
        mean, ratio, wanted = self._seconds / self._answers, self._ratio / self._answers, self._wanted
        self._begin_window()
        if mean > SLOW_SECONDS and ratio > SLOW_RATIO:
            self._slow(mean, ratio)
            return
        self._before = None
        if wanted:
            self.current = min(MOST, self.current + max(1, self.current // 8))

    def _slow(self, mean: float, ratio: float) -> None:
        if self._before is not None and mean > _OF_NO_USE * self._before[1]:
            self.current = self._before[0]
            self._usual = {kind: ratio * usual for kind, usual in self._usual.items()}
            self._before = None
            return
        self._before = (self.current, mean)
        self.current = max(LEAST, int(self.current * _AFTER_SLOW))
