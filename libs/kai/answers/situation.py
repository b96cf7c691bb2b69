"""A picture of the cluster, and what the engine would do in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from kai.engine import Engine, SchedulerConfig
from kai.engine.framework.session import Session
from kai.engine.queueing.shares import Usage
from kai.model.decisions import CycleResult
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey
from kai.replay import remainder
from kai.replay.remainder import Remainder
from kai.simulate.changes import Change, made
from kai.simulate.journal import Journal
from kai.snapshot import codec
from kai.snapshot.codec import ClusterSnapshot
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState

#: So many cycles follow each other at one moment before a moment counts as settled.
_SETTLING: Final = 4
#: So many moments at which time alone may change something are looked at.
_MOMENTS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that decisions depend on at one moment."""

    snapshot: ClusterSnapshot
    #: Unix seconds.
    now: float
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    #: Past use by queue, as fractions of the cluster: CPU, memory, GPU.
    usage: Usage = field(default_factory=dict)
    #: Objects that scheduling goes on without, by Kubernetes' kind and ``namespace/name``.
    faults: Mapping[tuple[str, str], Fault] = field(default_factory=dict)
    #: What neither objects nor the snapshot say.
    remainder: Remainder = field(default_factory=Remainder)

    @cached_property
    def state(self) -> ClusterState:
        """A copy of the cluster to look at; nothing is tried on it."""
        return self._restored()

    @cached_property
    def session(self) -> Session:
        """A session on it, in which nothing is decided."""
        engine = Engine(self.config)
        engine.last_usage = self.usage
        return engine.open(self.state, self.now)

    @cached_property
    def tried(self) -> ClusterState:
        """Another copy, on which everything is tried; whoever does takes it back."""
        return self._restored()

    def prepare(self) -> None:
        """Make the copies now that are made with the first question otherwise."""
        self.session, self.tried  # noqa: B018 (they are kept)

    def _restored(self) -> ClusterState:
        state = codec.restore(self.snapshot)
        remainder.put(self.remainder, state, faults=self.faults.values())
        kinds = {kind.kubernetes: kind for kind in Kind}
        for (of, key), fault in self.faults.items():
            if of in kinds:
                state.set_fault(kinds[of], key, fault)
        return state

    @contextmanager
    def trial(self, changes: Sequence[Change]) -> Iterator[Trial]:
        """Cycles with these changes while the block runs; afterwards nothing of it is left.

        Raises:
            ChangeRefused: one of them cannot be made.
        """
        with made(self.tried, changes) as journal:
            yield Trial(self, journal)

    def cycle(self, *changes: Change) -> CycleResult:
        """What a cycle would decide at once with these changes; raises as :meth:`trial`."""
        with self.trial(changes) as trial:
            return trial.cycle(self.now)

    def places(self, key: PodGroupKey, *changes: Change) -> bool:
        """Whether a cycle with these changes gives a pod group a place, and the next does not take it back.

        Raises as :meth:`trial`.
        """
        with self.trial(changes) as trial:
            return serves(trial.cycle(self.now), key) and not loses(trial.cycle(self.now), key)

    def start_of(self, key: PodGroupKey) -> tuple[float, CycleResult] | None:
        """When a pod group gets a place by the passing of time alone, and the cycle that gives it one.

        In Unix seconds. Nobody ends his work before, and nothing comes. None where time alone does not help.
        """
        now = self.now
        with self.trial(()) as trial:
            for _ in range(_MOMENTS):
                for _ in range(_SETTLING):
                    result = trial.cycle(now)
                    if serves(result, key):
                        return now, result
                    if not (result.binds or result.evictions or result.nominations):
                        break
                if not now < result.next_due < float("inf"):
                    return None
                now = result.next_due
        return None


class Trial:
    """Cycles over a state in which everything is taken back."""

    def __init__(self, situation: Situation, journal: Journal) -> None:
        self._situation = situation
        self._journal = journal
        self._engine = Engine(situation.config)

    def cycle(self, now: float) -> CycleResult:
        """One cycle as of ``now`` (Unix seconds); the next builds on it."""
        result = self._engine.run(self._journal.state, now, usage=self._situation.usage)
        self._journal.decided(result)
        return result


def serves(result: CycleResult, key: PodGroupKey) -> bool:
    """Whether a cycle gives a pod group a place, now or as soon as it is free, and takes none from it."""
    return key in gainers(result) and not loses(result, key)


def loses(result: CycleResult, key: PodGroupKey) -> bool:
    """Whether a cycle takes a place from a pod group."""
    return any(each.pod.pod_group == key for each in result.evictions)


def gainers(result: CycleResult) -> set[PodGroupKey]:
    """Pod groups that a cycle gives a place."""
    return {each.pod.pod_group for each in result.binds} | {each.pod.pod_group for each in result.nominations}
