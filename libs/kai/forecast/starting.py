"""When pod groups that wait will start: the cluster is let live on many times, each with other runtimes."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kai.engine import SchedulerConfig
from kai.engine.queueing.shares import Usage
from kai.forecast.learned import Basis, Drawn, Learned
from kai.model.ids import PodGroupKey
from kai.simulate.course import Course, Happened, Pace
from kai.simulate.journal import journal
from kai.snapshot.state import ClusterState

#: Nothing is told of what lies farther ahead.
HORIZON_SECONDS: Final = 7 * 86_400.0
#: So many courses are wanted; fewer than the least say nothing about a tenth of them.
COURSES: Final = 40
LEAST_COURSES: Final = 10
#: Of the thread's own work.
SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """In how many seconds work starts, in each of several courses; infinite where it does not within a time.

    In half of the courses it has started by ``p50``, in nine of ten by ``p90``; None: not within the horizon.
    """

    #: In order.
    seconds: tuple[float, ...]
    horizon: float
    #: Other workloads that ran in these courses, by whose runtimes they were taken to have.
    basis: Mapping[Basis, int]
    #: Runs that were learned from.
    runs: int

    @property
    def p50(self) -> float | None:
        """Half of the courses have it started by then."""
        return _quantile(self.seconds, 50)

    @property
    def p90(self) -> float | None:
        """Nine of ten have."""
        return _quantile(self.seconds, 90)

    @property
    def late(self) -> int:
        """Courses in which it does not start within the horizon."""
        return sum(math.isinf(each) for each in self.seconds)


def starts(
    state: ClusterState,
    config: SchedulerConfig,
    groups: Collection[PodGroupKey],
    learned: Learned,
    *,
    now: float,
    usage: Usage | None = None,
    pace: Pace | None = None,
    seed: int = 0,
    courses: int = COURSES,
    horizon: float = HORIZON_SECONDS,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.thread_time,
) -> Starts | None:
    """When the last of some pod groups starts, from ``now`` (Unix seconds) on; None if time was too short.

    A group starts as the first pod of it that waits is bound. The state ends as it began. For the same seed
    it is the same answer, unless the time (``seconds`` of this thread's work) is over before all courses are.
    """
    drawn = Drawn(learned, state)
    ends = clock() + seconds
    found: list[float] = []
    for number in range(courses):
        with journal(state) as opened:
            course = Course(
                opened,
                config,
                now=now,
                runtimes=drawn.draw,
                seed=seed * courses + number,
                usage=usage,
                pace=pace,
                tells=False,
            )
            last = _last_start(course, groups, until=now + horizon, late=lambda: clock() >= ends)
        if last is None:
            break
        found.append(last - now)
    if len(found) < min(LEAST_COURSES, courses):
        return None
    return Starts(
        seconds=tuple(sorted(found)),
        horizon=horizon,
        basis=Counter(basis for key, basis in drawn.basis.items() if key not in set(groups)),
        runs=learned.runs,
    )


def _last_start(
    course: Course, groups: Collection[PodGroupKey], *, until: float, late: Callable[[], bool]
) -> float | None:
    """When the last of them starts (infinite: not until then); None if time was over before that is known."""
    waiting, last, seen = set(groups), -math.inf, 0
    for _ in course.moments(until):
        for event in course.events[seen:]:
            if event.what is Happened.STARTED and event.group in waiting:
                waiting.discard(event.group)
                last = event.at
        seen = len(course.events)
        if not waiting:
            return last
        if late():
            return None
    return math.inf


def _quantile(ordered: Sequence[float], percent: int) -> float | None:
    """The least value that so many percent do not exceed."""
    found = ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]
    return found if math.isfinite(found) else None
