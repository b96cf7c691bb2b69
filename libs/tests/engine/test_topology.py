from libs.tests.engine.builders import a_constraint, a_job, a_node, a_state, a_topology, decided


def test_room_is_counted_for_each_topology_on_its_own_nodes() -> None:
    """Equal pods, of which each job must stay within another topology."""
    names = ("east", "west")
    state = a_state(
        [a_topology(name, name=name) for name in names],
        [a_node(f"node-{name}", gpus=2, labels={name: "here"}) for name in names],
        [a_job(name, pods=2, gpus=1, group={"topology": a_constraint(name, name=name)}) for name in names],
    )
    placed = decided(state).binds
    assert placed == {f"{name}-{number}": f"node-{name}" for name in names for number in range(2)}
