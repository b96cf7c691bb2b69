"""What cannot be taken in is told by field and bound, and leaves everybody else as they are."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.bench.objects import a_group, a_node, a_pod, a_priority_class, a_queue, usual_priorities
from kai.engine import Engine
from kai.model import limits
from kai.model.limits import Limit
from kai.model.objects import Pod
from kai.snapshot import codec
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import Status
from libs.tests.engine.builders import claiming

from .hostile import HOSTILE, PLAYED, TOGETHER, Hostile, a_deep_group, a_hostile_pod, raw_claim

NOW = 1_900_000_000.0
QUEUE = {"kai.scheduler/queue": "right"}


def somebodys_pods() -> list[tuple[Kind, Any]]:
    """Somebody's pods, running and waiting, which nobody else's mistakes may touch."""
    found: list[tuple[Kind, Any]] = [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]
    found += [(Kind.NODE, a_node(f"node-{i}", gpus=4, gpu_memory_mib=16_000)) for i in range(2)]
    found += [
        (Kind.QUEUE, a_queue("top")),
        (Kind.QUEUE, a_queue("left", parent="top", gpu=4)),
        (Kind.QUEUE, a_queue("right", parent="top", gpu=4)),
        (Kind.POD_GROUP, a_group("gang", queue="left", min_member=2)),
        (Kind.POD_GROUP, a_group("parts", queue="right")),
        (Kind.POD, a_pod("part", group="parts", fraction=0.5, node="node-1", groups=("g1",))),
        (Kind.POD, a_pod("waits", group="parts", gpus=1)),
    ]
    found += [(Kind.POD, a_pod(f"gang-{i}", group="gang", gpus=2, node="node-0")) for i in range(2)]
    return found


def taken_in(objects: list[tuple[Kind, Any]] | None = None) -> ClusterState:
    state = ClusterState()
    for kind, obj in somebodys_pods() if objects is None else objects:
        state.take(kind, obj)
    state.settle(NOW)
    state.check()
    return state


def sums(state: ClusterState) -> dict[str, Any]:
    """What everybody in the cluster holds and is charged."""
    good = {obj.key for kind, obj in somebodys_pods() if kind is Kind.POD_GROUP}
    return {
        "nodes": {
            name: (
                state.nodes.idle[(node := state.nodes.by_name[name]).row, :4].tolist(),
                state.nodes.releasing[node.row, :4].tolist(),
                node.groups,
            )
            for name in ("node-0", "node-1")
        },
        "queues": {q.name: (q.allocated, q.non_preemptible, q.pending, q.deserved) for q in state.queue_rows},
        "jobs": {
            key: (job.pending, job.active_allocated, job.active_used, sorted(job.pod_sets["default"].tasks))
            for key, job in state.jobs.items()
            if key in good
        },
        "foreign": state.foreign,
    }


def renamed(hostile: Hostile) -> Any:
    """The object beside all others, where it has the name of one of them."""
    if hostile.kind not in (Kind.NODE, Kind.QUEUE):
        return hostile.obj
    obj = msgspec.to_builtins(hostile.obj)
    obj["metadata"]["name"] = obj["metadata"]["uid"] = "bad"
    return msgspec.convert(obj, type(hostile.obj))


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_an_object_beyond_its_bounds_is_told_by_field_and_bound_and_others_are_scheduled(hostile: Hostile):
    state = taken_in()
    fault = state.take(hostile.kind, hostile.obj)
    assert fault is not None
    assert (fault.kind, fault.reason) == (hostile.kind.kubernetes, "InvalidObject")
    assert hostile.field in fault.message
    assert hostile.bound in fault.message
    assert len(fault.message) < 500
    result = Engine().run(state, NOW)
    state.check()
    assert [bind.pod.name for bind in result.binds] == ["waits"]
    assert fault in result.faults


def test_each_row_of_the_table_is_played():
    """Where it is not, the assertion says which row has no case."""
    rows = {name: limit for name, limit in vars(limits).items() if isinstance(limit, Limit)}
    assert PLAYED.keys() == rows.keys() - TOGETHER
    cases = {hostile.name: hostile for hostile in HOSTILE}
    for name, case in PLAYED.items():
        assert cases[case].kind.kubernetes == rows[name].kind, name
        fault = taken_in([]).take(cases[case].kind, cases[case].obj)
        if name != "QUEUE_AMOUNT":  # which is said in the unit of the resource
            assert str(rows[name].most) in fault.message, name


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_an_object_that_is_put_right_is_as_if_it_had_never_been_wrong(hostile: Hostile):
    state = taken_in()
    before = sums(state)
    state.take(hostile.kind, hostile.obj)
    key = hostile.obj["metadata"]["name"] if isinstance(hostile.obj, dict) else hostile.obj.key
    for kind, obj in somebodys_pods():
        if (kind, obj.key) == (hostile.kind, key):
            assert state.take(kind, obj) is None
            break
    else:
        state.remove(hostile.kind, key if "/" in key or hostile.kind is Kind.TOPOLOGY else f"default/{key}")
        state.remove(hostile.kind, key)
    state.settle(NOW)
    state.check()
    assert state.faults == {}
    assert sums(state) == before


EXPECTED = sums(taken_in())


@settings(max_examples=int(os.environ.get("KAI_FUZZ_EXAMPLES", "60")))
@given(seed=st.integers(0, 2**32))
def test_good_and_hostile_objects_in_any_order_come_to_the_same_as_the_good_ones_alone(seed: int):
    rng = random.Random(seed)
    told = somebodys_pods() + [(each.kind, renamed(each)) for each in rng.sample(HOSTILE, 20)]
    told += [(each.kind, each.obj) for each in rng.sample(HOSTILE, 5) if each.kind is Kind.POD]
    rng.shuffle(told)
    state = ClusterState()
    for kind, obj in told:
        state.take(kind, obj)
        if rng.random() < 0.1:
            state.settle(NOW)
            state.check()
    state.settle(NOW)
    state.check()
    found = sums(state)
    found["queues"].pop("bad", None)
    assert found == EXPECTED


@pytest.mark.parametrize("hostile", [each for each in HOSTILE if each.kind is Kind.POD], ids=lambda h: h.name)
def test_a_pod_that_another_scheduler_bound_is_counted_as_far_as_it_can_be(hostile: Hostile):
    state = taken_in()
    before = sums(state)
    pod = msgspec.to_builtins(hostile.obj)
    pod["spec"] |= {"nodeName": "node-1", "schedulerName": "default-scheduler"}
    pod["status"]["phase"] = "Running"
    fault = state.take(Kind.POD, msgspec.convert(pod, Pod))
    # What it says of MIG devices is nobody's matter, however much it is.
    assert (fault is None) is (hostile.name == "pod: MIG devices")
    assert state.task(hostile.obj.key).node is state.nodes.by_name["node-1"]
    state.settle(NOW)
    state.check()
    state.remove(Kind.POD, hostile.obj.key)
    state.settle(NOW)
    state.check()
    assert sums(state) == before


def test_a_node_that_holds_pods_of_absurd_size_is_full_and_no_sum_overflows():
    state = taken_in()
    for number in range(1500):
        pod = a_pod(f"vast-{number}", cpu="9000000000000", memory="9000000000000000", node="node-1")
        assert state.take(Kind.POD, pod) is None
    state.settle(NOW)
    state.check()
    row = state.nodes.by_name["node-1"].row
    assert state.nodes.idle[row, CPU] < 0
    assert state.nodes.idle[row, MEMORY] < 0
    for number in range(1500):
        state.remove(Kind.POD, f"default/vast-{number}")
    state.settle(NOW)
    state.check()
    assert sums(state) == EXPECTED


def test_a_running_pod_is_charged_as_before_when_its_request_becomes_unreadable():
    state = taken_in()
    before = sums(state)
    pod = a_pod("part", group="parts", fraction=0.5, node="node-1", groups=("g1",))
    pod.metadata.annotations["gpu-fraction"] = "a lot"
    assert state.take(Kind.POD, pod) is not None
    state.check()
    assert sums(state) == before
    pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    state.take(Kind.POD, pod)
    assert state.task("default/part").status is Status.STUCK_IN_RELEASING


def test_a_part_of_a_gpu_that_cannot_be_read_is_a_whole_one_once_it_is_on_a_node():
    state = taken_in()
    pod = a_pod("other", node="node-1", groups=("g2",))
    pod.metadata.annotations = {"gpu-memory": "9" * 100}
    state.take(Kind.POD, pod)
    state.check()
    node = state.nodes.by_name["node-1"]
    assert node.groups["g2"].held_mib == node.gpu_memory_mib


def test_pods_of_a_group_that_becomes_too_deep_stay_charged_to_their_queue():
    state = taken_in()
    charged = next(queue for queue in state.queue_rows if queue.name == "left").allocated
    held = charged.amounts()
    fault = state.take(Kind.POD_GROUP, a_deep_group("gang", levels=1500, queue="left"))
    assert "at most 1000 subgroups" in fault.message
    state.settle(NOW)
    state.check()
    assert charged.amounts() == held
    assert state.jobs["default/gang"].aside is not None
    state.apply(Kind.PRIORITY_CLASS, usual_priorities()[0])
    assert Engine().run(state, NOW).evictions == ()


def test_a_pod_whose_claim_cannot_be_taken_in_is_told_so_and_runs_once_the_claim_is_right():
    state = taken_in()
    device = {"name": "gpu-0"}
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool, "devices": [device]}
    state.apply(Kind.RESOURCE_SLICE, {"metadata": {"name": "devices"}, "spec": spec})
    state.apply(Kind.DEVICE_CLASS, {"metadata": {"name": "gpu.example.com"}, "spec": {}})
    state.apply(Kind.POD, a_pod("claiming", group="parts", spec=claiming("c")))
    claim = raw_claim("c", count=2**63 - 1)
    claim["metadata"]["labels"] = QUEUE
    state.take(Kind.RESOURCE_CLAIM, claim)
    result = Engine().run(state, NOW)
    (outcome,) = [each for each in result.outcomes if each.pod_group == "default/parts"]
    assert "claim default/c cannot be taken in: spec.devices.requests[0].exactly.count" in str(outcome)
    claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    state.apply(Kind.RESOURCE_CLAIM, claim)
    assert "claiming" in {bind.pod.name for bind in Engine().run(state, NOW).binds}
    state.check()


def test_a_claim_that_has_devices_keeps_them_whatever_it_asks_for():
    state = taken_in()
    claim = raw_claim("c", count=2**62)
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    state.apply(Kind.POD, a_pod("claiming", group="parts", spec=claiming("c")))
    assert state.take(Kind.RESOURCE_CLAIM, claim) is None
    assert state.task("default/claiming").claims == (("default/c", 1),)
    Engine().run(state, NOW)
    state.check()


# --- pods of one group ---------------------------------------------------------------------------
@pytest.fixture
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that a test can reach."""
    monkeypatch.setattr(limits, "GROUP_PODS", replace(limits.GROUP_PODS, most=3))


