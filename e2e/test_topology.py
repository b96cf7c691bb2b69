"""Where gangs go among zones, racks and nodes: what they require, and what they prefer within it."""

import uuid
from collections import Counter
from dataclasses import dataclass

import pytest

from e2e.manifests import a_job, a_pod, as_yaml, on
from kai.model import names
from kai_local.kubelet.nodes import NodeShape

ZONES, RACKS, NODES_EACH = 2, 2, 2
GPUS = 2


@dataclass(frozen=True, slots=True)
class Site:
    """Eight nodes of two GPUs in two zones of two racks each, and the topology that knows them."""

    topology: str
    zone: str
    rack: str
    places: dict[str, tuple[str, str]]

    @property
    def here(self) -> dict:
        """Spec of pods that go to these nodes."""
        term = {"matchExpressions": [{"key": self.zone, "operator": "Exists"}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        return {"affinity": {"nodeAffinity": required}}

    def zones_of(self, pods) -> Counter:
        return Counter(self.places[pod.spec.node_name][0] for pod in pods)

    def racks_of(self, pods) -> Counter:
        return Counter(self.places[pod.spec.node_name] for pod in pods)

    def wish(self, *, required="", preferred="") -> dict[str, str]:
        levels = {names.TOPOLOGY_REQUIRED: required, names.TOPOLOGY_PREFERRED: preferred}
        return {names.TOPOLOGY: self.topology} | {key: level for key, level in levels.items() if level}


@pytest.fixture
async def site(cluster, node):
    name = uuid.uuid4().hex[:6]
    found = Site(f"site-{name}", f"e2e.example.com/zone-{name}", f"e2e.example.com/rack-{name}", {})
    for zone in range(ZONES):
        for rack in range(RACKS):
            # Racks of both zones have the same names, as they often do.
            labels = {found.zone: f"zone-{zone}", found.rack: f"rack-{rack}"}
            for _ in range(NODES_EACH):
                made = await node(NodeShape(gpus=GPUS, labels=labels))
                found.places[made] = (f"zone-{zone}", f"rack-{rack}")
    levels = [
        {"nodeLabel": found.zone, "alias": "zone"},
        {"nodeLabel": found.rack, "alias": "rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]
    topology = {
        "apiVersion": names.TOPOLOGY_API_VERSION,
        "kind": "Topology",
        "metadata": {"name": found.topology},
        "spec": {"levels": levels},
    }
    await cluster.apply(as_yaml(topology))
    yield found
    await cluster.delete(names.TOPOLOGY_API_VERSION, "Topology", found.topology)


def a_gang(site, namespace, queue, *, pods, wish):
    job = a_job("gang", namespace, queue, pods=pods, gang=pods, gpus=1, spec=site.here)
    job["metadata"]["annotations"] |= wish
    return job


async def occupy(cluster, site, namespace, queue, gpus) -> None:
    """Take so many GPUs of each of these nodes."""
    pods = []
    for number, (name, count) in enumerate(gpus.items()):
        pods.append(a_pod(f"occupant-{number}", namespace, queue, gpus=count, spec=on(name)))
    await cluster.apply(as_yaml(*pods))
    await cluster.running(namespace, "occupant", count=len(pods))


async def test_a_required_rack_holds_the_gang(cluster, queue, site, namespace):
    wish = site.wish(required=site.rack)
    await cluster.apply(as_yaml(a_gang(site, namespace, await queue(), pods=4, wish=wish)))
    assert len(site.racks_of(await cluster.running(namespace, "gang", count=4))) == 1


async def test_a_gang_larger_than_the_required_rack_waits(cluster, queue, site, namespace):
    wish = site.wish(required=site.rack)
    await cluster.apply(as_yaml(a_gang(site, namespace, await queue(), pods=5, wish=wish)))
    await cluster.waits(namespace, "gang")
    assert not [pod for pod in await cluster.pods(namespace) if pod.spec.node_name]


async def test_levels_may_be_called_by_their_aliases(cluster, queue, site, namespace):
    wish = site.wish(required="rack")
    await cluster.apply(as_yaml(a_gang(site, namespace, await queue(), pods=4, wish=wish)))
    assert len(site.racks_of(await cluster.running(namespace, "gang", count=4))) == 1


async def test_a_required_zone_with_a_preferred_rack_gives_the_zone_and_both_racks_if_it_must(
    cluster, queue, site, namespace
):
    wish = site.wish(required=site.zone, preferred=site.rack)
    await cluster.apply(as_yaml(a_gang(site, namespace, await queue(), pods=6, wish=wish)))
    pods = await cluster.running(namespace, "gang", count=6)
    assert len(site.zones_of(pods)) == 1
    assert len(site.racks_of(pods)) == 2


async def test_a_required_zone_with_a_preferred_rack_gives_one_rack_if_it_can(
    cluster, queue, site, namespace
):
    """Of each zone one rack has a GPU less, so that only the other one holds the gang."""
    name = await queue()
    first = {place: node for node, place in site.places.items() if place[1] == "rack-0"}
    await occupy(cluster, site, namespace, name, dict.fromkeys(first.values(), 1))
    wish = site.wish(required="zone", preferred="rack")
    await cluster.apply(as_yaml(a_gang(site, namespace, name, pods=4, wish=wish)))
    [(_, rack)] = site.racks_of(await cluster.running(namespace, "gang", count=4))
    assert rack == "rack-1"


async def test_racks_of_the_same_name_in_two_zones_are_two(cluster, queue, site, namespace):
    """One GPU is left on each node; a rack of either zone has two, both of one name have four."""
    name = await queue()
    await occupy(cluster, site, namespace, name, dict.fromkeys(site.places, 1))
    wish = site.wish(required=site.rack)
    await cluster.apply(as_yaml(a_gang(site, namespace, name, pods=3, wish=wish)))
    await cluster.waits(namespace, "gang")


@pytest.mark.parametrize(("pods", "nodes"), [(2, 1), (4, 2)], ids=["one node", "one rack"])
async def test_a_required_rack_with_a_preferred_node(cluster, queue, site, namespace, pods, nodes):
    wish = site.wish(required=site.rack, preferred="kubernetes.io/hostname")
    await cluster.apply(as_yaml(a_gang(site, namespace, await queue(), pods=pods, wish=wish)))
    found = await cluster.running(namespace, "gang", count=pods)
    assert len(site.racks_of(found)) == 1
    assert len({pod.spec.node_name for pod in found}) == nodes


async def test_pods_that_come_later_stay_in_the_required_rack(cluster, queue, site, namespace):
    name = await queue()
    job = a_gang(site, namespace, name, pods=2, wish=site.wish(required=site.rack))
    job["spec"] |= {"parallelism": 2, "completions": 4}
    await cluster.apply(as_yaml(job))
    before = site.racks_of(await cluster.running(namespace, "gang", count=2))
    await cluster.apply(as_yaml(job | {"spec": job["spec"] | {"parallelism": 4}}))
    after = site.racks_of(await cluster.running(namespace, "gang", count=4))
    assert set(after) == set(before)


async def test_an_unknown_level_is_told(cluster, queue, site, namespace):
    wish = site.wish(required="e2e.example.com/nowhere")
    await cluster.apply(as_yaml(a_gang(site, namespace, await queue(), pods=2, wish=wish)))
    await cluster.waits(namespace, "gang", saying="e2e.example.com/nowhere")
