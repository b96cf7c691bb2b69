"""Answers to "why", and remedies that hold."""

from unittest import mock

import msgspec

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.engine.explain import questions
from kai.engine.explain.questions import OTHERS_FIRST, THERE_IS_ROOM, PodGroupAnswer
from kai.model.decisions import Outcome
from kai.model.objects import SubGroup, Taint
from kai.snapshot import codec
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_queue, a_state


def _cluster(*, nodes: int = 2, limit: float = -1, quota: float = -1) -> ClusterState:
    return a_state(
        [a_node(f"node-{i}", gpus=4, labels={"zone": f"z{i}"}) for i in range(nodes)],
        a_queue("team", parent="top", limit=limit, gpu=quota),
    )


def _submit(
    state: ClusterState,
    name: str,
    pods: int,
    gpus: int,
    *,
    priority: str = "train",
    cpu: str = "1",
    **spec: object,
) -> None:
    state.apply(Kind.POD_GROUP, a_group(name, queue="team", min_member=pods, priority=priority))
    for i in range(pods):
        state.apply(Kind.POD, a_pod(f"{name}-{i}", group=name, gpus=gpus, cpu=cpu, spec=spec))


def _told(answer: PodGroupAnswer) -> list[str]:
    return [remedy.text for remedy in answer.remedies]


def test_a_queue_limit_is_named_and_raising_it_is_offered() -> None:
    state = _cluster(limit=1)
    _submit(state, "job", 1, 2)
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert answer.outcome.outcome is Outcome.UNSCHEDULABLE
    assert "GPU limit is 1 GPU, 0 GPUs in use, 2 GPUs requested" in answer.outcome.message
    assert _told(answer) == ["raise the limit of queue 'team' to 2 GPUs"]
    assert [share.queue for share in answer.queues] == ["top", "team"]


def test_a_quota_of_what_cannot_be_preempted_is_named_with_its_remedy() -> None:
    state = _cluster(quota=1)
    _submit(state, "job", 1, 2, priority="build")
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert _told(answer) == ["raise the quota of queue 'team' to 2 GPUs", "make the workload preemptible"]


def test_quotas_that_are_too_small_all_the_way_up_are_named_together() -> None:
    state = _cluster(quota=0)
    state.apply(Kind.QUEUE, a_queue("top", gpu=0))
    _submit(state, "job", 1, 2, priority="inference")
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert _told(answer) == [
        "raise the quota of queue 'team' to 2 GPUs, and raise the quota of queue 'top' to 2 GPUs",
        "make the workload preemptible",
    ]


def test_counts_of_nodes_are_exact_and_a_selector_that_is_too_narrow_is_found() -> None:
    state = _cluster()
    _submit(state, "job", 1, 2, node_selector={"zone": "elsewhere"})
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert "2 node didn't match the pod's node selector" in answer.outcome.message
    assert answer.outcome.message.startswith("no node has the label zone=elsewhere; ")
    assert _told(answer) == ["remove the node selector"]
    pod = Engine().explain_pod(state, "default/job-0", now=NOW)
    assert pod is not None
    assert [(node.node, node.fits, node.filter) for node in pod.nodes] == [
        ("node-0", False, "Node"),
        ("node-1", False, "Node"),
    ]


def test_a_gang_that_is_too_large_learns_how_much_of_it_fits_and_how_many_nodes_are_missing() -> None:
    state = _cluster()
    _submit(state, "gang", 4, 4)
    answer = Engine().explain_pod_group(state, "default/gang", now=NOW)
    assert answer is not None
    assert _told(answer) == [
        "lower the minimum from 4 to 2 pods: so many fit now",
        "add 2 nodes like node-0",
    ]


def test_a_group_in_a_queue_with_children_is_told_that_and_nothing_to_do_about_room() -> None:
    state = _cluster(nodes=1)
    state.apply(Kind.POD_GROUP, a_group("job", queue="top"))
    state.apply(Kind.POD, a_pod("job-0", group="job", gpus=8))
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert answer.outcome.message == "queue 'top' has child queues; jobs run in leaf queues only"
    assert answer.remedies == ()


def test_nodes_that_the_pods_may_not_use_do_not_count_towards_the_nodes_that_are_missing() -> None:
    state = _cluster(nodes=0)
    for name, taints in (("plain", None), ("kept", [Taint(key="for", value="others", effect="NoSchedule")])):
        node = a_node(name, gpus=15)
        node.spec = msgspec.structs.replace(node.spec, taints=taints)
        state.apply(Kind.NODE, node)
    state.apply(Kind.POD_GROUP, a_group("ran", queue="team", started=NOW - 500))
    state.apply(Kind.POD, a_pod("ran-0", group="ran", gpus=15, node="plain"))
    _submit(state, "gang", 20, 1)
    answer = Engine().explain_pod_group(state, "default/gang", now=NOW)
    assert answer is not None
    assert _told(answer) == ["add 2 nodes like plain"]


