"""A state that differs from a list of the objects is told by kind and name, whatever the kind."""

import copy

import pytest

from e2e.soak import belief
from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.model.faults import INVALID_OBJECT, SET_ASIDE, Fault
from kai.model.objects import (
    Condition,
    ObjectMeta,
    PriorityClass,
    QueueStatus,
    Topology,
    TopologyLevel,
    TopologySpec,
)
from kai.snapshot import codec
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.state import ClusterState

CLAIM = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}, "status": {"reservedFor": []}}
HELD = {**CLAIM, "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "default-p"}]}}
SLICE = {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": [{"name": "0"}]}}
FEWER = {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": []}}


def a_namespace(**labels):
    return {"metadata": {"name": "ns", "namespace": "", "labels": labels}}


def a_topology(*levels):
    levels = [TopologyLevel(node_label=level) for level in levels]
    return Topology(metadata=ObjectMeta(name="t"), spec=TopologySpec(levels=levels))


def a_priority(value):
    return PriorityClass(metadata=ObjectMeta(name="train"), value=value)


OBJECTS = (
    (Kind.NODE, a_node("n")),
    (Kind.QUEUE, a_queue("q")),
    (Kind.POD_GROUP, a_group("g", queue="q", min_member=1)),
    (Kind.POD, a_pod("p", group="g", gpus=1)),
    (Kind.PRIORITY_CLASS, a_priority(50)),
    (Kind.TOPOLOGY, a_topology("rack")),
    (Kind.RESOURCE_CLAIM, CLAIM),
    (Kind.RESOURCE_SLICE, SLICE),
    (Kind.NAMESPACE, a_namespace(team="a")),
)


def a_state(*changed):
    state = ClusterState()
    for kind, obj in (*OBJECTS, *changed):
        state.take(kind, obj)
    return state


def differences(believed, true, faults=()):
    return list(belief.differences(codec.cut(believed), faults, true))


def test_a_state_of_the_same_objects_differs_in_nothing():
    assert not differences(a_state(), a_state())


@pytest.mark.parametrize(
    ("kind", "obj", "subject", "where"),
    [
        (Kind.NODE, a_node("n", gpus=4), "Node n", "status.allocatable.nvidia.com/gpu is '4', believed '8'"),
        (Kind.QUEUE, a_queue("q", cpu=5), "Queue q", "spec.resources.cpu.quota is 5"),
        (
            Kind.POD_GROUP,
            a_group("g", queue="q", min_member=3),
            "PodGroup default/g",
            "spec.minMember is 3, believed 1",
        ),
        (Kind.POD, a_pod("p", group="g", gpus=1, node="n"), "Pod default/p", "spec.nodeName is 'n'"),
        (Kind.POD, a_pod("p", group="g", gpus=2), "Pod default/p", "class is "),
        (Kind.POD, a_pod("p", group="h", gpus=1), "Pod default/p", "pod group is 'h', believed 'g'"),
        (Kind.PRIORITY_CLASS, a_priority(60), "PriorityClass train", "value is 60, believed 50"),
        (Kind.TOPOLOGY, a_topology("zone", "rack"), "Topology t", "spec.levels is "),
        (Kind.RESOURCE_CLAIM, HELD, "ResourceClaim default/c", "status.reservedFor is "),
        (Kind.RESOURCE_SLICE, FEWER, "ResourceSlice s", "spec.devices is [], believed "),
        (Kind.NAMESPACE, a_namespace(team="b"), "Namespace ns", "metadata.labels.team is 'b', believed 'a'"),
    ],
)
def test_what_is_known_of_an_object_otherwise_is_told_by_its_kind_and_name(kind, obj, subject, where):
    [breach] = differences(a_state(), a_state((kind, obj)))
    assert breach.subject == subject
    assert breach.message.startswith(where)


@pytest.mark.parametrize(("kind", "obj"), OBJECTS)
def test_what_one_of_both_does_not_know_is_told(kind, obj):
    without = a_state()
    without.remove(kind, object_key(obj))
    subject = f"{kind.kubernetes} {object_key(obj)}"
    assert [(one.subject, one.message) for one in differences(without, a_state())] == [
        (subject, "there, and not known")
    ]
    assert [(one.subject, one.message) for one in differences(a_state(), without)] == [
        (subject, "believed to be there, and is not")
    ]


def test_pods_of_a_class_do_not_differ_by_the_words_of_one_that_is_gone():
    believed, first = a_state(), a_pod("first", cpu="7")
    first.spec.containers[0].name = "other"
    believed.take(Kind.POD, first)
    for state in (believed, true := a_state()):
        state.take(Kind.POD, a_pod("second", cpu="7"))
    believed.remove(Kind.POD, first.key)
    assert [pod.spec.containers[0].name for pod in codec.cut(believed).each_pod()] == ["main", "other"]
    assert not differences(believed, true)


def test_what_a_decision_has_left_under_way_is_told():
    believed = a_state()
    believed.assume_bind("default-p", "n", groups=(), allotment=None)
    [breach] = differences(believed, a_state())
    assert breach.subject == "Pod default/p"
    assert "believed 'n'" in breach.message


def test_heartbeats_statuses_of_queues_and_contents_of_config_maps_are_passed_over():
    beaten, measured = copy.deepcopy(a_node("n")), copy.deepcopy(a_queue("q"))
    beaten.status.conditions = [Condition(type="Ready", status="True", message="it still is")]
    beaten.metadata.resource_version = "7"
    measured.status = QueueStatus(allocated={"cpu": "1"})
    config_map = {"metadata": {"name": "m", "namespace": "default", "labels": {}}}
    labelled = {"metadata": {"name": "m", "namespace": "default", "labels": {"a": "b"}}}
    believed = a_state((Kind.CONFIG_MAP, config_map))
    true = a_state((Kind.CONFIG_MAP, labelled), (Kind.NODE, beaten), (Kind.QUEUE, measured))
    assert not differences(believed, true)


def a_fault(reason=INVALID_OBJECT):
    return Fault(kind="PodGroup", key="default/g", uid="g", reason=reason, message="why")


def test_what_both_leave_out_is_not_looked_at_and_what_one_does_is_told():
    wrong = a_group("g", queue="q", min_member=2**40)
    leaves_out = a_state((Kind.POD_GROUP, wrong))
    assert not differences(a_state(), leaves_out, [a_fault()])
    assert [one.message for one in differences(a_state(), a_state(), [a_fault()])] == ["left out"]
    [breach] = differences(a_state(), leaves_out, [a_fault(SET_ASIDE)])
    assert (breach.subject, breach.message) == ("PodGroup default/g", "not left out, though it is to be")
