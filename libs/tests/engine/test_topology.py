import pytest

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