def a_member(name: str, *, group: str = "crowd", node: str = "") -> Pod:
    return a_pod(name, group=group, gpus=0, node=node)


@pytest.mark.usefixtures("room_for_three")
def test_pods_beyond_what_one_group_may_have_are_not_taken_in_and_others_are():
    state = taken_in()
    for name in ("crowd", "other"):
        state.apply(Kind.POD_GROUP, a_group(name, queue="right"))
    for number in range(3):
        assert state.take(Kind.POD, a_member(f"crowd-{number}")) is None
    fault = state.take(Kind.POD, a_member("crowd-3"))
    assert fault is not None
    assert (fault.kind, fault.key, fault.reason) == ("Pod", "default/crowd-3", "InvalidObject")
    assert fault.message == (
        "number of pods of group default/crowd is '4'; it must be at most 3 pods that name one group"
    )
    assert state.task("default/crowd-3") is None
    assert state.take(Kind.POD, a_member("other-0", group="other")) is None
    result = Engine().run(state, NOW)
    state.check()
    assert {"crowd-0", "crowd-1", "crowd-2", "other-0"} <= {bind.pod.name for bind in result.binds}
    assert fault in result.faults


@pytest.mark.usefixtures("room_for_three")
def test_pods_that_a_group_has_already_come_in_new_versions_however_full_it_is():
    state = taken_in()
    for number in range(3):
        state.apply(Kind.POD, a_member(f"crowd-{number}"))
    assert state.take(Kind.POD, a_member("crowd-1")) is None
    anew = a_member("crowd-1")
    anew.metadata.uid = "another"
    assert state.take(Kind.POD, anew) is None
    state.check()


