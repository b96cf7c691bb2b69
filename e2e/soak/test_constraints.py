"""The rules of where pods may be, and of what statuses say."""

import json

import msgspec
import pytest

from e2e.soak import site
from e2e.soak.rules import accounts, constraints
from e2e.soak.test_rules import a_claim, a_frame, a_group, a_node, a_pod, a_queue, members, rules_of
from kai.model import names
from kai.model.objects import (
    Condition,
    Node,
    NodeSpec,
    ObjectMeta,
    PodGroupResources,
    PodGroupStatus,
    PodResourceClaim,
    QueueStatus,
    ResourceRequirements,
    SchedulingCondition,
    TopologyConstraint,
)
from kai_local.parts.objects import LocalContainer, LocalPod

LEVELS = ("zone", "rack")


def where(name, zone, rack):
    return Node(metadata=ObjectMeta(name=name, labels={"zone": zone, "rack": rack}))


def spread(*nodes, level="rack", **more):
    """A gang that requires one domain, with a pod on each of these nodes."""
    wanted = TopologyConstraint(topology="t", required_topology_level=level)
    pods = [a_pod(f"p{node.metadata.name}", node=node.metadata.name, group="gang") for node in nodes]
    return a_frame(a_group("gang", topology_constraint=wanted), *nodes, *pods, levels=LEVELS, **more)


def test_a_gang_that_requires_a_domain_is_in_one():
    rule = constraints.gangs_are_in_one_domain
    assert not rules_of(rule(spread(where("a", "z1", "r1"), where("b", "z1", "r1"))))
    apart = spread(where("a", "z1", "r1"), where("b", "z1", "r2"))
    assert rules_of(rule(apart)) == ["gang in several domains"]
    same_name = spread(where("a", "z1", "r1"), where("b", "z2", "r1"))
    assert rules_of(rule(same_name)) == ["gang in several domains"]
    assert not rules_of(rule(spread(where("a", "z1", "r1"), where("b", "z1", "r2"), level="zone")))


def test_a_gang_whose_nodes_were_moved_apart_is_no_breach():
    moved = spread(where("a", "z1", "r1"), where("b", "z1", "r2"), moved=frozenset({"b"}))
    assert not rules_of(constraints.gangs_are_in_one_domain(moved))


def avoiding(name, node):
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    pod = a_pod(name, node=node, labels={"app": "x"})
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return changed(pod, affinity=affinity)


def changed(pod, **spec) -> LocalPod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **spec))


def test_pods_that_avoid_each_other_are_on_different_nodes():
    rule = constraints.who_must_be_apart_is
    assert not rules_of(rule(a_frame(avoiding("a", "n"), avoiding("b", "m"))))
    assert rules_of(rule(a_frame(avoiding("a", "n"), avoiding("b", "n")))) == ["not kept apart"] * 2


def test_the_gpus_of_a_zone_are_given_once():
    def pod(name, gpus):
        share = [{"zone": "z", "amount": {names.NVIDIA_GPU: str(gpus)}}]
        return a_pod(name, node="n", annotations={names.NUMA_PREDICTED: json.dumps(share)})

    zones = {"n": {"z": 4.0}}
    assert not rules_of(constraints.zones_have_room(a_frame(pod("a", 2), pod("b", 2), zones=zones)))
    over = a_frame(pod("a", 2), pod("b", 3), zones=zones)
    assert rules_of(constraints.zones_have_room(over)) == ["zone over its GPUs"]


def test_the_devices_of_a_claim_are_where_its_pod_is():
    claim = a_claim("0")
    wanted = [PodResourceClaim(name="gpu", resource_claim_name="claim-0")]
    rule = constraints.claims_are_served_where_their_pod_is
    assert not rules_of(rule(a_frame(changed(a_pod("a", node="n"), resource_claims=wanted), claims=[claim])))
    elsewhere = a_frame(changed(a_pod("a", node="m"), resource_claims=wanted), claims=[claim])
    assert rules_of(rule(elsewhere)) == ["devices elsewhere"]


