"""What one cycle leaves to the next, and neither objects nor pods nor a snapshot say."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kai.engine.framework.decisions import PROMISED
from kai.engine.queueing.turns import PassUnderWay, Turns
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey, PodUid
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Past
from kai.snapshot.state import ClusterState


class Remainder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Plain values; pod groups and pods are named by ``namespace/name``."""

    #: By node and namespace: refusals in a row, times that it was closed, and until when.
    refusals: dict[str, dict[str, tuple[int, int, float]]] = {}
    #: How many of those in a row count for other namespaces as well, where that is another number.
    unbroken_refusals: dict[str, dict[str, int]] = {}
    #: By uid of pods that were not let go: how often in a row, until when they are left alone, and why.
    eviction_refusals: dict[PodUid, tuple[int, float, str]] = {}
    #: Of pod groups that have one: decisions come before the annotations that record them.
    times: dict[PodGroupKey, Past] = {}
    #: Pod groups that wait for a place which they were promised, in that order.
    promised: tuple[PodGroupKey, ...] = ()
    #: Pods for which the last cycle foresaw another node than their objects say; empty for none.
    nominated: dict[str, str] = {}
    #: Pods of which only is known what they hold.
    bare: tuple[str, ...] = ()
    #: Pod groups that take no part, since a version of theirs cannot be taken in.
    aside: tuple[PodGroupKey, ...] = ()
    #: Searches that go on over several cycles, by action.
    passes: dict[str, PassUnderWay] = {}


def take(state: ClusterState, turns: Turns) -> Remainder:
    """What a state, and the engine that decides over it, hold between two cycles."""
    jobs = state.jobs.values()
    return Remainder(
        refusals=state.refusals.told(),
        unbroken_refusals=state.refusals.unbroken(),
        eviction_refusals=state.eviction_refusals.told(),
        times={job.key: past for job in jobs if any(past := job.past)},
        promised=tuple(key for key in PROMISED.of(state.kept) if key not in state.gone_jobs),
        nominated={
            task.key: task.nominated
            for task in state.tasks.values()
            if task.facts is not None and task.nominated != task.facts.nominated
        },
        bare=tuple(sorted(task.key for task in state.tasks.values() if task.bare)),
        aside=tuple(sorted(job.key for job in jobs if job.aside is not None)),
        passes=turns.told(),
    )


def put(remainder: Remainder, state: ClusterState, *, faults: Iterable[Fault]) -> None:
    """Let a state that was restored from a snapshot hold it, but for searches that go on.

    ``faults`` are those of the snapshot's circumstances.
    """
    state.refusals.tell(remainder.refusals, remainder.unbroken_refusals)
    state.eviction_refusals.tell(remainder.eviction_refusals)
    for key, past in remainder.times.items():
        if (job := state.jobs.get(key)) is not None:
            state.inherit(job, past)
    PROMISED.put(state.kept, remainder.promised)
    for pod, node in remainder.nominated.items():
        if (task := state.task(pod)) is not None:
            state.nominate(task, node)
    for pod in remainder.bare:
        state.bare_pod(pod)
    by_group = {PodGroupKey(fault.key): fault for fault in faults if fault.kind == Kind.POD_GROUP.kubernetes}
    for key in remainder.aside:
        if (job := state.jobs.get(key)) is not None and key in by_group:
            state.set_aside(job, by_group[key])
