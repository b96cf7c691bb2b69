"""What can be placed is placed soon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from e2e.soak.frame import Breach, called

#: On a machine of its own; the busier it is, the longer.
MEDIAN_SECONDS, LONGEST_SECONDS = 2.0, 20.0
_FEWEST = 10


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that was bound, or that was still waiting at the end. Times are seconds after the beginning."""

    pod: str
    created_at: float
    bound_at: float
    probe: bool = False
    #: Processes were killed or frozen meanwhile, or the API server refused.
    troubled: bool = False

    @property
    def seconds(self) -> float:
        """From its creation to its binding."""
        return max(0.0, self.bound_at - self.created_at)


def probes_are_placed_soon(probes: Iterable[Placed], *, load: float) -> Iterator[Breach]:
    """Pods that always have room get it at once, where nothing was killed meanwhile. ``load``: 1 is idle."""
    calm = [probe for probe in probes if probe.probe and not probe.troubled]
    for probe in calm:
        if probe.seconds > LONGEST_SECONDS * load:
            yield Breach("late", called("Pod", probe.pod), f"bound after {probe.seconds:.1f} s")
    if len(calm) >= _FEWEST:
        median = percentile([probe.seconds for probe in calm], 50)
        if median > MEDIAN_SECONDS * load:
            message = f"half of the probes took more than {median:.1f} s"
            yield Breach("slow", called("process", "scheduler"), message)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so many percent do not exceed; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part / 100))]