@pytest.mark.usefixtures("room_for_three")
def test_pods_on_nodes_count_however_full_their_group_is():
    state = taken_in()
    for number in range(5):
        assert state.take(Kind.POD, a_member(f"crowd-{number}", node="node-1")) is None
    assert state.take(Kind.POD, a_member("crowd-5")) is not None
    state.settle(NOW)
    state.check()


@pytest.mark.usefixtures("room_for_three")
def test_a_pod_that_moves_to_a_full_group_is_left_out():
    state = taken_in()
    for number in range(3):
        state.apply(Kind.POD, a_member(f"crowd-{number}"))
    state.apply(Kind.POD, a_member("moves", group="parts"))
    assert state.take(Kind.POD, a_member("moves")) is not None
    assert state.task("default/moves") is None
    state.settle(NOW)
    state.check()


@pytest.mark.usefixtures("room_for_three")
def test_a_pod_that_is_being_bound_keeps_its_place_when_it_moves_to_a_full_group():
    state = taken_in()
    for number in range(3):
        state.apply(Kind.POD, a_member(f"crowd-{number}"))
    state.apply(Kind.POD, a_member("moves", group="parts"))
    state.assume_bind(state.task("default/moves").uid, "node-1")
    assert state.take(Kind.POD, a_member("moves")) is None
    assert state.task("default/moves").node is state.nodes.by_name["node-1"]
    state.settle(NOW)
    state.check()


