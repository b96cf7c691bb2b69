"""How long workloads ran, from the records of their pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kai.forecast.curves import Span
from kai.history.records import Ending, Run

#: What gave its place back because it was done, or because its owner wanted it no longer.
_OVER: Final = frozenset({Ending.SUCCEEDED, Ending.FAILED, Ending.DELETED})
#: What began longer ago is not learned from: of that a store may have forgotten what ended early, and what is
#: left lasted too long.
LEARNED_SECONDS: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Kin:
    """What tells who lasts equally long."""

    namespace: str
    #: Of the workload; of the pod group where nothing made it.
    name: str
    owner: str
    queue: str


@dataclass(frozen=True, slots=True)
class Lasted:
    """How long one workload ran."""

    kin: Kin
    span: Span


def lasted(runs: Iterable[Run], *, now: float) -> list[Lasted]:
    """How long each workload ran from the first of its pods to the last, or runs so far; ``now`` in seconds.

    One whose pods were evicted, or went unseen, lasts longer than it ran; so does one that still runs. What
    began more than :data:`LEARNED_SECONDS` ago is left out.
    """
    members: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        members.setdefault((run.namespace, run.pod_group, "" if run.pod_group else run.pod_uid), []).append(
            run
        )
    found = [each for listed in members.values() for each in _times(listed, now=now)]
    return sorted(found, key=lambda each: (each.kin.namespace, each.kin.name, each.span.seconds))


def _times(runs: Sequence[Run], *, now: float) -> list[Lasted]:
    """A workload that was evicted and came again ran several times, each from its own beginning."""
    ordered = sorted(runs, key=lambda run: (run.began, run.pod_uid))
    times: list[list[Run]] = []
    until = float("-inf")
    for run in ordered:
        if run.began > until:
            times.append([])
        times[-1].append(run)
        until = max(until, now if run.ended is None else run.ended)
    return [_time(listed, now=now) for listed in times if listed[0].began >= now - LEARNED_SECONDS]


def _time(runs: Sequence[Run], *, now: float) -> Lasted:
    began = min(run.began for run in runs)
    ends = {run.pod_uid: run for run in runs}  # of one that went on otherwise the last counts
    last = max(now if run.ended is None else run.ended for run in ends.values())
    over = all(run.ending in _OVER for run in ends.values())
    return Lasted(kin_of_run(runs[-1]), Span(max(last - began, 0.0), over))


def kin_of_run(run: Run) -> Kin:
    """Whose kind a run is."""
    owner, _, name = run.workload.partition("/")
    return Kin(run.namespace, name or run.pod_group or run.pod, owner, run.queue)
