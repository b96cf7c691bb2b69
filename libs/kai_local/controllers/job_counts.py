"""How far a Job has come: which of its pods have ended, each counted once.

A pod holds a finalizer until it has been counted. When it has ended it is first noted in the status of the
Job (``uncountedTerminatedPods``), then let go, then counted. So none is counted twice or never, whatever is
deleted in between, and whoever ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kai.model.objects import Json
from kai.snapshot.times import seconds
from kai_local.controllers import job_rules
from kai_local.controllers.job_index_failures import IndexFailures, index_failures, limits_each_index
from kai_local.controllers.job_indexes import format_indexes, index_of, is_indexed, parse_indexes
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod

FINALIZER = "batch.kubernetes.io/job-tracking"
#: How a pod has ended whose failure is not to count.
_IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Tally:
    """How far a Job has come. ``indexes`` are those completed, of an Indexed one.

    ``counts`` is what its status is to say of this while it goes on. ``done_with`` are the pods to be let go.
    ``failures`` are those of its indexes, where it limits them for each.
    """

    succeeded: int
    failed: int
    indexes: frozenset[int]
    counts: Json
    done_with: tuple[LocalPod, ...]
    failures: IndexFailures


def tally(job: Workload, pods: Sequence[LocalPod]) -> Tally:
    """Count the pods of a Job that have ended."""
    tracked = {pod.metadata.uid: pod for pod in pods if is_tracked(pod)}
    noted = job.status.get("uncountedTerminatedPods") or {}
    known = {uid for uids in noted.values() for uid in uids or ()}
    ended = {uid: outcome for uid, pod in tracked.items() if (outcome := _outcome(job, pod)) is not None}
    counted, uncounted = {}, {}
    for outcome in ("succeeded", "failed"):
        before = noted.get(outcome) or []
        held = [uid for uid in before if uid in tracked]
        counted[outcome] = int(job.status.get(outcome) or 0) + len(before) - len(held)
        uncounted[outcome] = held + [uid for uid, its in ended.items() if its == outcome and uid not in known]
    indexes: set[int] = set()
    totals = {outcome: counted[outcome] + len(uids) for outcome, uids in uncounted.items()}
    counts: Json = {**counted, "uncountedTerminatedPods": uncounted}
    if is_indexed(job):
        indexes = set(parse_indexes(str(job.status.get("completedIndexes") or "")))
        indexes.update(
            index
            for uid, outcome in ended.items()
            if outcome == "succeeded" and (index := index_of(tracked[uid])) is not None
        )
        counts["succeeded"] = totals["succeeded"] = len(indexes)
        counts["completedIndexes"] = format_indexes(indexes)
    failures, needed = IndexFailures(), set[str]()
    if limits_each_index(job):
        failures = index_failures(job, _failed(job, pods), indexes)
        counts["failedIndexes"] = format_indexes(failures.lost)
        needed = _needed(failures, pods)
    ignored = {uid for uid, outcome in ended.items() if outcome == _IGNORED}
    return Tally(
        **totals,
        indexes=frozenset(indexes),
        counts=counts,
        done_with=tuple(pod for uid, pod in tracked.items() if uid in (known | ignored) - needed),
        failures=failures,
    )


def _failed(job: Workload, pods: Iterable[LocalPod]) -> Iterator[tuple[LocalPod, bool]]:
    """Pods that have failed, and whether that counts; none that we have let go to delete it."""
    for pod in pods:
        if is_tracked(pod) or not pod.terminating:
            outcome = _outcome(job, pod)
            if outcome in ("failed", _IGNORED):
                yield pod, outcome == "failed"


def _needed(failures: IndexFailures, pods: Iterable[LocalPod]) -> set[str]:
    """Those that failed last and have no successor yet, by uid: they alone know how often."""
    last = {pod.metadata.uid for pod in failures.last.values()}
    succeeded = {
        index_of(pod) for pod in pods if pod.metadata.uid not in last and pod.status.phase != "Failed"
    }
    return {pod.metadata.uid for index, pod in failures.last.items() if index not in succeeded}


def is_tracked(pod: LocalPod) -> bool:
    """Whether the pod has still to be counted."""
    return FINALIZER in (pod.metadata.finalizers or ())


def _outcome(job: Workload, pod: LocalPod) -> str | None:
    """How the pod has ended; ``None`` if it has not. One that is deleted will not end well."""
    if pod.status.phase == "Succeeded":
        return "succeeded"
    if pod.status.phase == "Failed":
        ignored = job_rules.action_on(job, pod) == job_rules.IGNORE
        return _IGNORED if ignored else "failed"
    return "failed" if pod.terminating and not replaces_only_failed(job) else None


def replaces_only_failed(job: Workload) -> bool:
    """Whether a pod that is deleted counts, and is made again, only when it has ended."""
    return job.spec.get("podReplacementPolicy") == "Failed"


def last_failure(pods: Iterable[LocalPod]) -> float:
    """When a pod failed, or was deleted by somebody, last, in Unix seconds; 0 if none was."""
    failed = (pod for pod in pods if pod.status.phase == "Failed" or (pod.terminating and is_tracked(pod)))
    return max(map(_ended_at, failed), default=0.0)


def _ended_at(pod: LocalPod) -> float:
    ends = [
        seconds((status.get("state") or {}).get("terminated", {}).get("finishedAt"))
        for status in pod.status.container_statuses or ()
    ]
    meta = pod.metadata
    if (ended := max(ends, default=0.0)) or not pod.terminating:
        return ended or seconds(meta.creation_timestamp)
    return seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0)
