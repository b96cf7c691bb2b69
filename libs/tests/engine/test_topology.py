from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine
from kai.model.objects import ObjectMeta, Topology, TopologyConstraint, TopologyLevel, TopologySpec
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0


def test_room_is_counted_for_each_topology_on_its_own_nodes() -> None:
    """Equal pods, of which each job must stay within another topology."""
    state = ClusterState()
    for priority in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, priority)
    state.apply(Kind.QUEUE, a_queue("team"))
    for name in ("east", "west"):
        levels = [TopologyLevel(node_label=name)]
        state.apply(Kind.TOPOLOGY, Topology(metadata=ObjectMeta(name=name), spec=TopologySpec(levels=levels)))
        state.apply(Kind.NODE, a_node(f"node-{name}", gpus=2, labels={name: "here"}))
        constraint = TopologyConstraint(topology=name, required_topology_level=name)
        state.apply(Kind.POD_GROUP, a_group(name, queue="team", min_member=2, topology=constraint))
        for number in range(2):
            state.apply(Kind.POD, a_pod(f"{name}-{number}", group=name, gpus=1))
    result = Engine().run(state, NOW)
    placed = {bind.pod.name: bind.node for bind in result.binds}
    assert placed == {f"{name}-{number}": f"node-{name}" for name in ("east", "west") for number in range(2)}
