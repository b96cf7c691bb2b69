"""The state is a function of the newest objects and the decisions, whatever the order of events."""

import gc
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine
from kai.model import names
from kai.model.objects import Condition, PodGroup, SubGroup, TopologyConstraint
from kai.snapshot import codec
from kai.snapshot.accounts import facts_of
from kai.snapshot.reports import BindFailed, BindUnderWay
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import Status

NOW = 1_900_000_000.0


def _of_another_pool(name: str, queue: str) -> PodGroup:
    group = a_group(name, queue=queue)
    group.metadata.labels = {names.NODE_POOL_LABEL: "elsewhere"}
    return group


def _final_objects() -> list[tuple[Kind, object]]:
    """A small cluster with a bit of everything."""
    found: list[tuple[Kind, object]] = [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]
    found += [(Kind.NODE, a_node(f"node-{i}", gpus=4, gpu_memory_mib=16_000 + 8_000 * i)) for i in range(3)]
    found += [
        (Kind.QUEUE, a_queue("top")),
        (Kind.QUEUE, a_queue("left", parent="top", gpu=4)),
        (Kind.QUEUE, a_queue("right", parent="top", gpu=4, limit=6)),
    ]
    found += [
        (Kind.POD_GROUP, a_group("gang", queue="left", min_member=2, priority="build")),
        (Kind.POD_GROUP, a_group("parts", queue="right")),
        (Kind.POD_GROUP, a_group("lost", queue="nowhere")),
        (Kind.POD_GROUP, _of_another_pool("away", queue="left")),
        (Kind.POD_GROUP, _of_another_pool("gone", queue="left")),
    ]
    found += [(Kind.POD, a_pod(f"gang-{i}", group="gang", gpus=2, node="node-0")) for i in range(2)]
    found += [
        (Kind.POD, a_pod("part-0", group="parts", fraction=0.5, node="node-1", groups=("g1",))),
        (Kind.POD, a_pod("part-1", group="parts", gpu_memory_mib=4_000, node="node-1", groups=("g1",))),
        (Kind.POD, a_pod("part-2", group="parts", gpu_memory_mib=4_000)),
        (Kind.POD, a_pod("part-3", group="parts", gated=True)),
        (Kind.POD, a_pod("going", group="parts", gpus=1, node="node-2", deleted=NOW - 10)),
        (Kind.POD, a_pod("stuck", group="parts", gpus=1, node="node-2", deleted=NOW - 1_000)),
        (Kind.POD, a_pod("lingers", group="parts", gpus=1, node="node-2", deleted=NOW + 86_400)),
        (Kind.POD, a_pod("other", gpus=1, node="node-2", scheduler="default-scheduler")),
        (Kind.POD, a_pod("astray", group="lost", gpus=1, node="node-9")),
        (Kind.POD, a_pod("done", group="gang", gpus=1, node="node-0", phase="Succeeded")),
        (Kind.POD, a_pod("left-here", group="away", gpus=1, node="node-1")),
        (Kind.POD, a_pod("there", group="gone", gpus=1, node="node-9")),
    ]
    return found


def _earlier(kind: Kind, obj: object) -> list[object]:
    """Versions of an object that an event may have shown before."""
    name = obj.metadata.name
    match kind:
        case Kind.POD:
            group = (obj.metadata.annotations or {}).get("pod-group-name", "")
            return [
                a_pod(name, group=group, gpus=1),
                a_pod(name, group=group, gpus=3, node="node-1"),
                a_pod(name, group=group, gpus=2, node="node-1", deleted=NOW + 86_400),
            ]
        case Kind.NODE:
            return [a_node(name, gpus=1), a_node(name, gpus=4, ready=False)]
        case Kind.QUEUE:
            return [a_queue(name, gpu=1), a_queue(name, parent="left" if name != "left" else "")]
        case Kind.POD_GROUP:
            return [
                a_group(name, queue="right", min_member=3),
                a_group(name, queue="top", priority="train"),
                _of_another_pool(name, queue="right"),
            ]
    return []