def test_what_others_would_take_first_is_not_promised() -> None:
    state = _cluster(nodes=1, limit=4)
    _submit(state, "first", 1, 8)
    state.apply(Kind.NODE, a_node("big", gpus=8, ready=False))
    _submit(state, "early", 4, 1, priority="build-preemptible")
    _submit(state, "late", 1, 4)
    answer = Engine().explain_pod_group(state, "default/late", now=NOW)
    assert answer is not None
    assert answer.outcome.message == OTHERS_FIRST
    state.apply(Kind.QUEUE, a_queue("team", parent="top", limit=3))
    answer = Engine().explain_pod_group(state, "default/late", now=NOW)
    assert answer is not None
    assert _told(answer) == []


def test_what_fits_as_things_are_only_waits_for_its_turn() -> None:
    state = _cluster()
    _submit(state, "job", 1, 4)
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert answer.outcome.message == THERE_IS_ROOM
    assert answer.remedies == ()


def test_what_is_being_released_for_others_is_no_room() -> None:
    state = _cluster(nodes=1)
    state.apply(Kind.POD_GROUP, a_group("ends", queue="team", started=NOW - 500))
    state.apply(Kind.POD, a_pod("ends-0", group="ends", gpus=4, node="node-0", deleted=NOW - 1))
    _submit(state, "first", 1, 4)
    _submit(state, "late", 1, 4)
    engine = Engine()
    engine.run(state, NOW)
    answer = engine.explain_pod_group(state, "default/late", now=NOW + 1)
    assert answer is not None
    assert answer.outcome.message == OTHERS_FIRST
    assert _told(answer) == ["add 1 node like node-0"]


def test_a_taint_that_is_in_the_way_may_be_tolerated() -> None:
    state = _cluster(nodes=0)
    node = a_node("kept")
    node.spec = msgspec.structs.replace(
        node.spec, taints=[Taint(key="for", value="others", effect="NoSchedule")]
    )
    state.apply(Kind.NODE, node)
    _submit(state, "job", 1, 1)
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert _told(answer) == ["tolerate the taint for=others:NoSchedule"]


def test_what_nobody_offers_and_a_class_that_is_not_there_come_first() -> None:
    state = _cluster()
    _submit(state, "job", 1, 5, priority="urgent")
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    first, second, *_ = answer.outcome.explanations
    assert first.reason == "PriorityClassDoesNotExist"
    assert first.message == "priority class 'urgent' does not exist; the pod group counts as priority 50"
    assert second.message == "no node offers 5 GPUs; the largest has 4 GPUs"
    assert answer.remedies == ()


def test_a_delay_that_is_not_over_is_a_reason_and_no_remedy() -> None:
    state = _cluster()
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", created=NOW - 60, preemption_delay="1h"))
    state.apply(Kind.POD, a_pod("job-0", group="job", gpus=5))
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert "PreemptionDelayNotElapsed" in {each.reason for each in answer.outcome.explanations}
    assert answer.remedies == ()


def test_a_pod_of_a_subgroup_that_is_not_there_is_told_which_there_are() -> None:
    state = _cluster()
    parts = [SubGroup(name=name, min_member=1) for name in ("left", "right")]
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", sub_groups=parts))
    for name in ("left", "right", "wrong"):
        state.apply(Kind.POD, a_pod(f"job-{name}", group="job", sub_group=name))
    answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert answer.outcome.pod_messages == {
        "default/job-wrong": (
            "subgroup 'wrong' does not exist; label kai.scheduler/subgroup-name may say: left, right"
        )
    }


def test_an_explanation_that_may_take_no_time_has_its_reasons_and_no_remedies() -> None:
    state = _cluster(limit=1)
    _submit(state, "job", 1, 2)
    with mock.patch.object(questions, "SECONDS", 0.0):
        answer = Engine().explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert "GPU limit is 1 GPU" in answer.outcome.message
    assert answer.remedies == ()


def test_asking_changes_nothing() -> None:
    state = _cluster(limit=1)
    _submit(state, "job", 3, 2, node_selector={"zone": "z0"})
    _submit(state, "gang", 4, 4)
    before, epoch = codec.cut(state), state.nodes.epoch
    for _ in range(2):
        Engine().explain_pod_group(state, "default/job", now=NOW)
        Engine().explain_pod_group(state, "default/gang", now=NOW)
        Engine().explain_pod(state, "default/job-1", now=NOW)
    state.check()
    assert (codec.cut(state).digest, codec.cut(state).version, state.nodes.epoch) == (
        before.digest,
        before.version,
        epoch,
    )


def test_asking_for_nodes_that_there_is_no_row_for_yet_changes_nothing_either() -> None:
    state, full = _cluster(nodes=0), 64
    for i in range(full):
        state.apply(Kind.NODE, a_node(f"node-{i:02}", gpus=1))
        state.apply(Kind.POD_GROUP, a_group(f"run-{i}", queue="team", started=NOW - 500))
        state.apply(Kind.POD, a_pod(f"run-{i}", group=f"run-{i}", gpus=1, node=f"node-{i:02}"))
    _submit(state, "job", 1, 1)
    engine = Engine()
    assert not engine.run(state, NOW).binds
    answer = engine.explain_pod_group(state, "default/job", now=NOW)
    assert answer is not None
    assert _told(answer) == ["add 1 node like node-00"]
    state.remove(Kind.POD, "default/run-7")
    (bind,) = engine.run(state, NOW + 1).binds
    assert bind.node == "node-07"
    state.check()


