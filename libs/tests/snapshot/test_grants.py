"""What a pod holds of shared devices is what was recorded of it, whatever its owner writes on it later."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.engine import Engine
from kai.model import names
from kai.model.claims import Claim, Grant
from kai.model.faults import NOT_AS_GRANTED
from kai.model.objects import Pod
from kai.snapshot import codec
from kai.snapshot.amounts import SharedDevice, Totals
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0
MOST = Grant(1, portion_centi=90)
WIDE = Grant(2, portion_centi=40)
MEMORY = Grant(1, memory_mib=8_000)


def a_reservation(group: str, *, node: str = "n", **claims: Claim | Grant) -> Pod:
    """A reservation pod, with grants by pod name, or claims."""
    pod = a_pod(f"r-{group}", gpus=1, node=node, namespace=names.RESERVATION_NAMESPACE, scheduler="")
    pod.metadata.labels = {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: group}
    pod.metadata.annotations = {
        f"{names.RESERVATION_CLAIM_PREFIX}default-{name}": (
            each if isinstance(each, Claim) else Claim(NOW - 1_000, f"default/{name}", each)
        ).render()
        for name, each in claims.items()
    }
    return pod


def with_words(pod, *, labels=None, annotations=None):
    """The pod after its owner has written on it; None removes."""
    meta = pod.metadata
    now = [dict(meta.labels or {}), dict(meta.annotations or {})]
    for have, change in zip(now, (labels or {}, annotations or {}), strict=True):
        for key, value in change.items():
            have.pop(key, None)
            if value is not None:
                have[key] = value
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(meta, labels=now[0] or None, annotations=now[1] or None)
    )


def three_tenants():
    """Three tenants share devices of one node: two 0.9 pods, a pod on two devices, one by memory."""
    return [
        (Kind.NODE, a_node("n", gpus=6, gpu_memory_mib=16_000)),
        (Kind.QUEUE, a_queue("q")),
        (Kind.POD_GROUP, a_group("g", queue="q")),
        (Kind.POD, a_reservation("g1", a=MOST)),
        (Kind.POD, a_reservation("g2", b=MOST)),
        (Kind.POD, a_reservation("g3", wide=WIDE, memory=MEMORY)),
        (Kind.POD, a_reservation("g4", wide=WIDE)),
        (Kind.POD, a_pod("a", group="g", fraction=0.9, node="n", groups=("g1",))),
        (Kind.POD, a_pod("b", group="g", fraction=0.9, node="n", groups=("g2",))),
        (Kind.POD, a_pod("wide", group="g", fraction=0.4, devices=2, node="n", groups=("g3", "g4"))),
        (Kind.POD, a_pod("memory", group="g", gpu_memory_mib=8_000, node="n", groups=("g3",))),
        (Kind.POD, a_pod("whole", group="g", gpus=1, node="n")),
    ]


def built(objects):
    state = ClusterState()
    state.load(objects)
    settled(state)
    return state


def settled(state):
    state.settle(NOW)
    state.check()
    return state


def charged(state):
    """What devices, node and queue are charged."""
    (node,) = state.nodes.nodes
    return (
        {group: msgspec.structs.astuple(device) for group, device in node.groups.items()},
        state.nodes.idle[node.row, :4].tolist(),
        {queue.name: queue.allocated.amounts() for queue in state.queue_rows},
    )


def object_of(state_objects, name):
    return next(obj for kind, obj in state_objects if kind is Kind.POD and obj.metadata.name == name)


FAIR = charged(built(three_tenants()))
CHANGES = {
    "less": {"annotations": {names.GPU_FRACTION: "0.01"}},
    "none": {"annotations": {names.GPU_FRACTION: None, names.GPU_MEMORY: None}},
    "nonsense": {"annotations": {names.GPU_FRACTION: "much"}},
    "memory": {"annotations": {names.GPU_FRACTION: None, names.GPU_MEMORY: "1"}},
    "more": {"annotations": {names.GPU_FRACTION: "1", names.GPU_MEMORY: None}},
    "devices": {"annotations": {names.GPU_FRACTION_NUM_DEVICES: "1"}},
    "many devices": {"annotations": {names.GPU_FRACTION_NUM_DEVICES: "1000"}},
    "mig": {"annotations": {f"{names.MIG_PREFIX}1g.5gb": "1"}},
    "received": {"annotations": {names.RECEIVED_RESOURCE_TYPE: "Regular"}},
    "elsewhere": {"labels": {names.GPU_GROUP_LABEL: "g9", f"{names.MULTI_GPU_GROUP_PREFIX}g3": None}},
    "nowhere": {"labels": {names.GPU_GROUP_LABEL: None, f"{names.MULTI_GPU_GROUP_PREFIX}g4": None}},
    "neighbour's": {"labels": {names.GPU_GROUP_LABEL: "g2"}},
    "many": {"labels": {f"{names.MULTI_GPU_GROUP_PREFIX}x{at}": f"x{at}" for at in range(5)}},
    "reservation": {"labels": {names.APP_LABEL: names.RESERVATION_APP}},
}
RECORDED = ("a", "b", "wide", "memory")


def test_devices_are_charged_what_was_granted():
    assert FAIR[0] == {
        "g1": (14_400, 0, 0, 1),
        "g2": (14_400, 0, 0, 1),
        "g3": (6_400 + 8_000, 0, 0, 1),
        "g4": (6_400, 0, 0, 1),
    }


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", [*RECORDED, "whole"])
def test_nothing_that_is_written_on_a_pod_later_changes_what_it_holds(name, change):
    objects = three_tenants()
    changed = with_words(object_of(objects, name), **change)
    live = built(objects)
    live.take(Kind.POD, changed)
    after = [(kind, changed if obj.key == changed.key else obj) for kind, obj in objects]
    for state in (live, built(after), built(after[::-1]), codec.restore(codec.cut(settled(live)))):
        assert charged(settled(state)) == FAIR


@settings(max_examples=120)
@given(data=st.data())
def test_no_sequence_of_changes_frees_a_part_of_a_device(data):
    objects = {(kind, obj.key): obj for kind, obj in three_tenants()}
    state = built(three_tenants())
    changes = st.tuples(st.sampled_from(RECORDED), st.sampled_from(sorted(CHANGES)))
    for name, change in data.draw(st.lists(changes, max_size=12)):
        key = (Kind.POD, f"default/{name}")
        objects[key] = with_words(objects[key], **CHANGES[change])
        match data.draw(st.sampled_from(["told", "restarted", "restored", "recounted"])):
            case "told":
                state.take(Kind.POD, objects[key])
            case "restarted":
                order = data.draw(st.permutations(list(objects.items())))
                state = ClusterState()
                for (kind, _), obj in order:
                    state.take(kind, obj)
            case "restored":
                state.take(Kind.POD, objects[key])
                state = codec.restore(codec.decode(codec.encode(codec.cut(settled(state)))))
            case "recounted":
                state.take(Kind.POD, objects[key])
                state.mend()
        assert charged(settled(state)) == FAIR


@pytest.mark.parametrize("change", ["less", "none", "elsewhere", "nowhere", "nonsense"])
def test_nobody_else_gets_what_a_pod_says_it_does_not_hold(change):
    node = (Kind.NODE, a_node("n", gpus=1, gpu_memory_mib=16_000))
    objects = [node, *three_tenants()[1:3], (Kind.POD, a_reservation("g1", a=MOST))]
    held = a_pod("a", group="g", fraction=0.9, node="n", groups=("g1",))
    new = a_pod("new", group="h", fraction=0.9)
    objects += [(Kind.POD, with_words(held, **CHANGES[change])), (Kind.POD_GROUP, a_group("h", queue="q"))]
    state = built([*objects, (Kind.POD, new)])
    assert Engine().run(state, NOW).binds == ()
    assert Engine().run(codec.restore(codec.cut(built([*objects, (Kind.POD, new)]))), NOW).binds == ()


def test_the_owner_is_told_what_counts_until_the_pod_says_so_again():
    objects = three_tenants()
    pod = object_of(objects, "a")
    state = built(objects)
    state.take(Kind.POD, with_words(pod, **CHANGES["less"]))
    (fault,) = Engine().run(state, NOW).faults
    assert (fault.kind, fault.key, fault.uid) == ("Pod", "default/a", "default-a")
    assert fault.reason == NOT_AS_GRANTED
    assert "it holds 0.01 of a GPU; it was granted 0.9 of a GPU on g1" in fault.message
    state.take(Kind.POD, with_words(pod, **CHANGES["neighbour's"]))
    (fault,) = Engine().run(state, NOW).faults
    assert "it holds 0.9 of a GPU on g2; it was granted 0.9 of a GPU on g1" in fault.message
    state.take(Kind.POD, pod)
    assert Engine().run(state, NOW).faults == ()
    state.take(Kind.POD, with_words(pod, **CHANGES["none"]))
    state.remove(Kind.POD, "default/a")
    assert Engine().run(state, NOW).faults == ()


def test_a_pod_of_which_nothing_is_recorded_holds_what_it_says_until_it_is():
    """As one that was bound before our binder ran."""
    objects = three_tenants()
    state = built(objects)
    state.take(Kind.POD, a_reservation("g1"))
    assert charged(settled(state)) == FAIR
    state.take(Kind.POD, with_words(object_of(objects, "a"), **CHANGES["less"]))
    assert settled(state).nodes.nodes[0].groups["g1"].held_mib == 160
    state.take(Kind.POD, a_reservation("g1", a=MOST))
    assert charged(settled(state)) == FAIR


def test_a_pod_that_was_decided_about_again_holds_what_it_was_granted_last():
    stale = Claim(NOW - 2_000, "default/a", Grant(1, portion_centi=70))
    state = built([*three_tenants(), (Kind.POD, a_reservation("g5", a=stale))])
    assert state.nodes.nodes[0].groups["g5"] == SharedDevice(reservation_pods=1)
    assert state.nodes.nodes[0].groups["g1"].held_mib == 14_400


def test_claims_on_other_nodes_say_nothing_of_this_one():
    other = (Kind.NODE, a_node("m", gpus=2, gpu_memory_mib=16_000))
    newer = Claim(NOW, "default/a", Grant(1, portion_centi=10))
    state = built([*three_tenants(), other, (Kind.POD, a_reservation("g5", node="m", a=newer))])
    assert state.nodes.by_name["n"].groups["g1"].held_mib == 14_400
    assert state.nodes.by_name["m"].groups["g5"] == SharedDevice(reservation_pods=1)


def test_a_label_of_a_reservation_in_any_other_namespace_records_nothing():
    forged = a_reservation("g1", a=Grant(1, portion_centi=1))
    forged.metadata.namespace, forged.metadata.uid = "default", "forged"
    state = built(three_tenants())
    state.take(Kind.POD, forged)
    assert settled(state).nodes.nodes[0].groups["g1"].held_mib == 14_400


def test_what_was_decided_counts_while_a_pod_is_being_bound():
    objects = [each for each in three_tenants() if each[1].metadata.name not in ("a", "r-g1")]
    pod = a_pod("a", group="g", fraction=0.9)
    state = built([*objects, (Kind.POD, pod)])
    (bind,) = Engine().run(state, NOW).binds
    state.take(Kind.POD, with_words(pod, **CHANGES["less"]))
    assert settled(state).nodes.nodes[0].groups[bind.gpu_groups[0]].held_mib == 14_400
    state.bind_done(pod.metadata.uid)
    assert settled(state).nodes.nodes[0].groups[bind.gpu_groups[0]].held_mib == 14_400


def test_a_pod_whose_bind_failed_asks_for_what_it_says_by_then():
    state = built([*three_tenants()[:3], (Kind.POD, pod := a_pod("a", group="g", fraction=0.9))])
    assert Engine().run(state, NOW).binds
    state.take(Kind.POD, with_words(pod, annotations={names.GPU_FRACTION: "0.2"}))
    state.bind_failed(pod.metadata.uid)
    assert settled(state).nodes.nodes[0].groups == {}
    (bind,) = Engine().run(state, NOW).binds
    assert bind.gpu_portion == 0.2


def test_nothing_is_remembered_of_pods_and_reservations_that_are_gone():
    objects = three_tenants()
    state = built(objects)
    for kind, obj in objects:
        state.take(kind, with_words(obj, **CHANGES["less"]) if obj.metadata.name in RECORDED else obj)
    for kind, obj in objects[::-1]:
        state.remove(kind, obj.key)
    settled(state)
    assert not state.overruled
    assert not state.grants.of_pods
    assert not state.grants._on
    assert not state.grants._of_others


# --- other schedulers ------------------------------------------------------------------------------
FOREIGN = a_pod("foreign", fraction=0.9, node="n", groups=("x",), scheduler="another")


def held(state, group="x"):
    device = settled(state).nodes.nodes[0].groups.get(group)
    return device.held_mib if device is not None else 0


def test_a_pod_of_another_scheduler_holds_no_device_that_nobody_reserved():
    """Else a tenant of the default scheduler could keep all devices from others, charged for nothing."""
    state = built([*three_tenants()[:3], (Kind.POD, FOREIGN), (Kind.POD, a_pod("whole", group="g", gpus=6))])
    assert (held(state), state.foreign.gpu_centi) == (0, 0)
    assert len(Engine().run(state, NOW).binds) == 1


def test_nor_mig_devices_beside_those_of_its_specification():
    name = f"{names.MIG_PREFIX}1g.5gb"
    pod = a_pod("foreign", node="n", scheduler="another")
    pod.metadata.annotations = {name: "7"}
    wants = a_pod("wants", group="g")
    wants.spec.containers[0].resources.requests[name] = "7"
    objects = [(Kind.NODE, a_node("n", gpus=0, extra={name: "7"})), *three_tenants()[1:3], (Kind.POD, pod)]
    state = built([*objects, (Kind.POD, wants)])
    assert state.foreign.gpu_centi == 0
    assert [bind.pod.name for bind in Engine().run(state, NOW).binds] == ["wants"]


def test_nor_a_part_of_one_on_which_it_is_recorded_who_has_parts():
    theirs = a_pod("foreign", fraction=0.9, node="n", groups=("g1",), scheduler="another")
    devices, _, queues = charged(built([*three_tenants(), (Kind.POD, theirs)]))
    assert (devices, queues) == (FAIR[0], FAIR[2])


@pytest.mark.parametrize("first", ["pod", "reservation"])
def test_what_its_own_installation_reserved_it_holds_for_as_long_as_that_is_there(first):
    reservation = a_reservation("x")
    objects = [FOREIGN, reservation] if first == "pod" else [reservation, FOREIGN]
    state = built([*three_tenants()[:3], *((Kind.POD, each) for each in objects)])
    assert held(state) == 14_400
    assert state.foreign.gpu_centi == 90
    state.remove(Kind.POD, reservation.key)
    assert (held(state), state.foreign.gpu_centi) == (0, 0)
    state.take(Kind.POD, reservation)
    assert held(state) == 14_400
    state.take(Kind.POD, a_reservation("x", somebody=MOST))
    assert held(state) == 0
    state.remove(Kind.POD, FOREIGN.key)
    state.remove(Kind.POD, reservation.key)
    assert settled(state).nodes.nodes[0].groups == {}
    assert state.foreign == Totals()


def test_a_copy_of_the_state_has_them_too():
    state = built([*three_tenants(), (Kind.POD, a_reservation("x")), (Kind.POD, FOREIGN)])
    copy = settled(codec.restore(codec.cut(state)))
    assert held(copy) == held(state) == 14_400
    assert codec.cut(copy).digest == codec.cut(state).digest


@pytest.mark.parametrize("mig", ["1", "7"])
def test_mig_devices_that_the_specification_asks_for_are_what_is_charged(mig):
    name = f"{names.MIG_PREFIX}1g.5gb"
    node = a_node("n", gpus=0, extra={name: "7"})
    pod = a_pod("a", group="g", node="n")
    pod.spec.containers[0].resources.requests[name] = "2"
    state = built([(Kind.NODE, node), *three_tenants()[1:3], (Kind.POD, pod)])
    before = state.nodes.idle.tolist(), state.queues["q"].allocated.amounts()
    state.take(Kind.POD, with_words(pod, annotations={name: mig}))
    assert (settled(state).nodes.idle.tolist(), state.queues["q"].allocated.amounts()) == before