def asking_for_devices(count, *, claimed):
    pod = a_pod("a", node="n")
    limits = ResourceRequirements(limits={site.DEVICE: str(count)})
    pod = changed(pod, containers=[LocalContainer(name="main", resources=limits)])
    told = {"resourceClaimName": "claim-0"} if claimed else None
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, extended_resource_claim_status=told)
    )


@pytest.mark.parametrize(
    ("asked", "claimed", "rules"),
    [(1, True, []), (2, True, ["devices not as asked"]), (1, False, ["devices not as asked"])],
)
def test_who_asks_for_a_resource_of_a_class_has_its_devices(asked, claimed, rules):
    frame = a_frame(asking_for_devices(asked, claimed=claimed), claims=[a_claim("0")])
    assert rules_of(constraints.devices_asked_for_as_a_resource_are_given(frame)) == rules


def test_devices_of_a_resource_are_where_their_pod_is():
    pod = changed(asking_for_devices(1, claimed=True), node_name="m")
    rule = constraints.claims_are_served_where_their_pod_is
    assert rules_of(rule(a_frame(pod, claims=[a_claim("0")]))) == ["devices elsewhere"]


@pytest.mark.parametrize(("closed", "rules"), [(10.0, ["bound to a cordoned node"]), (95.0, []), (None, [])])
def test_a_node_that_was_cordoned_some_time_ago_gets_nothing(closed, rules):
    node = a_node()
    node = msgspec.structs.replace(node, spec=NodeSpec(unschedulable=closed is not None))
    waiting, bound = (changed(a_pod("a", node=on), scheduler_name="kai-scheduler") for on in ("", "n"))
    since = {} if closed is None else {"n": closed}
    found = constraints.closed_nodes_get_nothing(a_frame(waiting, node), a_frame(bound, node, closed=since))
    assert rules_of(found) == rules


def test_a_pod_that_is_placed_is_not_told_to_wait():
    pod = a_pod("a", node="n")
    told = [Condition(type="PodScheduled", status="False", reason="Unschedulable")]
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=told))
    assert rules_of(constraints.who_runs_is_not_told_to_wait(a_frame(pod))) == ["told to wait, and runs"]
    assert not rules_of(constraints.who_runs_is_not_told_to_wait(a_frame(a_pod("a", node="n"))))


def test_a_group_that_is_placed_is_not_told_to_wait():
    told = PodGroupStatus(scheduling_conditions=[SchedulingCondition(reason="OverLimit")])
    group = msgspec.structs.replace(a_group("gang", min_member=2), status=told)
    rule = constraints.who_runs_is_not_told_to_wait
    assert rules_of(rule(a_frame(group, *members(2)))) == ["told to wait, and runs"]
    assert not rules_of(rule(a_frame(group, *members(2, 1))))


# --- statuses ----------------------------------------------------------------------------------
def charged(gpus):
    held = PodGroupResources(allocated={names.NVIDIA_GPU: str(gpus)})
    return msgspec.structs.replace(a_group("gang"), status=PodGroupStatus(resources_status=held))


def test_a_group_is_charged_what_its_pods_hold():
    rule, pods = accounts.groups_are_charged_what_their_pods_hold, members(2)
    pods = [a_pod(pod.metadata.name, node="n", gpus=1, group="gang") for pod in pods]
    assert not rules_of(rule(a_frame(charged(2), *pods)))
    assert rules_of(rule(a_frame(charged(1), *pods))) == ["status differs"]
    assert rules_of(rule(a_frame(charged(1)))) == ["status differs"]


def holding(name, gpus, *, parent=""):
    status = QueueStatus(allocated={names.NVIDIA_GPU: str(gpus)})
    return msgspec.structs.replace(a_queue(name, parent=parent), status=status)


def test_a_queue_is_charged_what_is_in_it():
    rule = accounts.queues_are_charged_what_is_in_them
    right = a_frame(charged(2), holding("q", 2, parent="top"), holding("top", 2))
    assert not rules_of(rule(right))
    [breach] = rule(a_frame(charged(2), holding("q", 2, parent="top"), holding("top", 3)))
    assert (breach.subject, breach.rule) == ("Queue top", "status differs")
