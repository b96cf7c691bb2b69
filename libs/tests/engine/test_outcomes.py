"""What a cycle tells pod groups, and each pod of them, about why they wait."""

from typing import Any

import pytest
from msgspec.structs import replace

from kai.engine import Engine, SchedulerConfig
from kai.model import names
from kai.model.decisions import Explanation, Outcome, PodGroupOutcome
from kai.model.objects import PodGroup, PodGroupStatus, SchedulingCondition, SubGroup
from kai.snapshot import codec
from kai.snapshot.state import ClusterState, Kind, StateParams
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    add,
    bound_keys,
    config,
    nodes,
    outcomes,
)

TEAM = a_queue("team", parent="top")


def _told(state: ClusterState, name: str, by: SchedulerConfig | None = None) -> PodGroupOutcome:
    return outcomes(Engine(by).run(state, NOW))[name]


def test_a_queue_limit_is_told_with_what_is_asked_and_held() -> None:
    state = a_state(nodes(2, gpus=4), a_queue("team", parent="top", limit=1), a_job("job", gpus=2))
    found = _told(state, "job")
    assert found.outcome is Outcome.UNSCHEDULABLE
    assert "GPU limit is 1 GPU, 0 GPUs in use, 2 GPUs requested" in found.message


def test_what_several_actions_find_of_a_pod_is_told_once() -> None:
    state = a_state(a_queue("q"), a_node("n", gpus=2), a_job("j", queue="q", gpus=3))
    too_large = "the pod asks for 3 GPUs, but the largest node has 2 GPUs in node pool 'default'"
    assert _told(state, "j").message == f"PodSchedulingErrors: pod default/j-0: {too_large}"


def test_nodes_are_counted_exactly() -> None:
    wanted = {"node_selector": {"zone": "elsewhere"}}
    state = a_state(nodes(2, gpus=4, labels={"zone": "z"}), a_job("job", gpus=2, spec=wanted))
    assert "2 node didn't match the pod's node selector" in _told(state, "job").message


def test_a_group_in_a_queue_with_children_is_told_that_and_nothing_about_room() -> None:
    state = a_state(nodes(1, gpus=4), TEAM, a_job("job", queue="top", gpus=8))
    assert _told(state, "job").message == "queue 'top' has child queues; jobs run in leaf queues only"


def test_a_delay_that_is_not_over_is_a_reason() -> None:
    job = a_job("job", gpus=5, created=NOW - 60, group={"preemption_delay": "1h"})
    found = _told(a_state(nodes(2, gpus=4), job), "job")
    assert "PreemptionDelayNotElapsed" in {each.reason for each in found.explanations}


def test_a_pod_of_a_subgroup_that_is_not_there_is_told_which_there_are() -> None:
    parts = [SubGroup(name=name, min_member=1) for name in ("left", "right")]
    group = a_group("job", queue="team", sub_groups=parts)
    pods = [a_pod(f"job-{name}", group="job", sub_group=name) for name in ("left", "right", "wrong")]
    assert _told(a_state(nodes(2, gpus=4), group, pods), "job").pod_messages == {
        "default/job-wrong": (
            "subgroup 'wrong' does not exist; label kai.scheduler/subgroup-name may say: left, right"
        )
    }


def test_of_many_subgroups_a_pod_that_is_of_none_is_told_a_few() -> None:
    """Each of its many pods is told so: all names would be more than all others are told together."""
    parts = [SubGroup(name=f"{at:03}-{'x' * 200}", min_member=1) for at in range(1000)]
    group = a_group("job", queue="team", sub_groups=parts)
    pods = [a_pod(f"job-{at}", group="job") for at in range(2)]
    texts = _told(a_state(nodes(1, gpus=4), group, pods), "job").pod_messages
    assert texts == dict.fromkeys(
        ("default/job-0", "default/job-1"),
        f"no subgroup is named; label kai.scheduler/subgroup-name may say: {parts[0].name} and 999 more",
    )


def test_a_part_of_a_device_that_lacks_a_place_for_its_reservation_is_told_so() -> None:
    state = a_state(a_node("small", gpus=1, pods=1, gpu_memory_mib=40_000), a_job("part", fraction=0.5))
    assert "1 node(s) pod number exceeded" in _told(state, "part").message


