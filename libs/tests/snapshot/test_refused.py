"""What stays of objects whose newest version cannot be taken in, and that nothing is ever half taken in."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.bench.worlds import NOW, a_world
from kai.engine import Engine
from kai.model import names
from kai.model.faults import OutOfBounds
from kai.model.ids import PodGroupKey
from kai.snapshot import codec
from kai.snapshot.resources import CPU, GPU
from kai.snapshot.state import ClusterState, Kind, StateParams
from libs.tests.engine.builders import a_state

BAD = {"cpu": "lots"}


def a_quiet_node() -> ClusterState:
    node = a_node("n", gpus=4, cpu="64", gpu_memory_mib=16_000)
    state = a_state(node, a_queue("q", gpu=4), a_group("g", queue="q"))
    state.settle(NOW)
    return state


def offer(state: ClusterState, kind: Kind, obj) -> None:
    """Apply as the scheduler does."""
    try:
        state.apply(kind, obj)
    except Exception as error:  # noqa: BLE001 (as the scheduler does)
        state.refuse(kind, obj.key, obj=obj, error=error)
    state.settle(NOW)
    state.check()


def spoiled(pod):
    pod.spec.containers[0].resources.requests = pod.spec.containers[0].resources.requests | BAD
    return pod


def gpus_idle(state: ClusterState) -> int:
    return int(state.nodes.idle[0, GPU])


def test_a_new_pod_that_cannot_be_taken_in_is_left_out() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=1)))
    assert not state.tasks
    assert Engine().run(state, NOW).faults == tuple(state.faults.values())
    assert state.faults[Kind.POD, "default/p"].reason == "InvalidObject"


def test_a_group_that_comes_from_another_node_pool_and_cannot_be_taken_in_is_of_this_one() -> None:
    state = a_quiet_node()
    group = a_group("new", queue="q")
    group.metadata.labels = {names.NODE_POOL_LABEL: "another"}
    offer(state, Kind.POD_GROUP, group)
    offer(state, Kind.POD, a_pod("p", group="new", gpus=1))
    offer(state, Kind.POD_GROUP, a_group("new", queue="q", min_member=2**40))
    offer(state, Kind.POD, a_pod("p", group="new", gpus=1, labels={"app": "x"}))
    job = state.jobs[PodGroupKey("default/new")]
    assert job.aside is not None
    assert not job.elsewhere


def test_a_pod_that_waits_is_not_placed_by_what_it_said_before() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, a_pod("p", group="g", gpus=1))
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=1)))
    assert not Engine().run(state, NOW).binds


def test_a_pod_that_holds_a_node_keeps_it() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, a_pod("p", group="g", gpus=2, node="n"))
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=1, node="n")))
    assert gpus_idle(state) == 2
    assert state.queues["q"].allocated.gpu_centi == 200
    state.remove(Kind.POD, "default/p")
    assert gpus_idle(state) == 4
    assert not state.faults


def test_a_pod_that_nobody_can_read_keeps_what_it_held_and_not_what_another_of_its_name_did() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, a_pod("p", group="g", gpus=2, node="n"))
    state.unread(Kind.POD, "default/p", uid="default-p", reason="nested too deep")
    assert gpus_idle(state) == 2
    state.unread(Kind.POD, "default/p", uid="another", reason="nested too deep")
    state.settle(NOW)
    state.check()
    assert gpus_idle(state) == 4
    assert state.faults[Kind.POD, "default/p"].uid == "another"


@pytest.mark.parametrize(
    ("kind", "key", "uid"),
    [(Kind.NODE, "n", "n"), (Kind.POD_GROUP, "default/g", "g"), (Kind.QUEUE, "q", "q")],
)
def test_what_nobody_can_read_goes_by_no_other_that_had_its_name(kind: Kind, key: str, uid: str) -> None:
    state = a_quiet_node()
    state.unread(kind, key, uid=uid, reason="nested too deep")
    assert state.known(kind, key) is not None
    state.unread(kind, key, uid="another", reason="nested too deep")
    assert state.known(kind, key) is None
    assert state.faults[kind, key].uid == "another"


def test_a_pod_that_is_being_bound_keeps_its_place_until_it_is_known_to_have_failed() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, a_pod("p", group="g", gpus=2))
    assert Engine().run(state, NOW).binds
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=2)))
    assert gpus_idle(state) == 2


def test_a_pod_on_a_node_of_which_no_version_is_known_holds_what_can_be_read() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=3, node="n")))
    assert gpus_idle(state) == 1
    assert int(state.nodes.idle[0, CPU]) == 64_000


def test_a_pod_on_a_node_holds_the_shared_devices_that_its_labels_name() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", fraction=0.5, node="n", groups=("a",))))
    offer(state, Kind.POD, a_pod("other", group="g", fraction=0.5))
    assert state.nodes.by_name["n"].groups["a"].held_mib == 16_000
    (bind,) = Engine().run(state, NOW).binds
    assert bind.gpu_groups != ("a",)


def test_a_pod_that_is_sound_again_is_what_it_says() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=3, node="n")))
    offer(state, Kind.POD, a_pod("p", group="g", gpus=1, node="n"))
    assert gpus_idle(state) == 3
    assert not state.faults


def test_a_node_that_cannot_be_taken_in_holds_what_it_holds_and_takes_nobody() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, a_pod("here", group="g", gpus=1, node="n"))
    broken = a_node("n", gpus=4, cpu="lots")
    offer(state, Kind.NODE, broken)
    offer(state, Kind.POD, a_pod("p", group="g", gpus=1))
    assert not Engine().run(state, NOW).binds
    assert state.tasks["default-here"].node is not None
    offer(state, Kind.NODE, a_node("n", gpus=4, cpu="64", gpu_memory_mib=16_000))
    assert Engine().run(state, NOW).binds


def refuse_group(state: ClusterState, group) -> None:
    state.refuse(
        Kind.POD_GROUP, group.key, obj=group, error=OutOfBounds("spec.subGroups", 5_000, "at most 1000")
    )
    state.settle(NOW)
    state.check()


@pytest.mark.parametrize("known", [True, False])
def test_a_pod_group_that_cannot_be_taken_in_is_charged_and_never_served(known: bool) -> None:
    state = a_quiet_node()
    if known:
        offer(state, Kind.POD_GROUP, a_group("h", queue="q"))
    offer(state, Kind.POD, a_pod("runs", group="h", gpus=1, node="n"))
    offer(state, Kind.POD, a_pod("waits", group="h", gpus=1))
    refuse_group(state, a_group("h", queue="q"))
    assert state.queues["q"].allocated.gpu_centi == 100
    result = Engine().run(state, NOW)
    assert not result.binds
    (outcome,) = [each for each in result.outcomes if each.pod_group == "default/h"]
    assert "spec.subGroups" in outcome.message
    offer(state, Kind.POD_GROUP, a_group("h", queue="q"))
    assert [bind.pod.name for bind in Engine().run(state, NOW).binds] == ["waits"]


def test_a_queue_that_cannot_be_taken_in_limits_what_it_limited() -> None:
    state = a_quiet_node()
    offer(state, Kind.QUEUE, a_queue("q", limit=1))
    state.refuse(
        Kind.QUEUE, "q", obj=a_queue("q"), error=OutOfBounds("spec.priority", 10**20, "at most 2^31")
    )
    offer(state, Kind.POD_GROUP, a_group("big", queue="q"))
    offer(state, Kind.POD, a_pod("p", group="big", gpus=2))
    assert not Engine().run(state, NOW).binds


def test_one_malformed_slice_does_not_spoil_the_nodes_that_come_after_it() -> None:
    state = a_quiet_node()
    spec = {"nodeName": "n", "driver": "gpu.example.com", "devices": [{"nome": "d"}]}
    broken = {"metadata": {"name": "s"}, "spec": spec}
    with pytest.raises(KeyError):
        state.apply(Kind.RESOURCE_SLICE, broken)
    offer(state, Kind.NODE, a_node("n", gpus=8))
    assert gpus_idle(state) == 8


@settings(max_examples=25, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_counting_anew_finds_what_was_known(seed: int) -> None:
    rng = random.Random(seed)
    state = a_world(rng).state()
    Engine().run(state, NOW)
    before = codec.cut(state).digest, state.nodes.idle.tolist(), state.nodes.releasing.tolist()
    assert state.recount() == []
    state.check()
    assert (codec.cut(state).digest, state.nodes.idle.tolist(), state.nodes.releasing.tolist()) == before


def test_a_pod_that_cannot_be_charged_once_it_is_on_its_node_leaves_all_sums_right(monkeypatch) -> None:
    state = a_quiet_node()
    charge = state.ledger.charges.charge

    def fails_for_one(task, gpu_memory_mib) -> None:
        charge(task, gpu_memory_mib)
        if task.name == "p2":
            raise OverflowError

    monkeypatch.setattr(state.ledger.charges, "charge", fails_for_one)
    for number in range(3):
        offer(state, Kind.POD, a_pod(f"p{number}", group="g", node="n"))
    assert list(state.faults) == [(Kind.POD, "default/p2")]
    state.remove(Kind.POD, "default/p0")
    state.check()


def test_a_pod_that_cannot_be_charged_while_many_are_loaded_leaves_all_sums_right(monkeypatch) -> None:
    state = a_quiet_node()
    hold = state.ledger.holds.hold

    def fails_for_one(task, *args, **options) -> None:
        hold(task, *args, **options)
        if task.name == "p2":
            raise OutOfBounds("memory", 1, "less")

    def fails_for_all(tasks, nodes) -> None:
        for task, node in zip(tasks, nodes, strict=True):
            fails_for_one(task, node, (), releasing=False)

    monkeypatch.setattr(state.ledger.holds, "hold", fails_for_one)
    monkeypatch.setattr(state.ledger.holds, "hold_all", fails_for_all)
    state.load((Kind.POD, a_pod(f"p{number}", group="g", gpus=1, node="n")) for number in range(4))
    state.settle(NOW)
    assert list(state.faults) == [(Kind.POD, "default/p2")]
    assert gpus_idle(state) == 1
    state.check()


def test_the_pod_group_annotation_of_a_refused_pod_is_kept() -> None:
    state = a_quiet_node()
    offer(state, Kind.POD, spoiled(a_pod("p", group="g", gpus=1, node="n")))
    assert state.tasks["default-p"].job is state.jobs["default/g"]


@pytest.mark.parametrize("pool", ["", "lab"])
def test_a_group_that_cannot_be_taken_in_is_of_the_node_pool_that_its_label_says(pool: str) -> None:
    """Also where no version of it was ever taken in, as after a restart."""
    label = {names.NODE_POOL_LABEL: "lab"}
    state = a_state(a_node("n", labels=label), params=StateParams(node_pool=pool))
    queue, group = a_queue("q"), a_group("g", queue="q", min_member=1 << 40)
    queue.metadata.labels = group.metadata.labels = label
    offer(state, Kind.QUEUE, queue)
    offer(state, Kind.POD_GROUP, group)
    offer(state, Kind.POD, a_pod("p", group="g", gpus=1, node="n"))
    shares = Engine().run(state, NOW).shares
    charged = [each.queue for each in shares if each.allocated[GPU]]
    job = state.jobs.get("default/g")
    if pool:
        assert (job.aside.reason, charged) == ("InvalidObject", ["q"])
    else:
        assert (job, charged) == (None, [])
