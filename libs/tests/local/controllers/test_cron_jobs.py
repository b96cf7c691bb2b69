"""CronJobs make a Job each time that their schedule is due."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

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


def test_only_the_latest_jobs_are_kept() -> None:
    jobs = [a_job(f"good-{i}", "Complete", f"2027-01-15T11:0{i}:00Z") for i in range(4)]
    jobs += [a_job(f"bad-{i}", "Failed", f"2027-01-15T11:1{i}:00Z") for i in range(2)]
    plan = cron_jobs.reconcile(a_cron_job(), jobs, NOON - 60)
    assert deleted(plan) == ["good-0", "bad-0"]


def test_a_schedule_that_is_none_is_left_alone() -> None:
    assert cron_jobs.reconcile(a_cron_job(schedule="now and then"), [], NOON).actions == []