# --- once, and of those that are there -----------------------------------------------------------
def _with(obj: Any, **meta: object) -> Any:
    return replace(obj, metadata=replace(obj.metadata, **meta))


def test_a_group_made_anew_under_a_name_is_told_though_the_one_before_was_told_the_same() -> None:
    state, engine = a_state(nodes(1, gpus=4), a_job("job", gpus=5)), Engine()
    first = engine.run(state, NOW)
    state.remove(Kind.POD_GROUP, "default/job")
    assert engine.run(state, NOW + 1).forgotten == ("default/job",)
    add(state, _with(a_group("job", queue="team"), uid="second"))
    again = engine.run(state, NOW + 2)
    (told,) = first.outcomes
    assert (again.outcomes, again.forgotten) == ((replace(told, uid="second"),), ())
    add(state, _with(a_group("job", queue="team"), uid="third"))
    at_once = engine.run(state, NOW + 3)
    assert (at_once.outcomes, at_once.forgotten) == ((replace(told, uid="third"),), ("default/job",))
    rest = engine.run(state, NOW + 4)
    assert (rest.outcomes, rest.forgotten) == ((), ())


def test_a_group_that_moves_to_another_node_pool_is_forgotten_and_told_anew_when_it_is_back() -> None:
    group = a_group("job", queue="team")
    state, engine = a_state(nodes(1, gpus=4), group, a_pod("job-0", group="job", gpus=5)), Engine()
    first = engine.run(state, NOW)
    add(state, _with(group, labels={names.NODE_POOL_LABEL: "b"}))
    gone = engine.run(state, NOW + 1)
    assert (gone.outcomes, gone.forgotten) == ((), ("default/job",))
    add(state, group)
    back = engine.run(state, NOW + 2)
    assert (back.outcomes, back.forgotten) == (first.outcomes, ())


def test_a_group_of_another_node_pool_is_forgotten_once_its_last_pod_here_is_gone() -> None:
    group = a_group("job", queue="team")
    state, engine = a_state(nodes(1, gpus=4), group, a_pod("job-0", group="job", gpus=1, node="n0")), Engine()
    engine.run(state, NOW)
    add(state, _with(group, labels={names.NODE_POOL_LABEL: "b"}))
    assert engine.run(state, NOW + 1).forgotten == ()
    state.remove(Kind.POD, "default/job-0")
    assert engine.run(state, NOW + 2).forgotten == ("default/job",)


def test_a_group_whose_row_is_made_anew_is_not_forgotten() -> None:
    state, engine = a_state(nodes(1, gpus=4), a_job("job", gpus=5)), Engine()
    engine.run(state, NOW)
    add(state, a_group("job", queue="team", priority="build"))
    assert engine.run(state, NOW + 1).forgotten == ()


# --- a single attempt ----------------------------------------------------------------------------
def _after_an_attempt(group: PodGroup, pool: str) -> PodGroup:
    """What it says once it is told that a node pool cannot take it."""
    told = SchedulingCondition(type="UnschedulableOnNodePool", node_pool=pool, status="True")
    return replace(group, status=PodGroupStatus(scheduling_conditions=[told]))


@pytest.mark.parametrize(("pool", "label"), [("default", ""), ("b", "b")])
def test_a_group_that_wants_a_single_attempt_has_one_and_its_outcome_stands(pool: str, label: str) -> None:
    labels = {names.NODE_POOL_LABEL: label} if label else {}
    group = _with(a_group("job", queue="team"), labels=labels)
    group = replace(group, spec=replace(group.spec, scheduling_backoff=1))
    queues = [_with(each, labels=labels) for each in (a_queue("top"), TEAM)]
    pod, node = a_pod("job-0", group="job", gpus=5), a_node("n", gpus=4, labels=labels)
    state, engine = a_state(queues, node, group, pod, params=StateParams(node_pool=label)), Engine()
    assert "the pod asks for 5 GPUs" in outcomes(engine.run(state, NOW))["job"].message
    add(state, _after_an_attempt(group, "another"))
    assert engine.run(state, NOW + 1).outcomes == ()
    add(state, _after_an_attempt(group, pool), a_node("n", gpus=8, labels=labels))
    result = engine.run(state, NOW + 2)
    assert (result.binds, result.outcomes) == ((), ())
    add(state, group)
    assert bound_keys(engine.run(state, NOW + 3)) == ["default/job-0"]


