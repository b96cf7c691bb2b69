from typing import Any

import pytest

from kai.engine import Engine
from kai.engine.kernel.room import free_slots
from kai.engine.plugins import topology
from kai.model.arrays import Ints, Mask
from kai.model.objects import TopologyConstraint
from kai.snapshot.classes import TaskClass
from kai.snapshot.table import NodeTable
from libs.tests.engine.builders import (
    NOW,
    a_constraint,
    a_group,
    a_job,
    a_node,
    a_pod,
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


ONE_RACK = pytest.mark.parametrize(
    "constraint", [a_constraint("rack"), a_constraint(preferred="rack")], ids=["required", "preferred"]
)


@ONE_RACK
@pytest.mark.parametrize(
    ("amount", "launcher", "worker", "rack"),
    [("gpus", 1, 8, (8, 8, 1)), ("cpu", "1", "60", ("64", "64", "2"))],
    ids=["gpus", "cpu"],
)
def test_a_small_launcher_does_not_make_a_rack_too_small_for_its_workers(
    constraint: TopologyConstraint,
    amount: str,
    launcher: int | str,
    worker: int | str,
    rack: tuple[int | str, ...],
) -> None:
    """Each of the workers needs a large node of the rack, and the launcher only what is left."""
    pods = {"launcher": launcher, "worker-0": worker, "worker-1": worker}
    state = a_state(
        a_topology("rack"),
        [
            a_node(f"n{row}", **{"gpus": 0, "cpu": "64", amount: has}, labels={"rack": "r"})
            for row, has in enumerate(rack)
        ],
        a_group("g", queue="team", min_member=3, topology=constraint),
        [a_pod(name, group="g", **{amount: asks}) for name, asks in pods.items()],
    )
    assert decided(state).binds.keys() == pods.keys()


@ONE_RACK
@pytest.mark.parametrize("other", [0.5, None], ids=["another part", "no GPU"])
def test_free_parts_of_shared_devices_count_for_pods_that_differ(
    constraint: TopologyConstraint, other: float | None
) -> None:
    """Two devices are half free, and no device is idle; nobody has to move."""
    state = a_state(
        a_topology("rack"),
        a_node("n0", gpus=2, gpu_memory_mib=16000, labels={"rack": "r"}),
        [a_job(f"half-{each}", on="n0", fraction=0.5, groups=(each,)) for each in ("g0", "g1")],
        a_group("g", queue="team", min_member=2, topology=constraint),
        a_pod("quarter", group="g", fraction=0.25),
        a_pod("other", group="g", **({"fraction": other} if other else {})),
    )
    result = decided(state)
    assert result.binds == {"quarter": "n0", "other": "n0"}
    assert not result.evicts


@ONE_RACK
def test_pods_that_differ_go_to_the_rack_whose_nodes_are_large_enough(
    constraint: TopologyConstraint,
) -> None:
    """Two racks of twelve GPUs, of which one has a node for each of the large pods."""
    racks = {"a0": ("a", 4), "a1": ("a", 4), "a2": ("a", 4), "b0": ("b", 6), "b1": ("b", 6)}
    state = a_state(
        a_topology("rack"),
        [a_node(name, gpus=gpus, labels={"rack": rack}) for name, (rack, gpus) in racks.items()],
        a_group("g", queue="team", min_member=3, topology=constraint),
        [a_pod(f"large-{each}", group="g", gpus=5) for each in range(2)],
        a_pod("small", group="g", gpus=1),
    )
    assert {node[0] for node in decided(state).binds.values()} == {"b"}


def an_unlike_gang(pods: int) -> list[Any]:
    """Pods of 1 CPU and of a little more each."""
    return [
        a_group("g", queue="team", min_member=pods, topology=a_constraint("rack")),
        [a_pod(f"g-{each}", group="g", cpu=f"{1000 + each}m") for each in range(pods)],
    ]


def test_pods_that_all_differ_are_not_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []

    def count(table: NodeTable, cls: TaskClass, inside: Mask) -> Ints:
        counted.append(cls)
        return free_slots(table, cls, inside)

    monkeypatch.setattr(topology, "free_slots", count)
    state = a_state(
        a_topology("rack"),
        [a_node(f"n{row}", cpu="32", labels={"rack": "r"}) for row in range(2)],
        an_unlike_gang(40),
    )
    assert len(decided(state).binds) == 40
    assert len(counted) <= 16


def test_many_pods_that_all_differ_go_to_the_rack_that_has_room_for_all() -> None:
    """One rack has enough in all, in pieces too small for one pod each; one has too little, and is fuller."""
    state = a_state(
        a_topology("rack"),
        [a_node(f"a{row}", cpu="900m", labels={"rack": "a"}) for row in range(30)],
        a_node("b0", cpu="20", labels={"rack": "b"}),
        a_node("c0", cpu="21", labels={"rack": "c"}),
        an_unlike_gang(20),
    )
    assert set(decided(state).binds.values()) == {"c0"}
