"""The networks of clusters do not meet, and neither do those within one."""

import itertools
import json
from ipaddress import IPv4Network

import pytest

from kai_local.errors import ClusterError
from kai_local.node import network
from kai_local.node.marks import Marks
from kai_local.node.network import MOST_NODES, Network

A_CLUSTER = Network(IPv4Network("198.18.16.0/20"))


def test_nodes_services_and_pods_have_networks_of_their_own() -> None:
    parts = [A_CLUSTER.nodes, A_CLUSTER.services, *map(A_CLUSTER.pods, range(MOST_NODES))]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(parts, 2))
    assert all(part.subnet_of(A_CLUSTER.whole) for part in parts)
    assert all(A_CLUSTER.pods(index).subnet_of(A_CLUSTER.all_pods) for index in range(MOST_NODES))
    assert not A_CLUSTER.nodes.overlaps(A_CLUSTER.all_pods)
    assert A_CLUSTER.gateway in A_CLUSTER.nodes
    assert A_CLUSTER.node(MOST_NODES - 1) in A_CLUSTER.nodes


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the machine has; to be extended."""
    taken: list[str] = []

    def run(*command: str) -> str:
        addresses = [{"addr_info": [{"local": address} for address in taken] + [{"local": "::1"}]}]
        return json.dumps(addresses if command[-1] == "address" else [{"dst": "default"}])

    monkeypatch.setattr(network, "run", run)
    return taken


def test_a_network_that_the_machine_has_an_address_in_is_another_clusters(machine: list[str]) -> None:
    first = network.free_network(Marks("kai-1"))
    assert network.free_network(Marks("kai-1")) == first
    machine.append(str(first.gateway))
    assert network.free_network(Marks("kai-1")) != first


def test_that_all_are_taken_is_told(machine: list[str]) -> None:
    machine += [str(each[1]) for each in IPv4Network("198.18.0.0/15").subnets(new_prefix=20)]
    with pytest.raises(ClusterError, match="32 clusters have nodes"):
        network.free_network(Marks("kai-1"))


def test_a_node_has_ways_to_the_pods_of_all_others() -> None:
    script = network.inside_script(A_CLUSTER, 1, 3)
    assert f"{A_CLUSTER.pods(0)} via {A_CLUSTER.node(0)}" in script
    assert f"{A_CLUSTER.pods(2)} via {A_CLUSTER.node(2)}" in script
    assert f"{A_CLUSTER.pods(1)} via" not in script