def _fresh(objects: list[tuple[Kind, object]]) -> ClusterState:
    state = ClusterState()
    for kind, obj in objects:
        state.apply(kind, obj)
    state.settle(NOW)
    state.check()
    return state


EXPECTED = codec.cut(_fresh(_final_objects())).digest


@pytest.mark.parametrize("gone", [("one", "two"), ("two", "one")])
@pytest.mark.parametrize("at_once", [True, False])
def test_two_pods_of_one_uid_are_two_pods(gone: tuple[str, str], at_once: bool) -> None:
    pods = [(Kind.POD, a_pod(name, group="gang", gpus=1, node="node-0")) for name in ("one", "two")]
    for _, pod in pods:
        pod.metadata.uid = "copied"
    state = ClusterState()
    state.load([*_final_objects(), *(pods if at_once else ())])
    for each in pods:
        state.apply(*each)
    state.settle(NOW)
    state.check()
    assert {task.name for task in state.jobs["default/gang"].single.tasks.values()} >= {"one", "two"}
    for name in gone:
        state.remove(Kind.POD, f"default/{name}")
        state.settle(NOW)
        state.check()
    assert not state.faults


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_any_interleaving_of_events_ends_equal_to_a_fresh_build(seed: int) -> None:
    rng = random.Random(seed)
    state = ClusterState()
    final = _final_objects()
    for _ in range(60):
        kind, obj = rng.choice(final)
        key = obj.key
        choice = rng.random()
        if choice < 0.2:
            state.remove(kind, key)
        elif choice < 0.7:
            state.apply(kind, rng.choice([*_earlier(kind, obj), obj]))
        elif choice < 0.8 and kind is Kind.POD:
            state.assume_bind(obj.metadata.uid, rng.choice(["node-0", "node-1", "node-9"]))
        elif choice < 0.9 and kind is Kind.POD:
            rng.choice([state.bind_failed, state.bind_done, state.assume_evicted, state.evict_failed])(
                obj.metadata.uid
            )
        else:
            state.settle(NOW)
            state.check()
    for kind, obj in final:  # whatever was decided is over, and the watch has shown the newest of everything
        if kind is Kind.POD:
            state.remove(kind, obj.key)
    rng.shuffle(final)
    for kind, obj in final:
        state.apply(kind, obj)
        if rng.random() < 0.3:
            state.apply(kind, obj)
    state.settle(NOW)
    state.check()
    assert codec.cut(state).digest == EXPECTED
    rebuilt = _fresh(_final_objects())
    assert _sums(state) == _sums(rebuilt)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_what_is_loaded_at_once_is_charged_as_if_it_had_come_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    final = _final_objects()
    events = [(kind, rng.choice([*_earlier(kind, obj), obj])) for kind, obj in rng.choices(final, k=40)]
    vast = a_pod("vast", group="gang", gpus=1, node="node-0", memory=f"{1 << 44}")
    loaded = ClusterState()
    for kind, obj in rng.sample(final, k=rng.randint(0, len(final))):
        loaded.apply(kind, obj)
    loaded.load([*events, *rng.sample(final, k=len(final)), (Kind.POD, vast)])
    loaded.settle(NOW)
    loaded.check()
    assert _sums(loaded) == _sums(_fresh([*_final_objects(), (Kind.POD, vast)]))


def _sums(state: ClusterState) -> object:
    return (
        {
            node.name: (
                state.nodes.idle[node.row, :4].tolist(),
                state.nodes.releasing[node.row, :4].tolist(),
                node.groups,
            )
            for node in state.nodes.nodes
        },
        {q.name: (q.allocated, q.non_preemptible, q.pending) for q in state.queue_rows},
        {
            job.key: (job.pending, job.active_allocated, job.active_used, job.priority)
            for job in state.jobs.values()
        },
        state.foreign,
    )


