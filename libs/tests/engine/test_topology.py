import pytest

from kai.engine import Engine
from libs.tests.engine.builders import (
    NOW,
    a_constraint,
    a_job,
    a_node,
    a_state,
    a_topology,
    decided,
    nodes,
    outcomes,
)


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


@pytest.mark.parametrize("preferred", ["", "rack", "zone"])
def test_a_preferred_level_at_or_above_the_required_one_adds_nothing(preferred: str) -> None:
    """A job that needs a rack for itself finds one, and no two halves of different racks."""
    racks = {"a": "z1", "b": "z1", "c": "z2"}
    state = a_state(
        a_topology("zone", "rack"),
        [a_node(rack, gpus=4, labels={"zone": zone, "rack": rack}) for rack, zone in racks.items()],
        [a_job(f"half-{rack}", gpus=2, on=rack, priority="build") for rack in "ac"],
        a_job("job", pods=2, gpus=2, group={"topology": a_constraint("rack", preferred=preferred)}),
    )
    assert decided(state).binds == {"job-0": "b", "job-1": "b"}


def test_where_no_node_is_part_of_a_topology_that_is_said_and_not_that_there_is_no_room() -> None:
    """Nodes that are free, some of which have one of the two labels."""
    state = a_state(
        a_topology("zone", "rack"),
        [nodes(2, gpus=8), a_node("half", gpus=8, labels={"zone": "z1"})],
        a_job("job", pods=2, gpus=1, group={"topology": a_constraint("zone")}),
    )
    assert outcomes(Engine().run(state, NOW))["job"].message == (
        "PodSchedulingErrors: no node is part of topology 'tree': none has all of its labels, zone, rack"
    )
