"""What befell pods that go together, and must not here; numbers are those of the issues of the original."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.model import names
from kai.model.decisions import Outcome
from kai.model.objects import (
    ObjectMeta,
    SubGroup,
    Topology,
    TopologyConstraint,
    TopologyLevel,
    TopologySpec,
)
from kai.replay.cycles import Replay, take_base
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    a_single,
    add,
    bound_keys,
    claiming,
    one_node,
)


def part(name: str, minimum: int | None = None, **fields: object) -> SubGroup:
    return SubGroup(name=name, min_member=minimum, **fields)


def pods(group: str, sub_group: str, count: int, **options: object) -> Iterable[tuple[Kind, object]]:
    prefix = sub_group or group
    return [
        (Kind.POD, a_pod(f"{prefix}-{i}", group=group, sub_group=sub_group, gpus=1, **options))
        for i in range(count)
    ]


# --- groups of the same name (2095) --------------------------------------------------------------
def test_2095_groups_of_the_same_name_in_two_namespaces_are_gangs_of_their_own():
    state = one_node()
    for namespace, count in (("live", 2), ("shadow", 1)):
        state.apply(Kind.POD_GROUP, a_group("shared", queue="team", min_member=2, namespace=namespace))
        for i in range(count):
            state.apply(Kind.POD, a_pod(f"{namespace}-{i}", group="shared", gpus=1, namespace=namespace))
    result = Engine().run(state, NOW)
    assert bound_keys(result) == ["live/live-0", "live/live-1"]
    (waits,) = [each for each in result.outcomes if each.outcome is Outcome.NOT_READY]
    assert waits.pod_group == "shadow/shared"


def test_2095_a_group_does_not_have_to_go_where_a_group_of_its_name_in_another_namespace_is():
    levels = [TopologyLevel(node_label="rack")]
    together = TopologyConstraint(topology="fabric", required_topology_level="rack")
    state = one_node(
        (Kind.TOPOLOGY, Topology(metadata=ObjectMeta(name="fabric"), spec=TopologySpec(levels=levels))),
        gpus=0,
    )
    for rack in ("left", "right"):
        state.apply(Kind.NODE, a_node(rack, gpus=2, labels={"rack": rack}))
    for namespace, node in (("live", "left"), ("shadow", "")):
        group = a_group(
            "shared", queue="team", min_member=2, namespace=namespace, topology=together, started=NOW - 500
        )
        state.apply(Kind.POD_GROUP, group)
        for i in range(2):
            pod = a_pod(f"{namespace}-{i}", group="shared", gpus=1, namespace=namespace, node=node)
            state.apply(Kind.POD, pod)
    result = Engine().run(state, NOW)
    assert {bind.node for bind in result.binds} == {"right"}
    assert bound_keys(result) == ["shadow/shadow-0", "shadow/shadow-1"]


# --- the floor of a gang (2096) ------------------------------------------------------------------
def a_group_of(*parts: SubGroup, needed: int | None = 1, **options: object) -> tuple[Kind, object]:
    return (
        Kind.POD_GROUP,
        a_group("job", queue="team", sub_groups=list(parts), min_sub_group=needed, **options),
    )


def test_2096_a_part_with_fewer_pods_than_its_minimum_does_not_start_though_its_group_may():
    state = one_node(
        a_group_of(part("filler", 1), part("starved", 2)),
        *pods("job", "filler", 1),
        *pods("job", "starved", 1),
    )
    engine = Engine()
    assert bound_keys(engine.run(state, NOW)) == ["default/filler-0"]
    result = engine.run(state, NOW + 1)
    assert bound_keys(result) == []
    (outcome,) = result.outcomes
    assert outcome.outcome is Outcome.NOT_READY
    assert outcome.message.endswith(
        "Waiting for 2 pods for SubGroup starved, currently 1 exist, 0 are gated."
    )
    state.apply(*next(iter(pods("job", "starved", 2)[1:])))
    assert bound_keys(engine.run(state, NOW + 2)) == ["default/starved-0", "default/starved-1"]


def test_2096_a_part_that_cannot_form_does_not_keep_one_that_can_from_starting():
    state = one_node(a_group_of(part("a", 2), part("b", 1)), *pods("job", "a", 1), *pods("job", "b", 1))
    assert bound_keys(Engine().run(state, NOW)) == ["default/b-0"]


def test_2096_the_same_holds_deeper_in_the_tree():
    parts = [
        part("needed", min_sub_group=1),
        part("a", 2, parent="needed"),
        part("b", 1, parent="needed"),
        part("spare", min_sub_group=0),
        part("c", 2, parent="spare"),
    ]
    state = one_node(
        a_group_of(*parts, needed=None), *pods("job", "a", 1), *pods("job", "b", 1), *pods("job", "c", 1)
    )
    engine = Engine()
    assert bound_keys(engine.run(state, NOW)) == ["default/b-0"]
    assert bound_keys(engine.run(state, NOW + 1)) == []
    state.apply(*pods("job", "c", 2)[1])
    assert bound_keys(engine.run(state, NOW + 2)) == ["default/c-0", "default/c-1"]


def test_2096_a_gang_that_waits_for_a_pod_to_come_back_does_not_start_with_those_there_are():
    state = one_node((Kind.POD_GROUP, a_group("job", queue="team", min_member=2, started=NOW - 500)))
    state.apply(Kind.POD, a_pod("leaving", group="job", gpus=1, node="n", deleted=NOW - 1))
    state.apply(Kind.POD, a_pod("new", group="job", gpus=1))
    assert bound_keys(Engine().run(state, NOW)) == []


def test_2096_nobody_is_evicted_for_a_part_that_cannot_form():
    running = a_group("low", queue="team", started=NOW - 500)
    state = one_node(
        (Kind.POD_GROUP, running),
        (Kind.POD, a_pod("low", group="low", gpus=1, node="n")),
        a_group_of(part("a", 2), priority="build"),
        *pods("job", "a", 1),
        gpus=1,
    )
    assert Engine().run(state, NOW).evictions == ()


def test_2096_a_victim_with_fewer_pods_than_its_minimum_gets_its_place_back_in_a_search():
    """It runs with one pod of two since the other is done, and moves as a whole to make room."""
    done = a_pod("small-1", group="small", phase="Succeeded")
    state = one_node(
        (Kind.NODE, a_node("m", gpus=2)),
        (Kind.POD_GROUP, a_group("small", queue="team", min_member=2, started=NOW - 500)),
        (Kind.POD, a_pod("small-0", group="small", gpus=1, node="n")),
        (Kind.POD, done),
        (Kind.POD_GROUP, a_group("fixed", queue="team", priority="build", started=NOW - 500)),
        (Kind.POD, a_pod("fixed", group="fixed", gpus=1, node="m")),
        (Kind.POD_GROUP, a_group("large", queue="team")),
        (Kind.POD, a_pod("large", group="large", gpus=2)),
        gpus=2,
    )
    result = Engine().run(state, NOW)
    assert [(each.pod.name, each.action) for each in result.evictions] == [("small-0", "consolidation")]


# --- gangs that are completing (2012) ------------------------------------------------------------
AT_ONCE = SchedulerConfig(params=EngineParams(default_staleness_grace_seconds=0))


def test_2012_a_gang_of_which_a_pod_succeeded_keeps_its_other_pods():
    state = one_node((Kind.POD_GROUP, a_group("job", queue="team", min_member=3, started=NOW - 500)))
    for i in range(3):
        state.apply(Kind.POD, a_pod(f"job-{i}", group="job", gpus=1, node="n"))
    engine = Engine(AT_ONCE)
    engine.run(state, NOW)
    for i in range(2):
        state.apply(Kind.POD, a_pod(f"job-{i}", group="job", gpus=1, node="n", phase="Succeeded"))
        result = engine.run(state, NOW + 60 * (i + 1))
        assert result.evictions == ()
        assert not any(each.staleness for each in result.outcomes)


def a_finishing_gang() -> tuple[ClusterState, Engine]:
    """A gang of two of which one pod runs, and the other one succeeded and is gone."""
    state = one_node((Kind.POD_GROUP, a_group("job", queue="team", min_member=2, started=NOW - 500)))
    state.apply(Kind.POD, a_pod("runs", group="job", gpus=1, node="n"))
    state.apply(Kind.POD, a_pod("done", group="job", gpus=1, node="n", phase="Succeeded"))
    engine = Engine(AT_ONCE)
    engine.run(state, NOW)
    state.remove(Kind.POD, "default/done")
    return state, engine


def test_2012_so_it_does_where_the_pod_that_succeeded_is_deleted_as_garbage_is():
    state, engine = a_finishing_gang()
    assert engine.run(state, NOW + 60).evictions == ()
    state.check()


def reprioritize(state: ClusterState) -> None:
    add(state, a_priority_class("train", 51))


def make_queue_anew(state: ClusterState) -> None:
    state.remove(Kind.QUEUE, "team")
    state.settle(NOW + 1)
    add(state, a_queue("team", parent="top"))


def name_another_priority(state: ClusterState) -> None:
    add(state, a_group("job", queue="team", min_member=2, started=NOW - 500, priority="build"))


def want_another_place(state: ClusterState) -> None:
    near = TopologyConstraint(topology="t", preferred_topology_level="rack")
    add(state, a_group("job", queue="team", min_member=2, started=NOW - 500, topology=near))


def lose_its_node_for_a_while_as_one_of_another_pool(state: ClusterState) -> None:
    group = state.known(Kind.POD_GROUP, "default/job")
    add(state, replace(group, metadata=replace(group.metadata, labels={names.NODE_POOL_LABEL: "b"})))
    state.remove(Kind.NODE, "n")
    state.settle(NOW + 1)
    assert "default/job" not in state.jobs
    add(state, a_node("n", gpus=8))


@pytest.mark.parametrize(
    "change",
    [
        reprioritize,
        make_queue_anew,
        name_another_priority,
        want_another_place,
        lose_its_node_for_a_while_as_one_of_another_pool,
    ],
)
def test_2012_so_it_does_whatever_changes_of_the_group_and_where_it_stands(change):
    state, engine = a_finishing_gang()
    change(state)
    assert engine.run(state, NOW + 60).evictions == ()
    state.check()


def test_2012_a_group_made_anew_inherits_nothing_of_it():
    state, engine = a_finishing_gang()
    group = state.known(Kind.POD_GROUP, "default/job")
    add(state, replace(group, metadata=replace(group.metadata, uid="another")))
    assert [each.pod.name for each in engine.run(state, NOW + 60).evictions] == ["runs"]


def test_2012_whoever_decides_again_from_a_recording_knows_of_it():
    state, engine = a_finishing_gang()
    replay = Replay(take_base(state, engine, now=NOW + 1))
    assert replay.engine.run(replay.state, NOW + 60).evictions == ()


def test_2012_a_gang_of_which_a_pod_failed_is_given_up_as_before():
    state = one_node((Kind.POD_GROUP, a_group("job", queue="team", min_member=2, started=NOW - 500)))
    state.apply(Kind.POD, a_pod("job-0", group="job", gpus=1, node="n"))
    state.apply(Kind.POD, a_pod("job-1", group="job", gpus=1, node="n", phase="Failed"))
    assert [each.pod.name for each in Engine(AT_ONCE).run(state, NOW).evictions] == ["job-0"]


@pytest.mark.parametrize("parts", [[], [part("a", 1), part("b", 2)]], ids=["plain", "parts"])
def test_a_pod_of_a_completing_gang_that_is_made_again_gets_a_place(parts):
    group = a_group("job", queue="team", min_member=3, sub_groups=parts or None, started=NOW - 500)
    state = one_node((Kind.POD_GROUP, group))
    done = a_pod("done", group="job", gpus=1, node="n", phase="Succeeded", sub_group="a")
    state.apply(Kind.POD, done)
    state.apply(Kind.POD, a_pod("runs", group="job", gpus=1, node="n", sub_group="b"))
    state.apply(Kind.POD, a_pod("again", group="job", gpus=1, sub_group="b"))
    assert bound_keys(Engine().run(state, NOW)) == ["default/again"]


def test_the_next_pods_of_a_gang_of_which_all_are_done_start_together():
    state = one_node((Kind.POD_GROUP, a_group("job", queue="team", min_member=2, started=NOW - 500)), gpus=1)
    for i in range(2):
        state.apply(Kind.POD, a_pod(f"done-{i}", group="job", gpus=1, node="n", phase="Succeeded"))
        state.apply(Kind.POD, a_pod(f"next-{i}", group="job", gpus=1))
    assert bound_keys(Engine().run(state, NOW)) == []
    state.apply(Kind.NODE, a_node("m", gpus=1))
    assert bound_keys(Engine().run(state, NOW + 1)) == ["default/next-0", "default/next-1"]


# --- demand that overflows (1874) ----------------------------------------------------------------
@pytest.mark.parametrize("count", [1024, 2**62, 2**63 - 1])
def test_1874_claims_for_more_devices_than_can_be_counted_do_not_hide_what_others_of_the_queue_want(count):
    driver = "gpu.example.com"
    state = one_node(
        (Kind.QUEUE, a_queue("mine", parent="top", gpu=4)),
        (Kind.QUEUE, a_queue("theirs", parent="top", gpu=0)),
        (Kind.DEVICE_CLASS, {"metadata": {"name": driver}, "spec": {}}),
    )
    for i in range(8):
        state.apply(Kind.POD_GROUP, a_group(f"run-{i}", queue="theirs", started=NOW - 500))
        state.apply(Kind.POD, a_pod(f"run-{i}", group=f"run-{i}", gpus=1, node="n"))
    for i in range(4):
        requests = [
            {"name": f"r{n}", "exactly": {"deviceClassName": driver, "count": count}} for n in range(3)
        ]
        meta = {"name": f"huge-{i}", "namespace": "default", "labels": {"kai.scheduler/queue": "mine"}}
        state.take(Kind.RESOURCE_CLAIM, {"metadata": meta, "spec": {"devices": {"requests": requests}}})
    claims = claiming(*(f"huge-{i}" for i in range(4)))
    add(state, a_single("huge", queue="mine", spec=claims))
    state.apply(Kind.POD_GROUP, a_group("honest", queue="mine"))
    state.apply(Kind.POD, a_pod("honest", group="honest", gpus=2))
    result = Engine().run(state, NOW)
    state.check()
    (mine,) = [share for share in result.shares if share.queue == "mine"]
    assert mine.requested[2] >= 2
    assert mine.fair_share[2] >= 2
    assert len([each for each in result.evictions if each.evictor == "default/honest"]) == 2


# --- conditions of what runs (1888) --------------------------------------------------------------
def test_1888_a_group_that_runs_no_longer_says_that_it_cannot_be_scheduled():
    state = one_node(gpus=1)
    for name, node in (("first", "n"), ("second", "")):
        state.apply(Kind.POD_GROUP, a_group(name, queue="team", started=NOW - 500 if node else 0))
        state.apply(Kind.POD, a_pod(name, group=name, gpus=1, node=node))
    engine = Engine()
    (waits,) = [each for each in engine.run(state, NOW).outcomes if each.pod_group == "default/second"]
    assert waits.outcome is Outcome.UNSCHEDULABLE
    state.remove(Kind.POD, "default/first")
    assert bound_keys(engine.run(state, NOW + 1)) == ["default/second"]
    state.apply(Kind.POD, a_pod("second", group="second", gpus=1, node="n"))
    (runs,) = [each for each in engine.run(state, NOW + 2).outcomes if each.pod_group == "default/second"]
    assert runs.clear_conditions
