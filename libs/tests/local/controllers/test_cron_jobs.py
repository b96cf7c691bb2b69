"""CronJobs make a Job each time that their schedule is due."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from kai.model.cron import CronSchedule
from kai_local.controllers import cron_jobs
from kai_local.controllers.actions import Create, Delete, Patch
from kai_local.controllers.objects import Workload

NOON = 1_800_014_400.0  # 2027-01-15T12:00:00Z


def a_cron_job(status: Any = None, **spec: Any) -> Workload:
    metadata = {"name": "cron", "namespace": "ns", "uid": "u", "creationTimestamp": "2027-01-15T11:58:30Z"}
    template = {"spec": {"template": {"spec": {"containers": []}}}}
    body = {"schedule": "*/5 * * * *", "jobTemplate": template, **spec}
    return msgspec.convert({"metadata": metadata, "spec": body, "status": status or {}}, Workload)


def a_job(name: str, outcome: str = "", at: str = "") -> Workload:
    conditions = [{"type": outcome, "status": "True", "lastTransitionTime": at}] if outcome else []
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, Workload)


def unix(year: int, month: int, day: int, hour: int = 0) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


def created(plan: Any) -> list[str]:
    return [action.body["metadata"]["name"] for action in plan.actions if isinstance(action, Create)]


def deleted(plan: Any) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, Delete)]


def test_a_job_is_made_when_due_and_only_once() -> None:
    plan = cron_jobs.reconcile(a_cron_job(), [], NOON + 1)
    assert created(plan) == [f"cron-{int(NOON) // 60}"]
    assert plan.again_in == pytest.approx(299, abs=0.6)
    (patch,) = [action for action in plan.actions if isinstance(action, Patch)]
    assert patch.patch["status"]["lastScheduleTime"] == "2027-01-15T12:00:00Z"
    again = cron_jobs.reconcile(a_cron_job(patch.patch["status"]), [], NOON + 2)
    assert created(again) == []


def test_nothing_is_made_for_the_time_before_it_existed() -> None:
    assert created(cron_jobs.reconcile(a_cron_job(), [], NOON - 30)) == []


@pytest.mark.parametrize(
    ("policy", "makes", "ends"), [("Allow", 1, []), ("Forbid", 0, []), ("Replace", 1, ["old"])]
)
def test_what_runs_already_counts_as_the_policy_says(policy: str, makes: int, ends: list[str]) -> None:
    plan = cron_jobs.reconcile(a_cron_job(concurrencyPolicy=policy), [a_job("old")], NOON + 1)
    assert len(created(plan)) == makes
    assert deleted(plan) == ends


def test_a_start_that_is_too_late_is_left_out() -> None:
    assert created(cron_jobs.reconcile(a_cron_job(startingDeadlineSeconds=10), [], NOON + 60)) == []


def test_a_suspended_one_makes_nothing() -> None:
    plan = cron_jobs.reconcile(a_cron_job(suspend=True), [], NOON + 1)
    assert (created(plan), plan.again_in) == ([], None)


def test_the_time_zone_counts() -> None:
    plan = cron_jobs.reconcile(a_cron_job(schedule="0 21 * * *", timeZone="Asia/Tokyo"), [], NOON + 1)
    assert created(plan) == [f"cron-{int(NOON) // 60}"]


def test_what_has_run_is_not_run_once_more_when_clocks_change() -> None:
    status = {"lastScheduleTime": "2026-10-01T07:00:00Z"}
    monthly = a_cron_job(status, schedule="0 9 1 * *", timeZone="Europe/Berlin")
    assert created(cron_jobs.reconcile(monthly, [], unix(2026, 10, 25, 1))) == []
    assert created(cron_jobs.reconcile(monthly, [], unix(2026, 11, 1, 8))) == [
        f"cron-{unix(2026, 11, 1, 8) // 60:.0f}"
    ]


@pytest.mark.parametrize("schedule", ["30 2 * * *", "50 1 * * *", "0 0 * * *", "0 * * * *", "*/20 * * * *"])
@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("Europe/Berlin", [(3, 29), (10, 25)]),
        ("America/Havana", [(3, 8), (11, 1)]),
        ("Australia/Lord_Howe", [(4, 4), (10, 3)]),
    ],
)
def test_it_is_due_whenever_clocks_show_its_time(
    schedule: str, zone: str, changes: list[tuple[int, int]]
) -> None:
    """In both passes of a repeated hour, and not in one that is left out."""
    rule = CronSchedule.parse(schedule)
    status = {"lastScheduleTime": "2026-01-01T00:00:00Z"}
    cron_job = a_cron_job(status, schedule=schedule, timeZone=zone)
    for month, day in changes:
        seen: list[float] = []
        for minute in range(2 * 1440):
            now = unix(2026, month, day) + 60.0 * (minute - 1440)
            wall = datetime.fromtimestamp(now, ZoneInfo(zone)).replace(tzinfo=UTC, fold=0).timestamp()
            if rule.previous(wall) == wall:
                seen.append(now)
            if minute >= 1440 and minute % 30 == 0:
                late = cron_jobs.reconcile(cron_job, [], now + 59)
                assert created(late) == [f"cron-{seen[-1] // 60:.0f}"]


def test_only_the_latest_jobs_are_kept() -> None:
    jobs = [a_job(f"good-{i}", "Complete", f"2027-01-15T11:0{i}:00Z") for i in range(4)]
    jobs += [a_job(f"bad-{i}", "Failed", f"2027-01-15T11:1{i}:00Z") for i in range(2)]
    plan = cron_jobs.reconcile(a_cron_job(), jobs, NOON - 60)
    assert deleted(plan) == ["good-0", "bad-0"]


def test_a_schedule_that_is_none_is_left_alone() -> None:
    assert cron_jobs.reconcile(a_cron_job(schedule="now and then"), [], NOON).actions == []
