"""How long runs last, where some of them still go on (Kaplan and Meier's estimate).

Of a run that goes on, or that somebody cut short, it is known that it lasts longer than so long: until then
it is one of those that might have ended and did not, and after that it says nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import neg
from typing import Final

#: Products of fractions differ by less where they are equal.
_EQUAL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Span:
    """How long something ran (seconds), and whether it had ended then."""

    seconds: float
    ended: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """The part of runs that last longer than a time. ``ends`` are the times at which it falls, in order."""

    ends: tuple[float, ...]
    #: After each of these times.
    left: tuple[float, ...]
    #: How long each run is known to have lasted, in order.
    lasted: tuple[float, ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Curve:
        """The estimate from runs. One that was cut short at a moment is counted as having reached it."""
        listed = list(spans)
        ended = Counter(span.seconds for span in listed if span.ended)
        lasted = sorted(span.seconds for span in listed)
        ends, left, part = sorted(ended), [], 1.0
        below = 0
        for end in ends:
            while lasted[below] < end:
                below += 1
            part *= 1.0 - ended[end] / (len(lasted) - below)
            left.append(part)
        return cls(tuple(ends), tuple(left), tuple(lasted))

    def outlasting(self, seconds: float) -> int:
        """Runs that are known to have lasted longer than that."""
        return len(self.lasted) - bisect_right(self.lasted, seconds)

    def longer(self, seconds: float) -> float:
        """The part of runs that lasts longer than that; beyond what was seen, the last that is known."""
        at = bisect_right(self.ends, seconds)
        return self.left[at - 1] if at else 1.0

    def draw(self, ran: float, chance: float) -> float | None:
        """How long a run lasts in all that has lasted ``ran`` seconds, for a ``chance`` between 0 and 1.

        The larger the chance, the shorter. None: longer than any run of which an end is known. How much
        longer nobody has seen, so no number is made up for it.
        """
        wanted = self.longer(ran) * chance
        # What is left falls, so its negative rises.
        at = bisect_left(self.left, -(wanted + _EQUAL), bisect_right(self.ends, ran), key=neg)
        return self.ends[at] if at < len(self.ends) else None