def test_a_snapshot_survives_the_round_trip_and_decides_the_same() -> None:
    state = _fresh(_final_objects())
    state.assume_bind("default-part-2", "node-1", groups=("g1",))
    state.assume_evicted("default-gang-0")
    snapshot = codec.cut(state)
    decoded = codec.decode(codec.encode(snapshot))
    assert decoded == snapshot
    restored = codec.restore(decoded)
    restored.settle(NOW)
    restored.check()
    assert codec.cut(restored).digest == snapshot.digest
    assert _sums(restored) == _sums(state)
    assert Engine().run(restored, NOW).binds == Engine().run(state, NOW).binds


def test_bytes_that_are_no_snapshot_are_refused_with_a_reason() -> None:
    with pytest.raises(codec.SnapshotError, match="kai-snapshot-1"):
        codec.decode(b"something else")
    data = codec.encode(codec.cut(_fresh(_final_objects())))
    with pytest.raises(codec.SnapshotError):
        codec.decode(data[:-20])


def test_a_bind_counts_until_the_watch_shows_it_or_it_fails() -> None:
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]
    before = _sums(state)
    state.assume_bind(task.uid, "node-1", groups=("g1",))
    assert task.status is Status.BINDING
    state.check()
    state.apply(Kind.POD, a_pod("part-2", group="parts", gpu_memory_mib=4_000))  # an older event comes late
    assert task.status is Status.BINDING
    state.bind_failed(task.uid)
    state.check()
    assert _sums(state) == before


def test_a_finished_bind_survives_an_event_from_before_it() -> None:
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]
    state.assume_bind(task.uid, "node-1", groups=("g1",))
    state.bind_done(task.uid)
    assert task.status is Status.BOUND
    state.apply(Kind.POD, a_pod("part-2", group="parts", gpu_memory_mib=4_000))
    assert task.status is Status.BOUND
    state.apply(Kind.POD, a_pod("part-2", group="parts", gpu_memory_mib=4_000, node="node-1", groups=("g1",)))
    assert task.status is Status.RUNNING
    state.check()


def test_what_an_attempt_that_failed_wrote_on_a_pod_does_not_count_while_it_is_bound_anew() -> None:
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]
    labelled = a_pod("part-2", group="parts", gpu_memory_mib=4_000, groups=("before",))
    state.apply(Kind.POD, labelled)
    state.assume_bind(task.uid, "node-1", groups=("g1",))
    found = [task.groups]
    state.apply(Kind.POD, labelled)
    found.append(task.groups)
    restored = codec.restore(codec.decode(codec.encode(codec.cut(state))))
    found.append(restored.tasks[task.uid].groups)
    state.bind_done(task.uid)
    found.append(task.groups)
    state.apply(Kind.POD, labelled)  # from before
    found.append(task.groups)
    assert found == [("g1",)] * 5
    state.apply(Kind.POD, a_pod("part-2", group="parts", gpu_memory_mib=4_000, node="node-1", groups=("g1",)))
    assert task.groups == ("g1",)
    state.check()


def test_a_nomination_that_is_taken_back_is_none() -> None:
    """As an autoscaler does whose node did not come; of ours the pod's object never says anything."""
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]

    def told(node: str) -> str:
        pod = a_pod("part-2", group="parts", gpu_memory_mib=4_000)
        pod.status.nominated_node_name = node
        state.apply(Kind.POD, pod)
        return task.nominated

    assert [told("node-9"), told("node-9"), told("")] == ["node-9", "node-9", ""]
    state.nominate(task, "node-0")
    assert [told(""), told("node-9"), told("")] == ["node-0", "node-9", ""]


def test_a_heartbeat_of_a_node_changes_nothing() -> None:
    state = _fresh(_final_objects())
    epoch = state.nodes.epoch
    node = a_node("node-0", gpus=4, gpu_memory_mib=16_000)
    node.status.conditions = [
        Condition(type="Ready", status="True", last_transition_time="2030-01-01T00:00:00Z")
    ]
    state.apply(Kind.NODE, node)
    assert state.nodes.epoch == epoch