def test_the_outcome_of_a_single_attempt_is_told_once_by_the_next_leader_as_its_condition_says() -> None:
    group = a_group("job", queue="team")
    group = replace(group, spec=replace(group.spec, scheduling_backoff=1))
    text = "the pod asks for 5 GPUs"
    told = SchedulingCondition(
        type="UnschedulableOnNodePool",
        node_pool="default",
        status="True",
        message=f"Node-Pool 'default': {text}; verdict NEVER (TooLarge): it is too large",
        reasons=[{"reason": "PodSchedulingErrors", "message": text}],
    )
    group = replace(group, status=PodGroupStatus(scheduling_conditions=[told]))
    state, engine = a_state(nodes(1, gpus=8), group, a_pod("job-0", group="job", gpus=5)), Engine()
    (found,) = engine.run(state, NOW).outcomes
    assert (found.outcome, found.message) == (Outcome.UNSCHEDULABLE, text)
    assert found.explanations == (Explanation(reason="PodSchedulingErrors", message=text),)
    assert engine.run(state, NOW + 1).outcomes == ()


# --- each node in a line -------------------------------------------------------------------------
def test_detailed_errors_give_each_node_a_line_with_what_is_asked_used_and_there() -> None:
    state = a_state(
        nodes(2, gpus=4),
        a_node("n2", gpus=8, ready=False),
        a_job("run", on="n1", gpus=3, cpu="1500m"),
        a_job("job", gpus=5),
    )
    plain, detailed = (
        _told(codec.restore(codec.cut(state)), "job", config(detailed_fit_errors=on)) for on in (False, True)
    )
    assert detailed.message == plain.message
    assert "\n" not in plain.pod_messages["default/job-0"].replace(". \n", "")
    assert detailed.pod_messages["default/job-0"].splitlines()[1:] == [
        "n0: Insufficient GPUs: requested 5, used 0, capacity 4",
        "n1: Insufficient GPUs: requested 5, used 3, capacity 4",
        "n2: node is not ready",
    ]


def test_detailed_errors_count_cores_and_parts_of_gpus_and_name_nodes_that_would_do_for_one_pod() -> None:
    shared = ("4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001",)
    state = a_state(
        a_node("one", gpus=1, cpu="4", gpu_memory_mib=40_000),
        a_node("two", gpus=0, cpu="2500m"),
        a_job("run", on="one", fraction=0.75, groups=shared),
        a_job("cores", pods=2, cpu="3"),
        a_job("part", fraction=0.5),
    )
    messages: dict[str, str] = {}
    for each in Engine(config("allocate", detailed_fit_errors=True)).run(state, NOW).outcomes:
        messages |= each.pod_messages
    lacks = "Insufficient GPU memory (MiB):"
    assert messages["default/part-0"].splitlines()[1:] == [
        f"one: {lacks} requested 20000, used 30000, capacity 40000, 20000 on each of 1 device",
        f"two: {lacks} requested 50, used 0, capacity 0, 50 on each of 1 device",
    ]
    assert messages["default/cores-1"].splitlines()[1:] == [
        "one: could take the pod, but not all that has to run with it",
        "two: Insufficient CPU cores: requested 3, used 0, capacity 2.5",
    ]


def test_detailed_errors_name_as_many_nodes_as_a_condition_has_room_for() -> None:
    large = [a_node(f"n{at:04}" + "x" * 180, gpus=4) for at in range(300)]
    told = _told(a_state(large, a_job("job", gpus=5)), "job", config(detailed_fit_errors=True))
    text = told.pod_messages["default/job-0"]
    head, *lines, last = text.splitlines()
    assert 32_000 < len(text.encode()) <= 32_768
    assert head == "no node has enough resources for the pod:"
    assert [line[:5] for line in lines] == [f"n{at:04}" for at in range(len(lines))]
    assert last == f"and {300 - len(lines)} more nodes"