def test_what_is_not_there_is_not_explained() -> None:
    state = _cluster()
    assert Engine().explain_pod_group(state, "default/none", now=NOW) is None
    assert Engine().explain_pod(state, "default/none", now=NOW) is None


def test_a_part_of_a_device_that_lacks_a_place_for_its_reservation_is_told_so() -> None:
    state = _cluster(nodes=0)
    state.apply(Kind.NODE, a_node("small", gpus=1, pods=1, gpu_memory_mib=40_000))
    state.apply(Kind.POD_GROUP, a_group("part", queue="team"))
    state.apply(Kind.POD, a_pod("part-0", group="part", fraction=0.5))
    answer = Engine().explain_pod_group(state, "default/part", now=NOW)
    assert answer is not None
    assert "1 node(s) pod number exceeded" in answer.outcome.message


def test_detailed_errors_give_each_node_a_line_with_what_is_asked_used_and_there() -> None:
    state = _cluster()
    state.apply(Kind.POD_GROUP, a_group("run", queue="team", started=NOW - 500))
    state.apply(Kind.POD, a_pod("run-0", group="run", gpus=3, cpu="1500m", node="node-1"))
    state.apply(Kind.NODE, a_node("node-2", gpus=8, labels={"zone": "z2"}, ready=False))
    _submit(state, "job", 1, 5)
    plain, detailed = (
        next(
            each
            for each in Engine(SchedulerConfig(params=EngineParams(detailed_fit_errors=on)))
            .run(codec.restore(codec.cut(state)), NOW)
            .outcomes
            if each.pod_group == "default/job"
        )
        for on in (False, True)
    )
    assert detailed.message == plain.message
    assert "\n" not in plain.pod_messages["default/job-0"].replace(". \n", "")
    assert detailed.pod_messages["default/job-0"].splitlines()[1:] == [
        "node-0: Insufficient GPUs: requested 5, used 0, capacity 4",
        "node-1: Insufficient GPUs: requested 5, used 3, capacity 4",
        "node-2: node is not ready",
    ]


def test_detailed_errors_count_cores_and_parts_of_gpus_and_name_nodes_that_would_do_for_one_pod() -> None:
    state = _cluster(nodes=0)
    state.apply(Kind.NODE, a_node("one", gpus=1, cpu="4", gpu_memory_mib=40_000))
    state.apply(Kind.NODE, a_node("two", gpus=0, cpu="2500m"))
    state.apply(Kind.POD_GROUP, a_group("run", queue="team", started=NOW - 500))
    shared = ("4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001",)
    state.apply(Kind.POD, a_pod("run-0", group="run", fraction=0.75, node="one", groups=shared))
    _submit(state, "cores", 2, 0, cpu="3")
    state.apply(Kind.POD_GROUP, a_group("part", queue="team"))
    state.apply(Kind.POD, a_pod("part-0", group="part", fraction=0.5))
    config = SchedulerConfig(actions=("allocate",), params=EngineParams(detailed_fit_errors=True))
    messages: dict[str, str] = {}
    for each in Engine(config).run(state, NOW).outcomes:
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


def test_a_running_group_whose_queue_is_gone_keeps_its_pods_and_says_so() -> None:
    state = _cluster()
    state.apply(Kind.POD_GROUP, a_group("run", queue="team"))
    state.apply(Kind.POD, a_pod("run-0", group="run", gpus=1, node="node-0"))
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
    state.apply(Kind.QUEUE, a_queue("team", parent="top"))
    (outcome,) = engine.run(state, NOW + 2).outcomes
    assert not outcome.message


def test_the_queue_that_is_missing_is_named_and_not_one_below_it() -> None:
    state = _cluster()
    _submit(state, "job", 1, 1)
    state.remove(Kind.QUEUE, "top")
    (outcome,) = Engine().run(state, NOW).outcomes
    assert outcome.message == "QueueDoesNotExist: queue 'top', above queue 'team', does not exist; create it"
    state.apply(Kind.QUEUE, a_queue("top", parent="team"))
    (outcome,) = Engine().run(state, NOW).outcomes
    assert "is its own ancestor" in outcome.message


def test_whoever_deserves_no_more_takes_nothing_from_running_work_whose_queue_is_gone() -> None:
    state = _cluster(nodes=1)
    state.apply(Kind.QUEUE, a_queue("heir", parent="top", gpu=4, limit=0))
    state.apply(Kind.POD_GROUP, a_group("run", queue="team"))
    state.apply(Kind.POD, a_pod("run-0", group="run", gpus=4, node="node-0"))
    state.remove(Kind.QUEUE, "team")
    state.apply(Kind.POD_GROUP, a_group("more", queue="heir"))
    state.apply(Kind.POD, a_pod("more-0", group="more", gpus=1))
    result = Engine().run(state, NOW)
    state.check()
    assert not result.evictions
    assert not result.binds
