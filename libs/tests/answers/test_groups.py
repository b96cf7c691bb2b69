"""The one reason for which a pod group waits, by what is in its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kai.answers.answer import Answer, Code, StageName, StageState, Verdict, document
from kai.answers.answering import answer_pod, answer_pod_group, answer_pod_groups, answer_queue
from kai.answers.situation import Situation
from kai.engine.queueing.turns import Turns
from kai.model import limits
from kai.model.faults import INVALID_OBJECT, Fault
from kai.model.ids import PodGroupKey
from kai.model.objects import PodGroupStatus, SchedulingCondition, Taint
from kai.replay import remainder
from kai.snapshot import codec, refusals
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    a_topology,
)


def the_situation(*things: Any, **more: Any) -> Situation:
    state = a_state(*things)
    state.settle(NOW)
    return Situation(snapshot=codec.cut(state), now=NOW, **more)


def answered(*things: Any, key: str = "default/job") -> Answer:
    found = answer_pod_group(the_situation(*things), PodGroupKey(key))
    assert found is not None
    return found


def failed(answer: Answer) -> StageName | None:
    return next((each.stage for each in answer.stages if each.state is StageState.FAILED), None)


def team(**options: Any) -> list[Any]:
    return [a_queue("top"), a_queue("team", parent="top", **options)]


def tainted(name: str, **options: Any) -> Any:
    node = a_node(name, **options)
    node.spec.taints = [Taint(key="for", value="others", effect="NoSchedule")]
    return node


def stated(name: str, state: str, **options: Any) -> Any:
    """A node with the taint that Kubernetes puts on it."""
    node = a_node(name, **options)
    node.spec.taints = [Taint(key=f"node.kubernetes.io/{state}", effect="NoSchedule")]
    return node


def with_capacity(name: str, *, capacity: dict[str, str], **options: Any) -> Any:
    node = a_node(name, **options)
    node.status.capacity = capacity
    return node


TWO: Sequence[Any] = [a_node("n0", gpus=4), a_node("n1", gpus=4)]
SHARED = [a_node("n0", gpus=1, gpu_memory_mib=40_000)]
#: Runs, and is nobody's to take.
FIRM: dict[str, Any] = {"gpus": 1, "priority": "build"}
CASES: dict[str, tuple[list[Any], Verdict, StageName, Code, str, dict[str, Any]]] = {
    "the limit of its queue": (
        [team(limit=1), TWO, a_job("job", gpus=2)],
        Verdict.ESCALATE, StageName.WITHIN_LIMITS, Code.OVER_LIMIT,
        "queue 'team' would exceed its limit: 2 GPUs asked, 0 GPUs held, limit 1 GPU",
        {"gpuAsked": 2, "gpuHeld": 0, "gpuLimit": 1},
    ),
    "a limit that others use up": (
        [team(limit=2), TWO, a_job("old", gpus=2, on="n0"), a_job("job", gpus=2)],
        Verdict.WAIT, StageName.WITHIN_LIMITS, Code.OVER_LIMIT,
        "2 GPUs asked, 2 GPUs held, limit 2 GPUs", {"gpuHeld": 2},
    ),
    "quota of what cannot be preempted": (
        [team(gpu=1), TWO, a_job("job", gpus=2, priority="build")],
        Verdict.CHANGE, StageName.WITHIN_LIMITS, Code.OVER_QUOTA,
        "2 GPUs asked, 0 GPUs held, quota 1 GPU", {"gpuAsked": 2, "gpuQuota": 1},
    ),
    "more GPUs than any node has": (
        [team(), TWO, a_job("job", gpus=9)],
        Verdict.NEVER, StageName.NODES_ALLOWED, Code.TOO_LARGE,
        "pod job-0 asks for 9 GPUs; the largest node, n0, has 4 GPUs", {"asked": 9, "largest": 4},
    ),
    "more GPUs than any node has, which its queue may not hold either": (
        [team(limit=1), TWO, a_job("job", gpus=9)],
        Verdict.NEVER, StageName.NODES_ALLOWED, Code.TOO_LARGE,
        "pod job-0 asks for 9 GPUs; the largest node, n0, has 4 GPUs", {"asked": 9, "largest": 4},
    ),
    "more cores than any node has": (
        [team(), TWO, a_job("job", gpus=1, cpu="200000")],
        Verdict.NEVER, StageName.NODES_ALLOWED, Code.TOO_LARGE,
        "asks for 200000 cores; the largest node, n0, has 20000 cores", {"resource": "cpu"},
    ),
    "free GPUs in pieces": (
        [team(), TWO, a_job("a", on="n0", **FIRM), a_job("b", on="n1", **FIRM), a_job("job", gpus=4)],
        Verdict.WAIT, StageName.ROOM, Code.FRAGMENTED,
        "hole 3 GPUs (n0); default/a-0 (1 GPU) is in the way on n0; nothing that runs may be taken",
        {"asked": 4, "free": 6, "freeNodes": 2, "largestHole": 3},
    ),
    "parts of GPUs that are too small": (
        [team(), SHARED, a_job("x", fraction=0.7, on="n0", groups=("g",)), a_job("job", fraction=0.4)],
        Verdict.WAIT, StageName.ROOM, Code.NOT_ENOUGH_FREE,
        "it asks for 0.4 of a GPU, and the largest free part is 0.3 of a GPU (n0)",
        {"asked": 0.4, "largestHole": 0.3},
    ),
    "more memory than any GPU has": (
        [team(), SHARED, a_job("job", gpu_memory_mib=200_000)],
        Verdict.NEVER, StageName.NODES_ALLOWED, Code.TOO_LARGE,
        "asks for 200000 MiB of a GPU; the largest has 40000 MiB", {"asked": 200_000, "largest": 40_000},
    ),
    "a selector and a taint": (
        [
            team(), a_node("n0", gpus=4), tainted("n1", gpus=4, labels={"pool": "a"}),
            a_job("job", gpus=1, spec={"node_selector": {"pool": "a"}}),
        ],
        Verdict.CHANGE, StageName.NODES_ALLOWED, Code.TAINTED,
        "the taint for=others:NoSchedule, which pod job-0 does not tolerate; it asks for the label pool=a",
        {"taints": ["for=others:NoSchedule"], "wouldDo": ["n1"]},
    ),
    "a label that no node has": (
        [team(), TWO, a_job("job", gpus=1, spec={"node_selector": {"zone": "x"}})],
        Verdict.CHANGE, StageName.NODES_ALLOWED, Code.NODE_SELECTOR,
        "no node has the label zone=x", {"selector": {"zone": "x"}},
    ),
    "nodes that are not ready": (
        [team(), a_node("n0", gpus=4, ready=False), a_job("job", gpus=1)],
        Verdict.ESCALATE, StageName.NODES_ALLOWED, Code.NODES_UNAVAILABLE, "node is not ready", {},
    ),
    "nodes that are not ready, and say so in a taint": (
        [team(), stated("n0", "not-ready", gpus=4, ready=False), a_job("job", gpus=1)],
        Verdict.ESCALATE, StageName.NODES_ALLOWED, Code.NODES_UNAVAILABLE, "node is not ready",
        {"wouldDo": ["n0"]},
    ),
    "a node that is ready again, whose taint is still there": (
        [team(), stated("n0", "not-ready", gpus=4), a_job("job", gpus=1)],
        Verdict.ESCALATE, StageName.NODES_ALLOWED, Code.NODES_UNAVAILABLE,
        "node has the taint node.kubernetes.io/not-ready still", {"wouldDo": ["n0"]},
    ),
    "a taint beside that of a cordoned node": (
        [
            team(), stated("n0", "unschedulable", gpus=4, ready=False), tainted("n1", gpus=4),
            a_job("job", gpus=1),
        ],
        Verdict.CHANGE, StageName.NODES_ALLOWED, Code.TAINTED, "the taint for=others:NoSchedule",
        {"wouldDo": ["n1"]},
    ),
    "GPUs of which a device plugin has not told yet": (
        [team(), a_node("n0", gpus=0, labels={"nvidia.com/gpu.count": "4"}), a_job("job", gpus=1)],
        Verdict.ESCALATE, StageName.NODES_ALLOWED, Code.NODES_UNAVAILABLE,
        "and no node offers as much now; by its capacity or labels 1 node (n0) should: look whether",
        {"wouldDo": ["n0"]},
    ),
    "GPUs whose device plugin is replaced": (
        [team(), with_capacity("n0", gpus=0, capacity={"nvidia.com/gpu": "4"}), a_job("job", gpus=1)],
        Verdict.ESCALATE, StageName.NODES_ALLOWED, Code.NODES_UNAVAILABLE,
        "1 node (n0) should: look whether the device plugin runs there",
        {"wouldDo": ["n0"]},
    ),
    "more GPUs than a node would have": (
        [team(), with_capacity("n0", gpus=0, capacity={"nvidia.com/gpu": "4"}), a_job("job", gpus=8)],
        Verdict.NEVER, StageName.NODES_ALLOWED, Code.NOT_OFFERED, "no node offers gpu", {},
    ),
    "a resource that nobody offers": (
        [team(), a_node("n0", gpus=0), a_job("job", gpus=1)],
        Verdict.NEVER, StageName.NODES_ALLOWED, Code.NOT_OFFERED, "no node offers gpu", {},
    ),
    "a gang that is too large": (
        [team(), TWO, a_job("job", pods=4, gpus=4)],
        Verdict.ESCALATE, StageName.ROOM, Code.NOT_ENOUGH_FREE,
        "it asks for 4 GPUs for each of 4 pods, of which 2 find room; 8 GPUs free on 2 nodes",
        {"pods": 4, "podsWithRoom": 2, "free": 8},
    ),
    "a queue with queues below it": (
        [team(), TWO, a_job("job", queue="top", gpus=4)],
        Verdict.CHANGE, StageName.ADMITTED, Code.QUEUE_NOT_LEAF,
        "queue 'top' has child queues, and work runs in leaf queues only: team", {"leaves": ["team"]},
    ),
    "a queue that is not there": (
        [team(), TWO, a_job("job", queue="nope", gpus=4)],
        Verdict.CHANGE, StageName.ADMITTED, Code.QUEUE_MISSING,
        "queue 'nope' does not exist; create it or name another; leaf queues are team", {"leaves": ["team"]},
    ),
    "a queue that is misspelt": (
        [team(), TWO, a_job("job", queue="taem", gpus=4)],
        Verdict.CHANGE, StageName.ADMITTED, Code.QUEUE_MISSING,
        "leaf queues are team; did you mean 'team'?", {"leaves": ["team"]},
    ),
    "a topology that is not there": (
        [team(), TWO, a_job("job", gpus=1, group={"topology": a_constraint(required="rack")})],
        Verdict.CHANGE, StageName.NODES_ALLOWED, Code.TOPOLOGY_MISSING, "does not exist; there are none", {},
    ),
    "a level that its topology lacks": (
        [
            team(), TWO, a_topology("rack"),
            a_job("job", gpus=1, group={"topology": a_constraint(required="row")}),
        ],
        Verdict.CHANGE, StageName.NODES_ALLOWED, Code.TOPOLOGY_MISSING, "has no level 'row'; it has rack", {},
    ),
    "racks that are too small": (
        [
            team(), a_node("n0", gpus=4, labels={"rack": "a"}), a_node("n1", gpus=4, labels={"rack": "b"}),
            a_topology("rack"),
            a_job("job", pods=2, gpus=4, group={"topology": a_constraint(required="rack")}),
        ],
        Verdict.ESCALATE, StageName.ROOM, Code.TOPOLOGY_TOO_SMALL,
        "no domain of its topology has room for all of it", {},
    ),
    "a scheduling gate": (
        [team(), TWO, a_job("job", gpus=4, gated=True)],
        Verdict.CHANGE, StageName.COMPLETE, Code.GATED,
        "1 pod (job-0) held back by a scheduling gate", {"held": ["job-0"]},
    ),
    "pods that are missing": (
        [team(), TWO, a_job("job", gpus=1, pods=2, min_member=3)],
        Verdict.CHANGE, StageName.COMPLETE, Code.PODS_MISSING,
        "2 of the 3 that are needed exist", {"pods": 2},
    ),
    "pods that are being made": (
        [team(), TWO, a_job("job", gpus=1, pods=2, min_member=3, created=NOW - 2)],
        Verdict.WAIT, StageName.COMPLETE, Code.PODS_MISSING, "2 of the 3 that are needed exist", {},
    ),
    "pods of which one is about to go": (
        [
            team(), TWO, a_job("job", gpus=1, pods=2, min_member=3),
            a_pod("job-2", group="job", node="n0", gpus=1, deleted=NOW - 5),
        ],
        Verdict.CHANGE, StageName.COMPLETE, Code.PODS_MISSING,
        "2 of the 3 that are needed exist beside 1 pod about to go", {"pods": 3},
    ),
    "a subgroup that is not there": (
        [
            team(), TWO,
            a_job("job", Part("a", pod={"sub_group": "c"}), gpus=1),
        ],
        Verdict.CHANGE, StageName.GROUPED, Code.UNKNOWN_SUB_GROUP, "name a subgroup", {"subGroups": ["a"]},
    ),
    "only part of it having room": (
        [team(limit=2), TWO, a_job("job", gpus=1, on=["n0", "n0"], pods=4, min_member=1)],
        Verdict.ESCALATE, StageName.WITHIN_LIMITS, Code.OVER_LIMIT,
        "2 of 4 pods are placed; for the rest: queue 'team' would exceed its limit: 1 GPU asked",
        {"placed": 2, "of": 4},
    ),
    "neighbours that it shuns": (
        [
            team(), a_node("n0", gpus=4),
            a_job("old", gpus=1, on="n0", labels={"app": "x"}),
            a_job(
                "job", gpus=1, labels={"app": "x"},
                spec={"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"},
                ]}}},
            ),
        ],
        Verdict.WAIT, StageName.ROOM, Code.NEIGHBOURS, "refuse it for those who run there", {},
    ),
    "its turn": (
        [team(), TWO, a_job("job", gpus=4)],
        Verdict.WAIT, StageName.BOUND, Code.NEXT_CYCLE, "its turn in the next cycle", {},
    ),
    "others before it": (
        [team(), a_node("n0", gpus=4), a_job("job", gpus=4), a_job("first", gpus=4, priority="build")],
        Verdict.WAIT, StageName.ROOM, Code.OTHERS_FIRST,
        "others come first and take it: default/first", {"ahead": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_one_reason_is(
    case: tuple[list[Any], Verdict, StageName, Code, str, dict[str, Any]],
) -> None:
    things, verdict, stage, code, text, amounts = case
    answer = answered(*things)
    assert (answer.reason.code, failed(answer)) == (code, stage), answer.reason.text
    assert text in answer.reason.text
    assert amounts.items() <= answer.reason.amounts.items(), answer.reason.amounts
    assert answer.verdict is verdict
    # Every stage before is passed, and none after it is reached.
    states = [each.state for each in answer.stages]
    at = states.index(StageState.FAILED)
    assert states[:at] == [StageState.PASSED] * at
    assert states[at + 1 :] == [StageState.NOT_REACHED] * (8 - at)


def two_queues(**options: Any) -> list[Any]:
    """``other`` holds everything, and ``team`` deserves half."""
    return [
        a_queue("top"), a_queue("team", parent="top", gpu=4),
        a_queue("other", parent="top", gpu=0, **options), TWO,
        a_job("old", queue="other", gpus=4, pods=2, on=["n0", "n1"], started=NOW - 60), a_job("job", gpus=4),
    ]  # fmt: skip


def test_victims_that_are_protected_are_named_with_the_moment_at_which_it_has_its_turn() -> None:
    answer = answered(two_queues(reclaim_min_runtime="30m"))
    assert (answer.verdict, answer.reason.code) == (Verdict.WAIT, Code.PROTECTED)
    assert failed(answer) is StageName.VICTIMS_PERMITTED
    assert (
        "queue 'other' holds 8 GPUs of a fair share of 4 GPUs, but default/old is protected by minimum "
        "runtime until 2030-03-17T18:15:40Z; it is its turn then"
    ) in answer.reason.text
    assert answer.reason.amounts["protected"] == ["default/old"]


def test_a_delay_of_its_own_keeps_it_from_taking_the_place_of_others() -> None:
    things = two_queues()
    things[-1] = a_job("job", gpus=4, created=NOW - 60, group={"preemption_delay": "10m"})
    answer = answered(things)
    assert (answer.verdict, answer.reason.code) == (Verdict.WAIT, Code.PREEMPTION_DELAY)
    assert answer.reason.amounts["until"] == "2030-03-17T17:55:40Z"


def test_those_who_make_room_in_the_next_cycle_are_named() -> None:
    answer = answered(two_queues())
    assert answer.reason.code is Code.NEXT_CYCLE
    assert answer.reason.text == "the next cycle takes pods of default/old to make room for it"


def test_of_nodes_that_refuse_it_for_those_who_run_there_no_others_are_told() -> None:
    things = [*CASES["neighbours that it shuns"][0]]
    cordoned = a_node("n1", gpus=4)
    cordoned.spec.unschedulable = True
    answer = answered(*things, cordoned)
    assert answer.reason.code is Code.NEIGHBOURS
    assert answer.reason.text.endswith(": 1 node: node didn't match pod affinity or anti-affinity")


def test_work_at_the_limit_of_its_queue_that_has_the_place_of_lower_work_there_has_its_turn() -> None:
    old, urgent = a_job("old", gpus=2, on="n0"), a_job("job", gpus=2, priority="build-preemptible")
    answer = answered(team(limit=2), TWO, old, urgent)
    assert (answer.verdict, answer.reason.code) == (Verdict.WAIT, Code.NEXT_CYCLE)
    assert answer.reason.text == "the next cycle takes pods of default/old to make room for it"


def test_memory_of_gpus_may_be_beyond_the_limit_on_every_node_that_it_may_go_to() -> None:
    large = a_node("large", gpus=4, gpu_memory_mib=40_000)
    large.spec.unschedulable = True
    small = a_node("small", gpus=4, gpu_memory_mib=16_000)
    job = a_job("job", gpus=0, gpu_memory_mib=4_000)
    answer = answered(team(limit=0.2), large, small, job)
    assert (answer.reason.code, failed(answer)) == (Code.OVER_LIMIT, StageName.WITHIN_LIMITS)
    assert answer.reason.text == (
        "queue 'team' would exceed its limit: 0.25 GPUs asked, 0 GPUs held, limit 0.2 GPUs"
    )
    large.spec.unschedulable = False
    assert answered(team(limit=0.2), large, small, job).reason.code is Code.NEXT_CYCLE


def test_a_limit_above_is_no_obstacle_where_those_below_it_are_only_protected_for_a_while() -> None:
    answer = answered(
        a_queue("top", limit=8), a_queue("team", parent="top", gpu=4),
        a_queue("other", parent="top", gpu=0, reclaim_min_runtime="30m"), TWO, a_node("free", gpus=8),
        a_job("old", queue="other", gpus=4, pods=2, on=["n0", "n1"], started=NOW - 60), a_job("job", gpus=4),
    )  # fmt: skip
    assert (answer.verdict, answer.reason.code) == (Verdict.WAIT, Code.PROTECTED)
    assert answer.reason.text == (
        "queue 'top' would exceed its limit: 4 GPUs asked, 8 GPUs held, limit 8 GPUs; queue 'other' holds 8 "
        "GPUs of a fair share of 4 GPUs, but default/old is protected by minimum runtime until "
        "2030-03-17T18:15:40Z; it is its turn then"
    )
    assert answer.reason.amounts["protected"] == ["default/old"]


def test_pods_that_ask_for_the_same_vie_for_room_whatever_they_are_labelled() -> None:
    parts = [Part(name, pod={"labels": {"part": name}}) for name in "ab"]
    answer = answered(
        team(), a_node("n0", gpus=4), a_job("old", gpus=1, on="n0", priority="build"),
        a_job("job", *parts, gpus=2, spec={"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"},
            ],
        }}}),
    )  # fmt: skip
    assert answer.reason.code is Code.NOT_ENOUGH_FREE
    assert "2 GPUs for each of 2 pods, of which 1 find room" in answer.reason.text


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        (2, "it waits with 2 pods, and nodes that can take it may hold 1 more pod of its kind"),
        (3, "it waits with 3 pods, and nodes that can take it may hold 1 more pod of its kind"),
    ],
)
def test_pods_that_hold_shared_devices_need_room_among_pods_too(pods: int, told: str) -> None:
    """A node that may hold two pods holds one that shares a device, and the one that reserves it."""
    answer = answered(
        a_node("n0", gpus=1, gpu_memory_mib=40_000, pods=2),
        a_job("job", fraction=0.25, pods=pods, min_member=pods),
    )
    assert answer.reason.code is Code.NOT_ENOUGH_FREE
    assert told in answer.reason.text


def test_nodes_that_refused_pods_are_named_with_the_moment_at_which_they_get_pods_again() -> None:
    state = a_state(team(), a_node("n0", gpus=4), a_job("job", gpus=1))
    for _ in range(refusals.IN_A_ROW):
        state.refusals.refused("n0", namespace="default", now=NOW)
    state.settle(NOW)
    left = remainder.take(state, Turns())
    situation = Situation(snapshot=codec.cut(state), now=NOW, remainder=left)
    answer = answer_pod_group(situation, PodGroupKey("default/job"))
    assert answer is not None
    assert (answer.verdict, answer.reason.code) == (Verdict.WAIT, Code.NODES_SET_ASIDE)
    again = rfc3339(NOW + refusals.FIRST_SECONDS)
    assert answer.reason.text == (
        "nodes with room refused the last pods that they were given (n0); "
        f"the first of them gets pods again at {again}"
    )
    assert answer.reason.amounts["until"] == {"n0": again}


def test_what_runs_runs_and_has_no_position() -> None:
    answer = answered(team(), TWO, a_job("job", gpus=4, on="n0"))
    assert (answer.verdict, answer.reason.code, answer.position) == (Verdict.RUNS, Code.RUNNING, None)
    assert all(each.state is StageState.PASSED for each in answer.stages)


def test_the_position_counts_those_of_its_queue_who_are_served_before() -> None:
    waiting = [a_job(f"w{number}", gpus=9, created=float(number)) for number in range(3)]
    answer = answered(team(), TWO, waiting, key="default/w2")
    assert answer.position is not None
    assert (answer.position.queue, answer.position.ahead, answer.position.of) == ("team", 2, 3)


def test_a_group_that_is_left_out_is_told_so() -> None:
    fault = Fault(kind="PodGroup", key="default/job", uid="job", reason=INVALID_OBJECT, message="too much")
    situation = the_situation(team(), TWO, a_job("job"), faults={("PodGroup", "default/job"): fault})
    answer = answer_pod_group(situation, PodGroupKey("default/job"))
    assert answer is not None
    assert (answer.reason.code, failed(answer)) == (Code.NOT_TAKEN_IN, StageName.KNOWN)
    assert "too much" in answer.reason.text


def test_a_pod_waits_for_what_its_group_waits_for() -> None:
    situation = the_situation(team(limit=1), TWO, a_job("job", gpus=2), a_job("run", gpus=1, on="n1"))
    waits, runs = answer_pod(situation, "default/job-0"), answer_pod(situation, "default/run-0")
    assert waits is not None
    assert runs is not None
    assert (waits.kind, waits.name, waits.pod_group, waits.reason.code) == (
        "Pod", "job-0", "job", Code.OVER_LIMIT,
    )  # fmt: skip
    assert (runs.verdict, runs.reason.text) == (Verdict.RUNS, "the pod is running on n1")


def test_a_queue_tells_what_it_holds_and_why_the_next_of_it_waits() -> None:
    situation = the_situation(team(limit=2), TWO, a_job("run", gpus=1, on="n1"), a_job("job", gpus=2))
    answer = answer_queue(situation, "team")
    assert answer is not None
    assert (answer.verdict, answer.reason.code) == (Verdict.WAIT, Code.OVER_LIMIT)
    assert answer.reason.text.startswith(
        "queue 'team' holds 1 GPU (fair share 2 GPUs, quota unlimited, limit 2 GPUs); 1 pod group waiting, "
        "of which default/job is next: queue 'team' would exceed its limit"
    )
    idle = answer_queue(the_situation(team(), TWO), "team")
    assert idle is not None
    assert idle.verdict is Verdict.RUNS


def test_the_numbers_of_a_queue_are_its_own_whichever_queue_is_in_the_way() -> None:
    tree = [
        a_queue("top", gpu=6, limit=4),
        a_queue("small", parent="top", gpu=1, limit=2),
        a_queue("firm", parent="top", gpu=1, cpu=500),
    ]
    runs = a_job("run", queue="small", gpus=1, on="n1")
    by_leaf = the_situation(tree, TWO, runs, a_job("job", queue="small", gpus=2))
    of_parent = {"queue": "top", "gpuHeld": 1, "gpuQuota": 6, "gpuLimit": 4}
    assert amounts_of(by_leaf, "top", Code.OVER_LIMIT) == of_parent | {"gpuAsked": 2}
    own = {"queue": "small", "gpuHeld": 1, "gpuQuota": 1, "gpuLimit": 2, "gpuAsked": 2}
    assert amounts_of(by_leaf, "small", Code.OVER_LIMIT) == own
    by_parent = the_situation(tree, TWO, runs, a_job("job", queue="firm", gpus=4))
    own = {"queue": "firm", "gpuHeld": 0, "gpuQuota": 1, "gpuLimit": -1, "gpuAsked": 4}
    assert amounts_of(by_parent, "firm", Code.OVER_LIMIT) == own
    of_cpu = the_situation(tree, TWO, runs, a_job("job", queue="firm", priority="build"))
    assert amounts_of(of_cpu, "top", Code.OVER_QUOTA) == of_parent | {"cpuAsked": 1000}


def amounts_of(situation: Situation, queue: str, code: Code) -> dict[str, Any]:
    """What the answer for a queue counts, without what is next in it."""
    answer = answer_queue(situation, queue)
    assert answer is not None
    assert answer.reason.code is code
    amounts = dict(answer.reason.amounts)
    assert (amounts.pop("first"), amounts.pop("waiting")) == ("default/job", 1)
    assert f"(fair share {amounts.pop('gpuFairShare'):g} GPU" in answer.reason.text
    return amounts


def test_nobody_is_explained_who_is_not_there() -> None:
    situation = the_situation(team(), TWO)
    assert answer_pod_group(situation, PodGroupKey("default/none")) is None
    assert answer_pod(situation, "default/none") is None
    assert answer_queue(situation, "none") is None


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_queue_below_one_that_does_not_exist_is_told_to_be(jobs: int) -> None:
    work = [a_job("job", queue="child", gpus=1)] * jobs
    answer = answer_queue(the_situation(team(), a_queue("child", parent="nowhere"), TWO, work), "child")
    assert answer is not None
    assert (answer.verdict, answer.reason.code) == (Verdict.CHANGE, Code.QUEUE_MISSING)
    assert failed(answer) == StageName.ADMITTED
    waiting = "1 pod group waiting" if jobs else "nothing waits"
    assert answer.reason.text == (
        "nothing of queue 'child' is placed: queue 'nowhere', above queue 'child', does not exist; "
        f"create it; {waiting}"
    )
    assert answer.reason.amounts == {"queue": "child", "waiting": jobs}


def test_an_answer_as_a_document_has_the_keys_that_are_documented() -> None:
    found = document(answered(team(limit=1), TWO, a_job("job", gpus=2)))
    assert list(found) == [
        "kind", "namespace", "name", "podGroup", "verdict", "reason", "stages", "changes", "forecast",
        "position", "evictions",
    ]  # fmt: skip
    assert list(found["reason"]) == ["code", "text", "amounts"]
    assert found["stages"][4]["state"] == "failed"
    assert found["forecast"] is None


def test_a_pod_beyond_what_one_group_may_have_is_told_so() -> None:
    message = str(limits.GROUP_PODS.exceeded(100_001, "number of pods of group default/job"))
    fault = Fault(kind="Pod", key="default/late", uid="late", reason=INVALID_OBJECT, message=message)
    situation = the_situation(team(), TWO, a_job("job"), faults={("Pod", "default/late"): fault})
    answer = answer_pod(situation, "default/late")
    assert answer is not None
    assert (answer.verdict, answer.reason.code) == (Verdict.CHANGE, Code.NOT_TAKEN_IN)
    assert "it must be at most 100000 pods that name one group" in answer.reason.text


def test_of_several_pod_groups_all_are_counted_or_the_first_that_waits_is_told() -> None:
    situation = the_situation(
        team(),
        TWO,
        a_job("a", gpus=1, on="n0"),
        a_job("b", gpus=1, pods=2, on=["n0", "n1"]),
        a_job("c", gpus=9),
    )
    keys = [PodGroupKey(f"default/{name}") for name in "abc"]
    both, one, none = (answer_pod_groups(situation, some) for some in (keys[:2], keys, ()))
    assert both is not None
    assert (both.verdict, both.reason.text) == (Verdict.RUNS, "nothing of it waits: 3 pods placed")
    assert both.stages[0].text == "3 pods known to the scheduler"
    assert one is not None
    assert (one.pod_group, one.verdict) == ("c", Verdict.NEVER)
    assert none is None


def test_a_group_that_had_its_single_attempt_is_told_what_came_of_it_and_how_it_gets_another() -> None:
    group, pod = a_job("job", gpus=1)
    message = "Node-Pool 'default': no node has enough GPUs; verdict WAIT (NotEnoughFree): it asks for 1 GPU"
    told = SchedulingCondition(type="UnschedulableOnNodePool", node_pool="default", message=message)
    group.spec.scheduling_backoff = 1
    group.status = PodGroupStatus(scheduling_conditions=[told])
    answer = answered(team(), TWO, [group, pod])
    assert (answer.verdict, answer.reason.code, failed(answer)) == (
        Verdict.CHANGE, Code.GIVEN_UP, StageName.ADMITTED,
    )  # fmt: skip
    assert answer.reason.text == (
        "pod group default/job wants a single attempt (spec.schedulingBackoff 1), which failed: "
        "no node has enough GPUs; it is tried again once that field says -1"
    )
    assert [each.command for each in answer.changes] == [
        'kubectl patch podgroup/job -n default --type=merge -p \'{"spec": {"schedulingBackoff": -1}}\''
    ]