ALONE = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"},
]}}  # fmt: skip


def test_detailed_errors_name_what_plugins_refuse_on_each_node() -> None:
    state = a_state(
        [a_node(name, gpus=4, labels={"kubernetes.io/hostname": name}) for name in ("n0", "n1")],
        a_job("run", on="n0", labels={"app": "x"}),
        a_job("alone", gpus=1, pods=2, labels={"app": "x"}, spec={"affinity": ALONE}),
        a_job("lost", gpus=1, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
    )
    by = config("allocate", detailed_fit_errors=True)
    told = outcomes(Engine(by).run(state, NOW))
    assert told["alone"].pod_messages["default/alone-1"].splitlines()[1:] == [
        "n0: node didn't match pod affinity or anti-affinity",
        "n1: could take the pod, but not all that has to run with it",
    ]
    assert told["lost"].pod_messages["default/lost-0"].splitlines()[1:] == [
        f"{name}: persistent volume claim 'c' does not exist in namespace 'default'" for name in ("n0", "n1")
    ]


# --- without a queue -----------------------------------------------------------------------------
def test_a_running_group_whose_queue_is_gone_keeps_its_pods_and_says_so() -> None:
    state = a_state(nodes(2, gpus=4), a_job("run", on="n0", gpus=1))
    engine = Engine()
    engine.run(state, NOW)
    state.remove(Kind.QUEUE, "team")
    result = engine.run(state, NOW + 1)
    state.check()
    (outcome,) = result.outcomes
    assert outcome.outcome is Outcome.SETTLED
    assert outcome.message == (
        "QueueDoesNotExist: queue 'team' does not exist; create it or name another; "
        "pods that run keep running until somebody needs what they hold, and are charged to no queue"
    )
    assert not result.evictions
    add(state, TEAM)
    (outcome,) = engine.run(state, NOW + 2).outcomes
    assert not outcome.message


def test_the_queue_that_is_missing_is_named_and_not_one_below_it() -> None:
    state = a_state(nodes(2, gpus=4), a_job("job", gpus=1))
    state.remove(Kind.QUEUE, "top")
    missing = "QueueDoesNotExist: queue 'top', above queue 'team', does not exist; create it"
    assert _told(state, "job").message == missing
    add(state, a_queue("top", parent="team"))
    assert "is its own ancestor" in _told(state, "job").message


def test_a_queue_deeper_than_the_last_level_takes_no_part_and_is_told_until_it_stands_higher() -> None:
    chain = [a_queue("q1"), *(a_queue(f"q{i}", parent=f"q{i - 1}") for i in range(2, 36))]
    state = a_state(nodes(1, gpus=4), chain, a_job("deep", queue="q35", gpus=1), a_job("last", queue="q32"))
    engine = Engine()
    first = engine.run(state, NOW)
    assert [bind.pod.name for bind in first.binds] == ["last-0"]
    message = "spec.parentQueue is 'q34'; it must be a queue with at most 30 queues above it"
    assert outcomes(first)["deep"].message == f"QueueDoesNotExist: queue 'q35' takes no part: {message}"
    add(state, chain[-1])  # as when its status changes
    for result in (first, engine.run(state, NOW + 1)):
        state.check()
        assert [(fault.kind, fault.key) for fault in result.faults] == [
            ("Queue", name) for name in ("q33", "q34", "q35")
        ]
        assert result.faults[-1].message == message
    add(state, a_queue("q33", parent="q1"))
    result = engine.run(state, NOW + 2)
    state.check()
    assert not result.faults
    assert [bind.pod.name for bind in result.binds] == ["deep-0"]


def test_whoever_deserves_no_more_takes_nothing_from_running_work_whose_queue_is_gone() -> None:
    state = a_state(
        nodes(1, gpus=4),
        [TEAM, a_queue("heir", parent="top", gpu=4, limit=0)],
        a_job("run", on="n0", gpus=4),
        a_job("more", queue="heir", gpus=1),
    )
    state.remove(Kind.QUEUE, "team")
    result = Engine().run(state, NOW)
    state.check()
    assert not result.evictions
    assert not result.binds
