"""How often the indexes of a Job have failed, where it limits that for each (``backoffLimitPerIndex``).

Each pod bears how often its index had failed before it was made. So the one of an index that failed last is
held until there is another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kai_local.controllers import job_rules
from kai_local.controllers.job_indexes import index_of, is_indexed, parse_indexes
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"


@dataclass(frozen=True, slots=True)
class IndexFailures:
    """``lost`` are indexes that are not tried again. Of the others that have failed there are ``counts``, and
    the pod that did so last.
    """

    lost: frozenset[int] = frozenset()
    counts: Mapping[int, int] = field(default_factory=dict)
    last: Mapping[int, LocalPod] = field(default_factory=dict)


def limits_each_index(job: Workload) -> bool:
    """Whether failures of one index do not count for the others."""
    return is_indexed(job) and job.spec.get("backoffLimitPerIndex") is not None


def index_failures(
    job: Workload, failed: Iterable[tuple[LocalPod, bool]], done: Collection[int]
) -> IndexFailures:
    """How the indexes have failed that are not ``done``.

    ``failed`` are the pods that have, and whether that counts.
    """
    limit = int(job.spec["backoffLimitPerIndex"])
    lost = set(parse_indexes(str(job.status.get("failedIndexes") or "")))
    counts: dict[int, int] = {}
    last: dict[int, LocalPod] = {}
    for pod, counted in failed:
        index = index_of(pod)
        if index is None or index in done or index in lost:
            continue
        count = max(counts.get(index, 0), failures_before(pod) + counted)
        if count > limit or (pod.status.phase == "Failed" and _gives_up(job, pod)):
            lost.add(index)
        counts[index] = count
        if index not in last or failures_before(pod) >= failures_before(last[index]):
            last[index] = pod
    for index in lost & counts.keys():
        del counts[index], last[index]
    return IndexFailures(frozenset(lost), counts, last)


def failures_before(pod: LocalPod) -> int:
    """How often the index of the pod had failed when it was made."""
    text = pod.annotations.get(FAILURES, "")
    return int(text) if text.isdecimal() else 0


def end_by_failed_indexes(job: Workload, failures: IndexFailures, succeeded: int) -> tuple[str, str] | None:
    """Reason and message where too many indexes are lost, or nothing but lost ones is left."""
    lost, most = len(failures.lost), job.spec.get("maxFailedIndexes")
    if most is not None and lost > int(most):
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if lost and succeeded + lost >= int(job.spec.get("completions") or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _gives_up(job: Workload, pod: LocalPod) -> bool:
    return job_rules.action_on(job, pod) == job_rules.FAIL_INDEX
