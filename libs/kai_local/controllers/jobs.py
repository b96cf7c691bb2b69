"""Jobs: pods that are to end well a number of times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kai.kube import resources
from kai.model.objects import Json
from kai.snapshot.times import rfc3339, seconds
from kai_local.controllers.actions import Action, Create, Delete, Patch, Plan
from kai_local.controllers.objects import (
    Workload,
    active,
    by_worth,
    changed,
    owner_reference,
    pod_from_template,
)
from kai_local.parts.objects import LocalPod

_INDEX = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF = 10.0
_LONGEST_BACKOFF = 600.0


@dataclass(frozen=True, slots=True)
class _Tally:
    """How far a Job has come. ``indexes`` are those completed, of an Indexed one."""

    succeeded: int
    failed: int
    indexes: frozenset[int]
    last_failure: float


def reconcile(job: Workload, pods: Sequence[LocalPod], now: float) -> Plan:
    """Make the pods that are missing and say how far it has come. ``pods`` are those that it controls."""
    finished = _finished_at(job)
    if job.terminating:
        return Plan()
    if finished is not None:
        return _after_the_end(job, finished, now)
    alive, tally = active(pods), _tally(job, pods)
    failure = _failure(job, alive, tally, now)
    if failure is not None:
        return Plan([*_deletions(alive), *_write(job, tally, [], now, failed=failure)])
    if _complete(job, alive, tally):
        return Plan([*_deletions(alive), *_write(job, tally, [], now, complete=True)])
    if job.spec.get("suspend"):
        return Plan([*_deletions(alive), *_write(job, tally, [], now)])
    wait = _backoff(tally) - (now - tally.last_failure) if tally.failed else 0.0
    actions: list[Action] = []
    if wait <= 0:
        actions += _fill(job, alive, tally)
    actions += _write(job, tally, alive, now)
    times = [t for t in (wait if wait > 0 else None, _deadline_in(job, now)) if t is not None]
    return Plan(actions, min(times, default=None))


def _fill(job: Workload, alive: Sequence[LocalPod], tally: _Tally) -> list[Action]:
    parallelism, completions = int(job.spec.get("parallelism", 1)), job.spec.get("completions")
    if completions is None:
        wanted = parallelism if not tally.succeeded else len(alive)
    else:
        wanted = min(parallelism, int(completions) - tally.succeeded)
    surplus = by_worth(alive)[: max(0, len(alive) - wanted)]
    actions: list[Action] = _deletions(surplus)
    missing = wanted - len(alive)
    if missing > 0 and _indexed(job):
        busy = {_index_of(pod) for pod in alive} | tally.indexes
        free = (index for index in range(int(completions or 0)) if index not in busy)
        actions += [_new_pod(job, index) for index, _ in zip(free, range(missing), strict=False)]
    else:
        actions += [_new_pod(job, None) for _ in range(missing)]
    return actions


def _new_pod(job: Workload, index: int | None) -> Create:
    meta = job.metadata
    labels = {
        "batch.kubernetes.io/controller-uid": meta.uid,
        "batch.kubernetes.io/job-name": meta.name,
        "controller-uid": meta.uid,
        "job-name": meta.name,
    }
    pod = pod_from_template(job.template, owner_reference("batch/v1", "Job", job), labels=labels)
    pod["metadata"]["generateName"] = f"{meta.name}-"
    if index is not None:
        pod["metadata"]["generateName"] = f"{meta.name}-{index}-"
        pod["metadata"]["labels"][_INDEX] = pod["metadata"]["annotations"][_INDEX] = str(index)
        pod["spec"].setdefault("hostname", f"{meta.name}-{index}")
        for container in [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]:
            environment = container.setdefault("env", [])
            if all(variable.get("name") != "JOB_COMPLETION_INDEX" for variable in environment):
                field = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
                environment.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
    return Create(resources.PODS, meta.namespace, pod)


def _deletions(pods: Iterable[LocalPod]) -> list[Action]:
    return [Delete.of(resources.PODS, pod) for pod in pods]


# --- how far it has come -----------------------------------------------------------------------
def _tally(job: Workload, pods: Sequence[LocalPod]) -> _Tally:
    """Counts never fall: a pod that ended counts when it is no longer there, too."""
    done = [pod for pod in pods if pod.status.phase == "Succeeded"]
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    indexes: set[int] = set()
    succeeded = max(len(done), int(job.status.get("succeeded") or 0))
    if _indexed(job):
        indexes = _parse_indexes(str(job.status.get("completedIndexes") or ""))
        indexes |= {index for pod in done if (index := _index_of(pod)) is not None}
        succeeded = len(indexes)
    return _Tally(
        succeeded=succeeded,
        failed=max(len(failed), int(job.status.get("failed") or 0)),
        indexes=frozenset(indexes),
        last_failure=max(map(_ended_at, failed), default=0.0),
    )


def _complete(job: Workload, alive: Sequence[LocalPod], tally: _Tally) -> bool:
    completions = job.spec.get("completions")
    if completions is None:
        return tally.succeeded > 0 and not alive
    return tally.succeeded >= int(completions)


def _failure(job: Workload, alive: Sequence[LocalPod], tally: _Tally, now: float) -> tuple[str, str] | None:
    restarts = sum(
        int(status.get("restartCount") or 0)
        for pod in alive
        if pod.spec.restart_policy == "OnFailure"
        for status in pod.status.container_statuses or ()
    )
    if tally.failed + restarts > int(job.spec.get("backoffLimit", 6)):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    remaining = _deadline_in(job, now)
    if remaining is not None and remaining <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _deadline_in(job: Workload, now: float) -> float | None:
    limit, started = job.spec.get("activeDeadlineSeconds"), seconds(job.status.get("startTime"))
    if limit is None or not started or job.spec.get("suspend"):
        return None
    return started + float(limit) - now


def _backoff(tally: _Tally) -> float:
    return float(min(_FIRST_BACKOFF * 2 ** min(tally.failed - 1, 10), _LONGEST_BACKOFF))


def _ended_at(pod: LocalPod) -> float:
    ends = [
        seconds((status.get("state") or {}).get("terminated", {}).get("finishedAt"))
        for status in pod.status.container_statuses or ()
    ]
    return max(ends, default=0.0) or seconds(pod.metadata.creation_timestamp)


# --- status ------------------------------------------------------------------------------------
def _write(
    job: Workload,
    tally: _Tally,
    alive: Sequence[LocalPod],
    now: float,
    *,
    complete: bool = False,
    failed: tuple[str, str] | None = None,
) -> list[Action]:
    at, suspended = rfc3339(now), bool(job.spec.get("suspend"))
    status: Json = {
        "active": len(alive),
        "ready": sum(pod.ready for pod in alive),
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "startTime": None if suspended else job.status.get("startTime") or at,
    }
    if _indexed(job):
        status["completedIndexes"] = _format_indexes(tally.indexes)
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
    job: Workload, at: str, *, suspended: bool, complete: bool, failed: tuple[str, str] | None
) -> list[Json]:
    wanted: list[tuple[str, bool, str, str]] = []
    was_suspended = any(c.get("type") == "Suspended" for c in job.status.get("conditions") or ())
    if suspended:
        wanted.append(("Suspended", True, "JobSuspended", "Job suspended"))
    elif was_suspended:
        wanted.append(("Suspended", False, "JobResumed", "Job resumed"))
    if complete:
        reached = ("CompletionsReached", "Reached expected number of succeeded pods")
        wanted += [("SuccessCriteriaMet", True, *reached), ("Complete", True, *reached)]
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


def _after_the_end(job: Workload, finished: float, now: float) -> Plan:
    """A finished Job is deleted when its time to live is over."""
    lifetime = job.spec.get("ttlSecondsAfterFinished")
    if lifetime is None:
        return Plan()
    remaining = finished + float(lifetime) - now
    if remaining > 0:
        return Plan(again_in=remaining)
    meta = job.metadata
    return Plan([Delete(resources.JOBS, meta.namespace, meta.name, meta.uid)])


# --- indexes -----------------------------------------------------------------------------------
def _indexed(job: Workload) -> bool:
    return job.spec.get("completionMode") == "Indexed"


def _index_of(pod: LocalPod) -> int | None:
    text = pod.annotations.get(_INDEX, "")
    return int(text) if text.isdecimal() else None


def _parse_indexes(text: str) -> set[int]:
    """``0-2,5`` as numbers."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _format_indexes(indexes: Iterable[int]) -> str:
    """Numbers as ``0-2,5``."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
