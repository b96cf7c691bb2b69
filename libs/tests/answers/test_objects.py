"""Work that never reaches the scheduler, and what its objects say of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai.answers.answer import Answer, Code, Ladder, Reason, StageState, Verdict
from kai.answers.objects import (
    evictions,
    with_failed_binds,
    with_gates,
    without_group,
    without_pods,
    without_scheduler,
)
from kai.bench.objects import a_pod
from kai.model.objects import Condition, Pod
from kai.snapshot.times import rfc3339

NOW = 1_900_000_000.0
OURS = "kai-scheduler"


def failed(answer: Answer | None) -> str:
    assert answer is not None
    return next((each.stage for each in answer.stages if each.state is StageState.FAILED), "")


@pytest.mark.parametrize(
    ("named", "code", "text"),
    [
        ("kai-schedular", Code.MISSPELT_SCHEDULER, "did you mean 'kai-scheduler'?"),
        ("volcano", Code.ANOTHER_SCHEDULER, "its schedulerName is 'volcano'"),
        ("", Code.ANOTHER_SCHEDULER, "its schedulerName is 'default-scheduler'"),
    ],
)
def test_a_pod_that_is_for_somebody_else_is_told_for_whom(named: str, code: Code, text: str) -> None:
    found = without_scheduler(a_pod("p", scheduler=named), scheduler_name=OURS)
    assert found is not None
    assert (found.verdict, found.reason.code, failed(found)) == (Verdict.CHANGE, code, "known")
    assert text in found.reason.text


def test_a_pod_that_is_for_us_or_runs_elsewhere_is_no_trouble() -> None:
    assert without_scheduler(a_pod("p"), scheduler_name=OURS) is None
    found = without_scheduler(a_pod("p", scheduler="volcano", node="n"), scheduler_name=OURS)
    assert found is not None
    assert found.verdict is Verdict.RUNS


def test_a_pod_group_that_does_not_exist_is_named() -> None:
    found = without_group(a_pod("p", group="g"), exists=False, now=NOW)
    assert found is not None
    assert (found.reason.code, failed(found)) == (Code.POD_GROUP_MISSING, "grouped")
    assert "names pod group 'g', which does not exist" in found.reason.text
    assert without_group(a_pod("p", group="g"), exists=True, now=NOW) is None


@pytest.mark.parametrize(
    ("age", "more", "verdict", "code", "text"),
    [
        (2, {}, Verdict.WAIT, Code.NOT_GROUPED, "in no pod group after 2 s"),
        (60, {"groupers": 1}, Verdict.ESCALATE, Code.NOT_GROUPED, "the pod-grouper is silent"),
        (2, {"groupers": 0}, Verdict.ESCALATE, Code.NOT_GROUPED, "no pod-grouper is ready"),
        (2, {"warnings": ["no rights to read Widget w"]}, Verdict.CHANGE, Code.GROUPING_FAILED, "Widget w"),
    ],
)
def test_a_pod_that_nobody_grouped_is_told_why(
    age: float, more: dict[str, Any], verdict: Verdict, code: Code, text: str
) -> None:
    found = without_group(a_pod("p", created=NOW - age), exists=False, now=NOW, **more)
    assert found is not None
    assert (found.verdict, found.reason.code, failed(found)) == (verdict, code, "grouped")
    assert text in found.reason.text


def test_a_pod_that_the_pod_grouper_is_to_leave_alone_is_told_so() -> None:
    pod = a_pod("p", created=NOW - 60)
    pod.metadata.annotations = {"kai.scheduler/skip-podgrouper": "true"}
    found = without_group(pod, exists=False, now=NOW, groupers=1)
    assert found is not None
    assert found.verdict is Verdict.CHANGE
    assert "annotate it with pod-group-name" in found.reason.text


@pytest.mark.parametrize(
    ("spec", "status", "verdict", "code", "text"),
    [
        ({"suspend": True}, {}, Verdict.CHANGE, Code.SUSPENDED, "Job j is suspended"),
        ({"runPolicy": {"suspend": True}}, {}, Verdict.CHANGE, Code.SUSPENDED, "Job j is suspended"),
        ({"replicas": 0}, {}, Verdict.CHANGE, Code.NO_PODS, "its spec.replicas is 0"),
        (
            {},
            {"conditions": [{"type": "Complete", "status": "True"}]},
            Verdict.RUNS,
            Code.ENDED,
            "Job j has ended",
        ),
        (
            {},
            {"conditions": [{"type": "FailedCreate", "status": "True", "message": "exceeded quota"}]},
            Verdict.CHANGE,
            Code.NO_PODS,
            "(exceeded quota)",
        ),
    ],
)
def test_a_workload_without_pods_is_told_why(
    spec: dict[str, Any], status: dict[str, Any], verdict: Verdict, code: Code, text: str
) -> None:
    owner = {"kind": "Job", "metadata": {"name": "j", "namespace": "n"}, "spec": spec, "status": status}
    found = without_pods(owner, now=NOW)
    assert (found.verdict, found.reason.code) == (verdict, code)
    assert text in found.reason.text


@pytest.mark.parametrize(("age", "verdict"), [(1, Verdict.WAIT), (60, Verdict.CHANGE)])
def test_a_controller_has_a_moment_to_make_pods(age: float, verdict: Verdict) -> None:
    metadata = {"name": "j", "namespace": "n", "creationTimestamp": rfc3339(NOW - age)}
    found = without_pods({"kind": "Job", "metadata": metadata, "spec": {}}, now=NOW)
    assert (found.verdict, found.reason.code) == (verdict, Code.NO_PODS)


def an_answer(code: Code, text: str) -> Answer:
    reason, ladder = Reason(code=code, text=text), Ladder()
    ladder.passes("")
    return Answer(
        kind="Pod", namespace="n", name="p", pod_group="g", verdict=Verdict.CHANGE, reason=reason,
        stages=ladder.failed(reason),
    )  # fmt: skip


def test_gates_are_told_by_their_names() -> None:
    answer = an_answer(Code.GATED, "1 pod (p) held back by a scheduling gate")
    found = with_gates(answer, [a_pod("p", gated=True)])
    assert found.reason.text == "1 pod (p) held back by scheduling gate gate"
    assert found.reason.amounts == {"gates": ["gate"]}
    assert found.stages[1].text == found.reason.text
    other = an_answer(Code.OVER_LIMIT, "no")
    assert with_gates(other, [a_pod("p", gated=True)]) is other


def with_condition(pod: Pod, **condition: str) -> Pod:
    status = msgspec.structs.replace(pod.status, conditions=[Condition(**condition)])
    return msgspec.structs.replace(pod, status=status)


def test_a_bind_that_failed_is_told_where_nothing_else_is_in_the_way() -> None:
    pod = with_condition(a_pod("p"), type="PodBound", status="False", message="no such volume")
    found = with_failed_binds(an_answer(Code.NEXT_CYCLE, "its turn"), [pod])
    assert (found.reason.code, found.verdict) == (Code.BIND_FAILED, Verdict.WAIT)
    assert "the last bind of pod p failed: no such volume" in found.reason.text
    other = an_answer(Code.OVER_LIMIT, "no")
    assert with_failed_binds(other, [pod]) is other


def an_eviction(at: str, message: str, **annotations: str) -> dict[str, Any]:
    return {
        "reason": "Evict",
        "message": message,
        "lastTimestamp": at,
        "metadata": {"annotations": {key.replace("_", "-"): text for key, text in annotations.items()}},
    }


def test_evictions_are_told_once_for_each_decision_the_newest_first() -> None:
    who = {
        "evictor_pod_group_namespace": "a",
        "evictor_pod_group_name": "pg",
        "evictor_action_type": "reclaim",
    }
    events = [
        an_eviction("2030-01-01T00:00:00Z", "pod x was reclaimed.\nfrom q", num_evicted_pods="2", **who),
        an_eviction("2030-01-01T00:00:00Z", "pod y was reclaimed.\nfrom q", num_evicted_pods="2", **who),
        an_eviction("2030-01-02T00:00:00Z", "its gang is broken", evictor_action_type="stalegangeviction"),
        {"reason": "Unschedulable", "message": "no"},
    ]
    found = evictions(events)
    assert [(each.at, each.by, each.action) for each in found] == [
        ("2030-01-02T00:00:00Z", "", "stalegangeviction"),
        ("2030-01-01T00:00:00Z", "a/pg", "reclaim"),
    ]
    assert found[1].why == "pod x was reclaimed. from q"
