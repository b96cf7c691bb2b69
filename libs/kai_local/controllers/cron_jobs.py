"""CronJobs: a Job each time that the schedule is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import structlog

from kai.kube import resources
from kai.model.cron import CronSchedule, InvalidCron
from kai.model.objects import Json
from kai.snapshot.times import rfc3339, seconds
from kai_local.controllers.actions import Action, Create, Delete, Patch, Plan
from kai_local.controllers.objects import Workload, changed, object_reference, owner_reference

_MINUTE = 60.0
_LONGEST_LOOK_AHEAD = 366 * 86400.0

_log = structlog.get_logger(__name__)

#: The last time due at or before a time, both Unix seconds.
Previous = Callable[[float], float]


def reconcile(cron_job: Workload, jobs: Sequence[Workload], now: float) -> Plan:
    """Start what is due, forget what is old. ``jobs`` are those that it controls."""
    previous = _schedule(cron_job)
    if cron_job.terminating or previous is None:
        return Plan()
    running = [job for job in jobs if _outcome(job) is None]
    actions: list[Action] = _forget(cron_job, jobs)
    last = cron_job.status.get("lastScheduleTime")
    due = previous(now)
    known = seconds(last) or seconds(cron_job.metadata.creation_timestamp)
    deadline = cron_job.spec.get("startingDeadlineSeconds")
    late = deadline is not None and now - due > float(deadline)
    policy = cron_job.spec.get("concurrencyPolicy", "Allow")
    if due > known and not cron_job.spec.get("suspend") and not late and not (policy == "Forbid" and running):
        if policy == "Replace":
            actions += [Delete.of(resources.JOBS, job) for job in running]
            running = []
        actions.append(_new_job(cron_job, due))
        last = rfc3339(due)
    ends = [_outcome(job) for job in jobs]
    status: Json = {
        "active": [object_reference("batch/v1", "Job", job) for job in running],
        "lastScheduleTime": last,
        "lastSuccessfulTime": max(
            [end[1] for end in ends if end and end[0]], default=cron_job.status.get("lastSuccessfulTime")
        ),
    }
    if changed(cron_job.status, status):
        meta = cron_job.metadata
        actions.append(Patch(resources.CRON_JOBS, meta.namespace, meta.name, {"status": status}, "status"))
    return Plan(actions, None if cron_job.spec.get("suspend") else _next(previous, now) - now)


def _schedule(cron_job: Workload) -> Previous | None:
    """The schedule in its time zone; ``None`` if it cannot be read, which is logged."""
    try:
        schedule = CronSchedule.parse(str(cron_job.spec.get("schedule", "")))
        zone = ZoneInfo(str(cron_job.spec.get("timeZone") or "UTC"))
    except (InvalidCron, ZoneInfoNotFoundError, ValueError) as error:
        _log.warning("schedule not understood", cron_job=cron_job.key, error=str(error))
        return None

    return lambda now: _last_due(schedule, zone, now)


def _last_due(schedule: CronSchedule, zone: ZoneInfo, now: float) -> float:
    """The last time, at or before ``now``, at which clocks in the zone showed a time of the schedule.

    In the second pass of a repeated hour they have shown more than they do now, in the first.
    """
    local = datetime.fromtimestamp(now, zone)
    wall = local.replace(tzinfo=UTC, fold=0).timestamp()
    repeated = local.replace(fold=1).timestamp() - local.replace(fold=0).timestamp()
    return max(_last_shown(schedule, zone, start, now) for start in {wall, wall + repeated})


def _last_shown(schedule: CronSchedule, zone: ZoneInfo, wall: float, now: float) -> float:
    """As :func:`_last_due`, of what clocks show up to ``wall``, which is in seconds as if it were UTC."""
    while True:
        wall = schedule.previous(wall)
        shown = datetime.fromtimestamp(wall, UTC)
        for fold in (1, 0):
            time = shown.replace(tzinfo=zone, fold=fold).timestamp()
            # What is left out where clocks are put forward is never shown.
            if time <= now and datetime.fromtimestamp(time, zone).replace(tzinfo=UTC, fold=0) == shown:
                return time
        wall -= _MINUTE


def _next(previous: Previous, now: float) -> float:
    """The first time due after ``now``: where :func:`previous` steps up, found by halving."""
    before = previous(now)
    low, high = now, now + _MINUTE
    while previous(high) <= before and high - now < _LONGEST_LOOK_AHEAD:
        low, high = high, high + (high - now)
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (middle, high) if previous(middle) <= before else (low, middle)
    return max(previous(high), now + 0.5)


def _new_job(cron_job: Workload, due: float) -> Create:
    template = cron_job.spec.get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    at = rfc3339(due)
    body = {
        "metadata": {
            "name": f"{cron_job.metadata.name}-{int(due) // 60}",
            "labels": dict(meta.get("labels") or {}),
            "annotations": {
                **(meta.get("annotations") or {}),
                "batch.kubernetes.io/cronjob-scheduled-timestamp": at,
            },
            "ownerReferences": [owner_reference("batch/v1", "CronJob", cron_job)],
        },
        "spec": msgspec.json.decode(msgspec.json.encode(template.get("spec") or {})),
    }
    return Create(resources.JOBS, cron_job.metadata.namespace, body)


def _forget(cron_job: Workload, jobs: Sequence[Workload]) -> list[Action]:
    actions: list[Action] = []
    for well, limit in (
        (True, cron_job.spec.get("successfulJobsHistoryLimit", 3)),
        (False, cron_job.spec.get("failedJobsHistoryLimit", 1)),
    ):
        ended = [(end[1], job) for job in jobs if (end := _outcome(job)) is not None and end[0] is well]
        ended.sort(key=lambda entry: (entry[0], entry[1].metadata.name))
        actions += [Delete.of(resources.JOBS, job) for _, job in ended[: max(0, len(ended) - int(limit))]]
    return actions


def _outcome(job: Workload) -> tuple[bool, str] | None:
    """Whether the Job ended well, and when; ``None`` while it runs."""
    for condition in job.status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return condition["type"] == "Complete", str(condition.get("lastTransitionTime") or "")
    return None
