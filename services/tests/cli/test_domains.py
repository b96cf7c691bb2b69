"""What `kai get domains` and the line of `kai top` say of the room that there is."""

from kai.model.objects import (
    Condition,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Taint,
    Topology,
    TopologyLevel,
    TopologySpec,
)
from kai_cli.views import domains, nodes

TOPOLOGY = Topology(
    metadata=ObjectMeta(name="net"),
    spec=TopologySpec(levels=[TopologyLevel(node_label="zone"), TopologyLevel(node_label="rack")]),
)


def a_node(name, *, gpus=4, zone="", rack="", cordoned=False, taints=None):
    labels = {key: value for key, value in (("zone", zone), ("rack", rack)) if value}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(unschedulable=cordoned, taints=taints),
        status=NodeStatus(
            allocatable={"nvidia.com/gpu": str(gpus)}, conditions=[Condition(type="Ready", status="True")]
        ),
    )


def told(found):
    return [(row.domain, row.nodes, tuple(row.slots.values())) for row in found]


def of(*found, topologies=(TOPOLOGY,)):
    return domains.table_of(topologies, found, nodes.table_of(found, []))


def test_room_is_told_of_all_nodes_and_of_each_domain_with_those_in_it():
    found = of(
        a_node("a", zone="z1", rack="r1"),
        a_node("b", zone="z1", rack="r2", gpus=8),
        a_node("c", zone="z2", gpus=3),
    )
    assert told(found) == [
        ("all nodes", 3, (15, 7, 3, 1)),
        ("z1", 2, (12, 6, 3, 1)),
        ("z1/r1", 1, (4, 2, 1, 0)),
        ("z1/r2", 1, (8, 4, 2, 1)),
        ("z2", 1, (3, 1, 0, 0)),
    ]
    assert [row.level for row in found] == ["", "zone", "rack", "rack", "zone"]


def test_a_node_without_the_label_of_the_coarser_level_is_in_no_domain():
    assert told(of(a_node("a", rack="r1"))) == [("all nodes", 1, (4, 2, 1, 0))]


def test_nodes_that_take_nobody_have_no_room():
    [everywhere] = of(a_node("a", cordoned=True), topologies=())
    assert (everywhere.gpus, everywhere.free, set(everywhere.slots.values())) == (4, 0, {0})


def test_a_cluster_without_nodes_has_no_room():
    assert domains.summary([]) == "room for pods: 0 of 1 GPU, 0 of 2 GPUs, 0 of 4 GPUs, 0 of 8 GPUs"


def test_the_line_says_how_many_pods_of_each_size_find_room():
    rows = nodes.table_of([a_node("a"), a_node("b", gpus=9)], [])
    assert domains.summary(rows) == "room for pods: 13 of 1 GPU, 6 of 2 GPUs, 3 of 4 GPUs, 1 of 8 GPUs"


def test_taints_are_shown_as_one_would_write_them():
    taints = [
        Taint(key="nvidia.com/gpu", effect="NoSchedule"),
        Taint(key="team", value="a", effect="NoExecute"),
    ]
    [row] = nodes.table_of([a_node("a", taints=taints)], [])
    assert row.taints == ("nvidia.com/gpu:NoSchedule", "team=a:NoExecute")
    assert "nvidia.com/gpu:NoSchedule team=a:NoExecute" in row.cells()