@pytest.mark.usefixtures("room_for_three")
def test_a_pod_that_was_left_out_is_taken_in_once_its_group_has_room():
    state = taken_in()
    for number in range(4):
        state.take(Kind.POD, a_member(f"crowd-{number}"))
    state.remove(Kind.POD, "default/crowd-0")
    assert state.take(Kind.POD, a_member("crowd-3")) is None
    assert state.faults == {}
    state.check()


def test_a_priority_class_beyond_its_bounds_keeps_nobody_from_cutting_a_snapshot():
    state = taken_in()
    before = codec.cut(state).digest
    assert state.take(Kind.PRIORITY_CLASS, a_priority_class("vast", 10**30)) is not None
    assert codec.cut(state).digest == before
    assert state.take(Kind.PRIORITY_CLASS, a_priority_class("system-node-critical", 2_000_001_000)) is None
    assert codec.cut(state).digest != before


# --- what intake keeps ---------------------------------------------------------------------------
def test_names_of_resources_that_no_node_offers_take_no_room_and_are_told():
    state = taken_in()
    width = state.nodes.allocatable.shape[1]
    for number in range(200):
        names = {f"example.com/{number}-{i}": "1" for i in range(50)}
        state.apply(Kind.POD, a_hostile_pod(f"odd-{number}", group="parts", requests=names))
    assert state.nodes.allocatable.shape[1] == width
    state = taken_in()
    state.apply(Kind.POD_GROUP, a_group("odd", queue="right"))
    state.apply(Kind.POD, a_hostile_pod("odd", group="odd", requests={"example.com/thing": "3"}))
    (outcome,) = [each for each in Engine().run(state, NOW).outcomes if each.pod_group == "default/odd"]
    assert "3 example.com/thing" in str(outcome)