def test_a_gang_does_not_count_on_a_pod_that_was_deleted_before_it_had_a_node() -> None:
    state = ClusterState()
    gang = [a_pod(f"gang-{i}", group="gang", gpus=4, deleted=NOW - 1 if i == 2 else 0) for i in range(3)]
    for kind, obj in [
        *((Kind.NODE, a_node(f"node-{i}", gpus=4)) for i in range(2)),
        (Kind.QUEUE, a_queue("top")),
        (Kind.QUEUE, a_queue("left", parent="top", gpu=8)),
        (Kind.POD_GROUP, a_group("gang", queue="left", min_member=3)),
        *((Kind.POD, pod) for pod in gang),
    ]:
        state.apply(kind, obj)
    assert not Engine().run(state, NOW).binds

    state.apply(Kind.POD_GROUP, a_group("gang", queue="left", min_member=2))
    assert {bind.pod.name for bind in Engine().run(state, NOW).binds} == {"gang-0", "gang-1"}


def test_releasing_pods_become_stuck_by_time_alone() -> None:
    state = _fresh(_final_objects())
    going = state.tasks["default-going"]
    assert going.status is Status.RELEASING
    state.settle(NOW + 300)
    assert going.status is Status.STUCK_IN_RELEASING
    state.check()


def test_a_topology_constraint_that_says_nothing_is_none() -> None:
    state = ClusterState()
    empty = TopologyConstraint()
    inner = SubGroup(name="a", min_member=1, topology_constraint=empty)
    state.apply(Kind.POD_GROUP, a_group("gang", queue="left", topology=empty, sub_groups=[inner]))
    job = state.jobs["default/gang"]
    assert not job.has_constraint
    assert job.root.constraint is None
    assert job.pod_sets["a"].constraint is None


def test_what_is_gone_does_not_wait_for_a_garbage_collection() -> None:
    parts = [SubGroup(name="half"), SubGroup(name="left", parent="half"), SubGroup(name="right")]
    objects = [*_final_objects(), (Kind.POD_GROUP, a_group("tree", queue="left", sub_groups=parts))]
    state = _fresh(objects)
    gc.collect()
    gc.disable()
    try:
        for kind, obj in reversed(objects):
            state.remove(kind, obj.key)
        state.settle(NOW)
        assert not state.jobs
        del kind, obj, objects
        assert not gc.collect()
    finally:
        gc.enable()


# --- binds that an earlier leader decided ---------------------------------------------------------
def test_an_earlier_bind_counts_until_it_fails() -> None:
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]
    before = _sums(state)
    BindUnderWay(task.uid, "node-1").enter(state)
    assert task.status is Status.BINDING
    BindFailed(task.uid, "node-1").enter(state)
    assert task.status is Status.PENDING
    assert _sums(state) == before


def test_an_earlier_bind_changes_nothing_of_a_pod_that_has_a_node() -> None:
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]
    state.apply(Kind.POD, a_pod("part-2", group="parts", gpu_memory_mib=4_000, node="node-1", groups=("g1",)))
    before = _sums(state)
    for node in ("node-0", "node-1"):
        BindUnderWay(task.uid, node).enter(state)
        BindFailed(task.uid, node).enter(state)
        assert (task.status, facts_of(task).node_name) == (Status.RUNNING, "node-1")
    assert _sums(state) == before


def test_an_earlier_bind_changes_nothing_of_a_pod_about_which_there_is_a_newer_decision() -> None:
    state = _fresh(_final_objects())
    task = state.tasks["default-part-2"]
    state.assume_bind(task.uid, "node-1", groups=("g1",))
    before = _sums(state)
    BindUnderWay(task.uid, "node-0").enter(state)
    BindFailed(task.uid, "node-0").enter(state)
    assert (facts_of(task).assumed_node, task.groups) == ("node-1", ("g1",))
    assert _sums(state) == before
