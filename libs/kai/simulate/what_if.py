"""What would follow from changes: who would be evicted, who would start, what queues would have.

The engine answers, on the state itself; nothing of it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from kai.collector import paused
from kai.engine import Engine, SchedulerConfig
from kai.engine.explain import outcomes
from kai.engine.queueing.shares import Usage
from kai.model.decisions import PodGroupOutcome, QueueShare
from kai.model.ids import PodGroupKey
from kai.simulate.changes import Change, made
from kai.simulate.course import Course, Event, Happened, Pace, Runtimes, for_ever
from kai.snapshot.state import ClusterState


class Work(msgspec.Struct, frozen=True, gc=False):
    """One workload: how many of its pods run, and how many wait."""

    group: PodGroupKey
    queue: str
    running: int
    waiting: int


#: Is told whether what would happen with the changes is looked at, or what happens anyway, and how many
#: seconds of it were.
Progress: TypeAlias = Callable[[bool, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A cluster at one moment; shares by queue, workloads by pod group."""

    queues: Mapping[str, QueueShare]
    work: Mapping[PodGroupKey, Work]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequel:
    """What happens from now on with some changes, or without any; then there are no outcomes.

    ``more_at`` is when something else is known to happen (Unix seconds), after the time that was looked at.
    """

    events: Sequence[Event]
    outcomes: Mapping[PodGroupKey, PodGroupOutcome]
    after: Picture
    more_at: float | None

    def pods(self, what: Happened) -> frozenset[str]:
        """The pods (``namespace/name``) to which that happens at least once."""
        return frozenset(event.pod for event in self.events if event.what is what)

    @property
    def evicted(self) -> frozenset[str]:
        """The pods that the scheduler evicts."""
        return self.pods(Happened.EVICTED)

    @property
    def started(self) -> frozenset[str]:
        """The pods that are given a place, also anew."""
        return self.pods(Happened.STARTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The cluster now, what happens with the changes, and what would without them."""

    #: Unix seconds.
    now: float
    before: Picture
    changed: Sequel
    unchanged: Sequel

    def anyway(self, event: Event) -> bool:
        """Whether the same would happen to the pod without the changes."""
        return event.pod in self.unchanged.pods(event.what)


def ask(
    state: ClusterState,
    config: SchedulerConfig,
    changes: Sequence[Change],
    *,
    now: float,
    within: float,
    runtimes: Runtimes = for_ever,
    seed: int = 0,
    usage: Usage | None = None,
    pace: Pace | None = None,
    progress: Progress = lambda changed, after: None,
) -> Answer:
    """What would follow if changes were made ``now`` (Unix seconds), in the ``within`` seconds after it.

    The state ends as it began. ``progress`` is told how far it is: a full cluster with many gangs takes long.

    Raises:
        ChangeRefused: one of them cannot be made.
    """

    def sequel(chosen: Sequence[Change]) -> Sequel:
        with made(state, ()) as journal:
            course = Course(
                journal,
                config,
                now=now,
                runtimes=runtimes,
                seed=seed,
                usage=usage,
                pace=pace,
                tells=bool(chosen),
            )
            if chosen:
                course.plan(now, chosen)
            for moment in course.moments(now + within):
                progress(bool(chosen), moment - now)
            course.run(now + within)
            return Sequel(
                events=tuple(course.events),
                outcomes=dict(course.outcomes),
                after=picture(state, config, now=course.now, usage=usage),
                more_at=course.more_at,
            )

    return Answer(
        now=now,
        before=picture(state, config, now=now, usage=usage),
        unchanged=sequel(()),
        changed=sequel(changes),
    )


def all_lasting(seconds: float | None) -> Runtimes:
    """Every job runs for so long, in seconds; what runs for longer already ends at once. None: for ever."""
    return for_ever if seconds is None else lambda job, ran, rng: seconds


def picture(
    state: ClusterState, config: SchedulerConfig, *, now: float, usage: Usage | None = None
) -> Picture:
    """The cluster as it is ``now`` (Unix seconds), divided among its queues."""
    engine = Engine(config)
    engine.last_usage = usage or {}
    with paused(lasting=True):
        session = engine.open(state, now)
        return Picture(
            queues={share.queue: share for share in outcomes.shares(session)},
            work={
                key: Work(key, job.facts.queue, job.active_allocated, job.pending + job.gated)
                for key, job in state.jobs.items()
            },
        )