@pytest.mark.parametrize("offered", ["3", "2"])
def test_a_resource_counts_from_when_a_node_offers_it(offered: str):
    state = taken_in()
    state.apply(Kind.POD_GROUP, a_group("odd", queue="right"))
    state.apply(Kind.POD, a_hostile_pod("odd", group="odd", requests={"example.com/thing": "3"}))
    running = a_hostile_pod("runs", node="node-1", requests={"example.com/thing": "1"})
    state.apply(Kind.POD, running)
    assert not [bind for bind in Engine().run(state, NOW).binds if bind.pod.name == "odd"]
    state.apply(
        Kind.NODE, a_node("node-0", gpus=4, gpu_memory_mib=16_000, extra={"example.com/thing": offered})
    )
    state.apply(Kind.NODE, a_node("node-1", gpus=4, gpu_memory_mib=16_000, extra={"example.com/thing": "3"}))
    state.settle(NOW)
    state.check()
    binds = {bind.pod.name: bind.node for bind in Engine().run(state, NOW).binds}
    assert binds.get("odd") == ("node-0" if offered == "3" else None)
    state.check()


def test_mig_devices_that_no_node_offers_are_charged_to_the_queue_all_the_same():
    state = taken_in()
    state.apply(Kind.POD_GROUP, a_group("mig", queue="right"))
    state.apply(Kind.POD, a_hostile_pod("mig", group="mig", requests={"nvidia.com/mig-3g.20gb": "2"}))
    assert state.task("default/mig").cls.gpu_centi == 600


def test_classes_that_nobody_uses_are_forgotten():
    state = taken_in()
    for number in range(3000):
        pod = a_pod(f"odd-{number}", group="parts", cpu=f"{number + 1}m", gated=True)
        state.apply(Kind.POD, pod)
        state.remove(Kind.POD, pod.key)
        state.settle(NOW)
    assert len(state.classes) < 600
    used = {task.cls for task in state.tasks.values()}
    state.classes.keep(used)
    assert len(state.classes) == len(used)
    assert state.classes.of(a_pod("new", group="parts", gpus=1)) is state.task("default/waits").cls


def test_a_class_keeps_of_a_pod_only_what_it_depends_on():
    state = taken_in()
    pod = a_hostile_pod(
        "large",
        annotations={"note": "x" * 100_000, "gpu-fraction": "0.5"},
        labels={"a": "b"},
        containers=[
            {
                "name": "main",
                "image": "i",
                "ports": [{"hostPort": 80}],
                "env": [
                    {"name": "A", "value": "x" * 100_000},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                ],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        volumes=[
            {"name": "v", "configMap": {"name": "other", "items": [{"key": "x" * 100_000}]}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ],
        affinity={"podAffinity": {}},
    )
    cls = state.classes.of(pod)
    assert cls.constraints.config_maps == ("m", "other")
    assert state.classes.of(cls.pod) is cls
    assert state.classes.again(cls) is cls
    assert len(msgspec.json.encode(cls.pod)) < 1000
    assert cls.items[0][0] == CPU
    assert GPU not in dict(cls.items)


def test_who_used_a_claim_is_forgotten_with_the_pod():
    state = taken_in()
    for number in range(3):
        spec = claiming("shared" if number else "own")
        state.apply(Kind.POD, a_pod(f"claiming-{number}", group="parts", spec=spec))
    state.remove(Kind.POD, "default/claiming-0")
    state.remove(Kind.POD, "default/claiming-1")
    assert {claim: [*users] for claim, users in state.claim_users.items()} == {
        "default/shared": ["default-claiming-2"]
    }
    state.remove(Kind.POD, "default/claiming-2")
    assert not state.claim_users
