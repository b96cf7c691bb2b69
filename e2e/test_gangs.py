"""Gangs with a shape: parts that are needed, racks that they are to stand in."""

import uuid

import pytest

from e2e.manifests import a_group, a_job, a_pod, as_yaml, members
from kai.kube.client import PatchKind
from kai.kube.errors import KubeError
from kai.kube.resources import EVENTS, NODES
from kai.model import names

GPUS = 8


# --- racks ----------------------------------------------------------------------------------------
@pytest.fixture
async def racks(cluster):
    """The cluster's nodes in two racks, and the name of the topology that knows them."""
    label, name = f"e2e.example.com/rack-{uuid.uuid4().hex[:6]}", f"t-{uuid.uuid4().hex[:6]}"
    nodes = await cluster.worker_nodes()
    rack_of = {node: f"rack-{number % 2}" for number, node in enumerate(nodes)}
    if len(nodes) < 4:
        pytest.skip("needs four nodes")
    for node, rack in rack_of.items():
        await label_node(cluster, node, {label: rack})
    topology = {
        "apiVersion": names.TOPOLOGY_API_VERSION,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": label}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    await cluster.apply(as_yaml(topology))
    yield name, label, rack_of
    await cluster.delete(names.TOPOLOGY_API_VERSION, "Topology", name)
    for node in nodes:
        await label_node(cluster, node, {label: None})


async def label_node(cluster, name, labels) -> None:
    await cluster.client.patch(NODES, name, {"metadata": {"labels": labels}}, kind=PatchKind.MERGE)


async def take_a_node_of_each_rack(cluster, namespace, queue, rack_of) -> list[str]:
    """Whole nodes are occupied until each rack has one left; the pods that do it."""
    occupied, taken = [], dict.fromkeys(rack_of.values(), 0)
    for node, rack in rack_of.items():
        if taken[rack] < sum(other == rack for other in rack_of.values()) - 1:
            taken[rack] += 1
            spec = {"nodeSelector": {"kubernetes.io/hostname": node}}
            occupied.append(a_pod(f"occupant-{node}", namespace, queue, gpus=GPUS, spec=spec))
    await cluster.apply(as_yaml(*occupied))
    await cluster.running(namespace, "occupant", count=len(occupied))
    return [pod["metadata"]["name"] for pod in occupied]


def a_gang_of_nodes(namespace, queue, **annotations):
    job = a_job("gang", namespace, queue, pods=2, gang=2, gpus=GPUS)
    job["metadata"]["annotations"] |= annotations
    return job


async def test_a_gang_that_needs_one_rack_waits_until_a_rack_has_room(cluster, queue, namespace, racks):
    topology, label, rack_of = racks
    name = await queue()
    first, *_ = await take_a_node_of_each_rack(cluster, namespace, name, rack_of)
    wish = {names.TOPOLOGY: topology, names.TOPOLOGY_REQUIRED: label}
    await cluster.apply(as_yaml(a_gang_of_nodes(namespace, name, **wish)))
    assert await cluster.waits(namespace, "gang")

    await cluster.delete("v1", "Pod", first, namespace=namespace)
    pods = await cluster.running(namespace, "gang", count=2)
    assert len({rack_of[pod.spec.node_name] for pod in pods}) == 1


async def test_a_gang_that_prefers_one_rack_runs_in_two_if_it_must(cluster, queue, namespace, racks):
    topology, label, rack_of = racks
    name = await queue()
    await take_a_node_of_each_rack(cluster, namespace, name, rack_of)
    wish = {names.TOPOLOGY: topology, names.TOPOLOGY_PREFERRED: label}
    await cluster.apply(as_yaml(a_gang_of_nodes(namespace, name, **wish)))
    pods = await cluster.running(namespace, "gang", count=2)
    assert len({rack_of[pod.spec.node_name] for pod in pods}) == 2


async def test_a_gang_that_prefers_one_rack_gets_one(cluster, queue, namespace, racks):
    topology, label, rack_of = racks
    wish = {names.TOPOLOGY: topology, names.TOPOLOGY_PREFERRED: label}
    await cluster.apply(as_yaml(a_gang_of_nodes(namespace, await queue(), **wish)))
    pods = await cluster.running(namespace, "gang", count=2)
    assert len({rack_of[pod.spec.node_name] for pod in pods}) == 1


# --- parts ----------------------------------------------------------------------------------------
def part(name, **spec):
    return {"name": name, **spec}


async def not_ready(cluster, namespace) -> None:
    """Wait until the group is told to lack pods, and see that none of it is bound."""

    async def look() -> list[tuple[str, str]]:
        events = await cluster.client.list(EVENTS, namespace=namespace)
        return [(event["regarding"]["name"], event["reason"]) for event in events]

    await cluster.eventually(
        look, lambda seen: ("parts", "NotReady") in seen, what="an event says that the group is not ready"
    )
    assert not [pod for pod in await cluster.pods(namespace) if pod.spec.node_name]


async def test_parts_start_together_or_not_at_all(cluster, queue, namespace):
    name = await queue(limit=4)
    spec = {"subGroups": [part("left", minMember=2), part("right", minMember=1)]}
    await cluster.apply(as_yaml(a_group("parts", namespace, name, **spec)))
    await cluster.apply(as_yaml(*members("parts", namespace, name, "left", 2, gpus=2)))
    await cluster.apply(as_yaml(*members("parts", namespace, name, "right", 1, gpus=1)))
    assert await cluster.waits(namespace, "left")
    assert not [pod for pod in await cluster.pods(namespace) if pod.spec.node_name]


async def test_of_more_pods_than_a_part_needs_the_needed_ones_run(cluster, queue, namespace):
    name = await queue(limit=3)
    spec = {"subGroups": [part("left", minMember=1), part("right", minMember=1)]}
    await cluster.apply(as_yaml(a_group("parts", namespace, name, **spec)))
    pods = [
        *members("parts", namespace, name, "left", 3, gpus=1),
        *members("parts", namespace, name, "right", 2, gpus=1),
    ]
    await cluster.apply(as_yaml(*pods))
    running = await cluster.running(namespace, count=3)
    assert {pod.labels[names.SUBGROUP_LABEL] for pod in running} == {"left", "right"}


async def test_only_as_many_parts_as_are_needed_have_to_fit(cluster, queue, namespace):
    name = await queue(limit=4)
    parts = [part(each, minMember=2) for each in ("a", "b", "c")]
    await cluster.apply(as_yaml(a_group("parts", namespace, name, minSubGroup=2, subGroups=parts)))
    await cluster.apply(
        as_yaml(
            *(pod for each in ("a", "b", "c") for pod in members("parts", namespace, name, each, 2, gpus=1))
        )
    )
    running = await cluster.running(namespace, count=4)
    assert len({pod.labels[names.SUBGROUP_LABEL] for pod in running}) == 2


async def test_more_parts_than_are_needed_run_where_there_is_room(cluster, queue, namespace):
    name = await queue()
    parts = [part(each, minMember=1) for each in ("a", "b", "c")]
    await cluster.apply(as_yaml(a_group("parts", namespace, name, minSubGroup=2, subGroups=parts)))
    for each in ("a", "b", "c"):
        await cluster.apply(as_yaml(*members("parts", namespace, name, each, 1, gpus=1)))
    await cluster.running(namespace, count=3)


async def test_a_part_that_nobody_needs_may_be_missing(cluster, queue, namespace):
    name = await queue()
    tree = [
        part("needed", minMember=1),
        part("spare", minSubGroup=0),
        part("spare-a", parent="spare", minMember=2),
    ]
    await cluster.apply(as_yaml(a_group("parts", namespace, name, minSubGroup=1, subGroups=tree)))
    await cluster.apply(as_yaml(*members("parts", namespace, name, "needed", 1, gpus=1)))
    await cluster.running(namespace, count=1)
    await cluster.apply(as_yaml(*members("parts", namespace, name, "spare-a", 2, gpus=1)))
    await cluster.running(namespace, count=3)


async def test_of_a_part_in_the_middle_only_its_minimum_is_needed(cluster, queue, namespace):
    name = await queue(limit=3)
    tree = [
        part("top", minSubGroup=1),
        part("a", parent="top", minMember=2),
        part("b", parent="top", minMember=2),
        part("alone", minMember=1),
    ]
    await cluster.apply(as_yaml(a_group("parts", namespace, name, subGroups=tree)))
    for each, count in (("a", 2), ("b", 2), ("alone", 1)):
        await cluster.apply(as_yaml(*members("parts", namespace, name, each, count, gpus=1)))
    running = await cluster.running(namespace, count=3)
    assert len({pod.labels[names.SUBGROUP_LABEL] for pod in running}) == 2


async def test_two_levels_of_parts_start_together(cluster, queue, namespace):
    name = await queue()
    tree = [
        part("top"),
        part("left", parent="top", minMember=1),
        part("right", parent="top", minMember=1),
        part("alone", minMember=1),
    ]
    await cluster.apply(as_yaml(a_group("parts", namespace, name, subGroups=tree)))
    for each in ("left", "right"):
        await cluster.apply(as_yaml(*members("parts", namespace, name, each, 1, gpus=1)))
    await not_ready(cluster, namespace)  # without a pod of the part that stands alone
    await cluster.apply(as_yaml(*members("parts", namespace, name, "alone", 1, gpus=1)))
    await cluster.running(namespace, count=3)


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"minMember": 1, "minSubGroup": 1, "subGroups": [part("a", minMember=1)]}, "exclude each other"),
        ({"subGroups": [part("a", minMember=1, minSubGroup=1)]}, "exclude each other"),
        ({"subGroups": [part("a", minSubGroup=1)]}, "no subgroups below it"),
        ({"subGroups": [part("a")]}, "minMember is missing"),
        ({"subGroups": [part("a", minMember=1), part("b", parent="a", minMember=1)]}, "below it"),
        ({"subGroups": [part("a", minMember=1), part("a", minMember=1)]}, 'more than one "a"'),
        ({"subGroups": [part("a", minMember=1, parent="b")]}, "does not exist"),
        ({"preemptionDelay": "soon"}, "preemptionDelay"),
    ],
)
async def test_a_group_that_makes_no_sense_is_refused_with_the_reason(cluster, namespace, queue, spec, told):
    with pytest.raises(KubeError, match=told):
        await cluster.apply(as_yaml(a_group("parts", namespace, await queue(), **spec)))


async def test_more_parts_than_there_are_is_accepted_with_a_warning_and_waits(cluster, namespace, queue):
    name = await queue()
    spec = {"minSubGroup": 2, "subGroups": [part("a", minMember=1)]}
    await cluster.apply(
        as_yaml(a_group("parts", namespace, name, **spec), *members("parts", namespace, name, "a", 1, gpus=1))
    )
    await not_ready(cluster, namespace)
