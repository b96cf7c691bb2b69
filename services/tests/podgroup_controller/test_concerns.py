"""Whom a change of a node concerns: groups whose pods have parts of its GPUs."""

import msgspec
import pytest

from kai.kube.reflector import Removed, Upserted
from kai.model import names
from kai.model.objects import Node
from kai_podgroup_controller.cluster import Cluster

SHARED = {names.GPU_FRACTION: "0.5"}


def a_node(name, memory="81920"):
    labels = {names.GPU_MEMORY_LABEL: memory}
    return Upserted(msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node), False)


@pytest.fixture
def concerned():
    return []


@pytest.fixture
def cluster(build, concerned):
    found = Cluster(node_pool_label_key=names.NODE_POOL_LABEL, concern=concerned.append)
    for name, options in {
        "shares": {"node": "n1", "annotations": SHARED},
        "whole": {"node": "n1"},
        "elsewhere": {"node": "n2", "annotations": SHARED},
        "waits": {"annotations": SHARED},
    }.items():
        found.pod_sink(Upserted(build.pod(name, group=f"of-{name}", **options), False))
    concerned.clear()
    return found


def test_groups_with_parts_of_its_gpus_are_concerned_when_their_memory_is_known(cluster, concerned):
    cluster.node_sink(a_node("n1"))
    assert concerned == ["team/of-shares"]


def test_nobody_is_while_nothing_changes(cluster, concerned):
    cluster.node_sink(a_node("n1"))
    cluster.node_sink(a_node("n1"))
    assert len(concerned) == 1


def test_a_pod_that_came_or_went_meanwhile_counts(cluster, concerned, build):
    cluster.pod_sink(
        Upserted(build.pod("waits", group="of-waits", node="n1", annotations=SHARED, version=2), True)
    )
    cluster.pod_sink(Removed("team/shares", "uid-shares", None))
    concerned.clear()
    cluster.node_sink(a_node("n1"))
    assert concerned == ["team/of-waits"]


def test_thousands_of_nodes_are_not_each_held_against_all_pods(build):
    cluster = Cluster(node_pool_label_key=names.NODE_POOL_LABEL, concern=lambda group: None)

    class Pods(dict):
        def values(self):
            raise AssertionError("all pods were looked at for one node")

    for number in range(20):
        pod = build.pod(f"p{number}", group="g", node=f"m{number}", annotations=SHARED)
        cluster.pod_sink(Upserted(pod, False))
    cluster.pods = Pods(cluster.pods)
    for number in range(20):
        cluster.node_sink(a_node(f"n{number}"))


def test_what_a_list_tells_counts_though_something_newer_was_known(build):
    """As where the store of the API server was restored from a backup."""
    cluster = Cluster(node_pool_label_key=names.NODE_POOL_LABEL, concern=lambda group: None)
    cluster.pod_sink(Upserted(build.pod("a", node="n1", version=1000), False))
    cluster.group_sink(Upserted(build.group(version=1000), False))
    for listed, node, version in ((False, "n1", 1000), (True, "n2", 800)):
        cluster.pod_sink(Upserted(build.pod("a", node="n2", version=800), True, listed=listed))
        cluster.group_sink(Upserted(build.group(version=800), True, listed=listed))
        assert cluster.pods["team/a"].node == node
        assert [group.resource_version for group in cluster.groups.values()] == [version]
