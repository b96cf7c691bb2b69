"""Jobs: pods that are to end well a number of times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kai.kube import resources
from kai.model.objects import Json
from kai.snapshot.times import rfc3339, seconds
from kai_local.controllers import job_rules
from kai_local.controllers.actions import Action, Adopt, Create, Delete, LetGo, Patch, Plan
from kai_local.controllers.job_counts import (
    FINALIZER,
    Tally,
    is_tracked,
    last_failure,
    replaces_only_failed,
    tally,
)
from kai_local.controllers.job_index_failures import FAILURES, end_by_failed_indexes, limits_each_index
from kai_local.controllers.job_indexes import INDEX, index_of, is_indexed
from kai_local.controllers.objects import (
    Workload,
    active,
    by_worth,
    changed,
    owner_reference,
    pod_from_template,
)
from kai_local.parts.objects import LocalPod

_FIRST_BACKOFF = 10.0
_LONGEST_BACKOFF = 600.0
#: When to look again after holding pods, if no change tells of it before.
_HOLD_SECONDS = 1.0


def reconcile(job: Workload, pods: Sequence[LocalPod], now: float, *, failed_at: float = 0.0) -> Plan:
    """Make the pods that are missing and say how far it has come. ``pods`` are those that it controls.

    ``failed_at``: when one of its pods failed that is no longer there.
    """
    finished = _finished_at(job)
    if job.terminating:
        return Plan(_let_all_go(pods))
    if finished is not None:
        return _after_the_end(job, pods, finished, now)
    alive, count = active(pods), tally(job, pods)
    failure = job_rules.end_by_failure(job, pods) or _failure(job, alive, count, now)
    if failure is not None:
        return Plan([*_deletions(alive), *_write(job, count, [], now, failed=failure)])
    enough = job_rules.end_by_success(job, count.indexes) or _completion(job, alive, count)
    if enough is not None:
        return Plan([*_deletions(alive), *_write(job, count, [], now, complete=enough)])
    if loose := [pod for pod in alive if not is_tracked(pod)]:
        return Plan(_hold(job, loose), _HOLD_SECONDS)
    actions: list[Action] = [let_go(pod) for pod in count.done_with]
    if job.spec.get("suspend"):
        return Plan([*actions, *_deletions(alive), *_write(job, count, [], now)])
    waits = _waits(job, count, max(failed_at, last_failure(pods)), now)
    if None not in waits:
        ending = [pod for pod in pods if pod.terminating and not pod.terminal]
        actions += _fill(job, alive, ending if replaces_only_failed(job) else [], count, waits.keys())
    actions += _write(job, count, alive, now)
    times = [t for t in (*waits.values(), _deadline_in(job, now)) if t is not None]
    return Plan(actions, min(times, default=None))


def _waits(job: Workload, count: Tally, failed_at: float, now: float) -> dict[int | None, float]:
    """Seconds until failed pods are made again: of the indexes that are waited for, or ``None`` for all."""
    found: dict[int | None, float] = {None: _backoff(count.failed) - (now - failed_at)}
    if limits_each_index(job):
        counts, last = count.failures.counts, count.failures.last
        found = {index: _backoff(counts[index]) - (now - last_failure([last[index]])) for index in last}
    return {index: wait for index, wait in found.items() if wait > 0}


def _hold(job: Workload, loose: Iterable[LocalPod]) -> list[Action]:
    """Have pods counted that would not be: whoever let them go did not come to delete them."""
    owner = owner_reference("batch/v1", "Job", job)
    return [Adopt.of(resources.PODS, pod, owner, FINALIZER) for pod in loose]


def let_go(pod: LocalPod) -> LetGo:
    """Nobody has to count this pod any more."""
    meta = pod.metadata
    return LetGo(resources.PODS, meta.namespace, meta.name, meta.uid, FINALIZER)


def _let_all_go(pods: Iterable[LocalPod]) -> list[Action]:
    return [let_go(pod) for pod in pods if is_tracked(pod)]


def _fill(
    job: Workload,
    alive: Sequence[LocalPod],
    ending: Sequence[LocalPod],
    count: Tally,
    waiting: Collection[int | None],
) -> list[Action]:
    """Make what is missing; those that are ``ending`` still have their places. Indexes may be ``waiting``."""
    parallelism, completions = int(job.spec.get("parallelism", 1)), job.spec.get("completions")
    if completions is None:
        wanted = parallelism if not count.succeeded else len(alive)
    else:
        wanted = min(parallelism, int(completions) - count.succeeded - len(count.failures.lost))
    surplus = by_worth(alive)[: max(0, len(alive) - wanted)]
    actions: list[Action] = _deletions(surplus)
    missing = wanted - len(alive) - len(ending)
    if missing > 0 and is_indexed(job):
        busy = {index_of(pod) for pod in [*alive, *ending]} | count.indexes | count.failures.lost
        free = (index for index in range(int(completions or 0)) if index not in busy.union(waiting))
        actions += [_new_pod(job, count, index) for index, _ in zip(free, range(missing), strict=False)]
    else:
        actions += [_new_pod(job, count, None) for _ in range(missing)]
    return actions


def _new_pod(job: Workload, count: Tally, index: int | None) -> Create:
    meta = job.metadata
    labels = {
        "batch.kubernetes.io/controller-uid": meta.uid,
        "batch.kubernetes.io/job-name": meta.name,
        "controller-uid": meta.uid,
        "job-name": meta.name,
    }
    pod = pod_from_template(job.template, owner_reference("batch/v1", "Job", job), labels=labels)
    pod["metadata"]["generateName"] = f"{meta.name}-"
    pod["metadata"].setdefault("finalizers", []).append(FINALIZER)
    if index is not None:
        pod["metadata"]["generateName"] = f"{meta.name}-{index}-"
        pod["metadata"]["labels"][INDEX] = pod["metadata"]["annotations"][INDEX] = str(index)
        if limits_each_index(job):
            pod["metadata"]["annotations"][FAILURES] = str(count.failures.counts.get(index, 0))
        pod["spec"].setdefault("hostname", f"{meta.name}-{index}")
        for container in [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]:
            environment = container.setdefault("env", [])
            if all(variable.get("name") != "JOB_COMPLETION_INDEX" for variable in environment):
                field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
                environment.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
    return Create(resources.PODS, meta.namespace, pod)


def _deletions(pods: Iterable[LocalPod]) -> list[Action]:
    """Pods that nobody is to count."""
    return [Delete.of(resources.PODS, pod, finalizer=FINALIZER if is_tracked(pod) else "") for pod in pods]


# --- whether it has ended -------------------------------------------------------------------------
def _completion(job: Workload, alive: Sequence[LocalPod], count: Tally) -> tuple[str, str] | None:
    completions = job.spec.get("completions")
    if completions is None:
        complete = count.succeeded > 0 and not alive
    else:
        complete = count.succeeded >= int(completions)
    return ("CompletionsReached", "Reached expected number of succeeded pods") if complete else None


def _failure(job: Workload, alive: Sequence[LocalPod], count: Tally, now: float) -> tuple[str, str] | None:
    restarts = sum(
        int(status.get("restartCount") or 0)
        for pod in alive
        if pod.spec.restart_policy == "OnFailure"
        for status in pod.status.container_statuses or ()
    )
    if count.failed + restarts > int(job.spec.get("backoffLimit", 6)):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if limits_each_index(job) and (lost := end_by_failed_indexes(job, count.failures, count.succeeded)):
        return lost
    remaining = _deadline_in(job, now)
    if remaining is not None and remaining <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _deadline_in(job: Workload, now: float) -> float | None:
    limit, started = job.spec.get("activeDeadlineSeconds"), seconds(job.status.get("startTime"))
    if limit is None or not started or job.spec.get("suspend"):
        return None
    return started + float(limit) - now


def _backoff(failures: int) -> float:
    """Seconds between the last of so many failures and the next pod."""
    return min(_FIRST_BACKOFF * 2 ** min(failures - 1, 10), _LONGEST_BACKOFF) if failures else 0.0


# --- status ------------------------------------------------------------------------------------
def _write(
    job: Workload,
    count: Tally,
    alive: Sequence[LocalPod],
    now: float,
    *,
    complete: tuple[str, str] | None = None,
    failed: tuple[str, str] | None = None,
) -> list[Action]:
    """Write the status; of one that has ended everything is counted, since nobody will look again."""
    at, suspended = rfc3339(now), bool(job.spec.get("suspend"))
    status: Json = {
        "active": len(alive),
        "ready": sum(pod.ready for pod in alive),
        **count.counts,
        "startTime": None if suspended else job.status.get("startTime") or at,
    }
    if complete or failed:
        status |= {"succeeded": count.succeeded, "failed": count.failed}
        status["uncountedTerminatedPods"] = {"succeeded": [], "failed": []}
    if complete:
        status["completionTime"] = at
    conditions = _conditions(job, at, suspended=suspended, complete=complete, failed=failed)
    if conditions:
        status["conditions"] = conditions
    if not changed(job.status, status):
        return []
    meta = job.metadata
    return [Patch(resources.JOBS, meta.namespace, meta.name, {"status": status}, "status")]


def _conditions(
    job: Workload,
    at: str,
    *,
    suspended: bool,
    complete: tuple[str, str] | None,
    failed: tuple[str, str] | None,
) -> list[Json]:
    wanted: list[tuple[str, bool, str, str]] = []
    was_suspended = any(c.get("type") == "Suspended" for c in job.status.get("conditions") or ())
    if suspended:
        wanted.append(("Suspended", True, "JobSuspended", "Job suspended"))
    elif was_suspended:
        wanted.append(("Suspended", False, "JobResumed", "Job resumed"))
    if complete:
        wanted += [("SuccessCriteriaMet", True, *complete), ("Complete", True, *complete)]
    if failed:
        wanted += [("FailureTarget", True, *failed), ("Failed", True, *failed)]
    before = {str(c.get("type")): c for c in job.status.get("conditions") or ()}
    for kind, true, reason, message in wanted:
        status = "True" if true else "False"
        if before.get(kind, {}).get("status") != status:
            before[kind] = {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastProbeTime": at,
                "lastTransitionTime": at,
            }
    return list(before.values())


def _finished_at(job: Workload) -> float | None:
    for condition in job.status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return seconds(condition.get("lastTransitionTime"))
    return None


def _after_the_end(job: Workload, pods: Iterable[LocalPod], finished: float, now: float) -> Plan:
    """A finished Job is deleted when its time to live is over."""
    actions, lifetime = _let_all_go(pods), job.spec.get("ttlSecondsAfterFinished")
    if lifetime is None:
        return Plan(actions)
    remaining = finished + float(lifetime) - now
    if remaining > 0:
        return Plan(actions, again_in=remaining)
    meta = job.metadata
    return Plan([*actions, Delete(resources.JOBS, meta.namespace, meta.name, meta.uid)])
