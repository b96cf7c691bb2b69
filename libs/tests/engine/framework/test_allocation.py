"""Placing one chunk of a job: all of it or nothing that counts, now or once something is released."""

import numpy as np
import pytest

from kai.engine import Engine
from kai.engine.framework.allocation import allocate_job
from kai.snapshot.status import Status
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_queue,
    a_state,
    a_topology,
    config,
    job_of,
    leaving,
    nodes,
    task_of,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
APART = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchExpressions": [{"key": "apart", "operator": "Exists"}]},
}


def attempt(*world, job="j", by=None, evict=(), **options):
    """Place a job; returns whether that was done, where its pods are or wait, and what it is told."""
    state = a_state(*world)
    session = Engine(by).open(state, NOW)
    statement = session.statement()
    for name in evict:
        statement.evict(task_of(state, name))
    placed = allocate_job(session, statement, job_of(state, job), **options)
    statement.check()
    places = {
        operation.task.name: (operation.task.status.label, operation.node.name)
        for operation in statement.operations()
        if operation.task.job is job_of(state, job)
    }
    errors = session.errors.get(f"default/{job}")
    return placed, places, errors.message() if errors is not None else ""


def now(node):
    return "Allocated", node


def later(node):
    return "Pipelined", node


def test_pods_take_what_is_idle() -> None:
    world = nodes(2, gpus=1), a_job("j", pods=2, gpus=1)
    assert attempt(world) == (True, {"j-0": now("n0"), "j-1": now("n1")}, "")


def test_a_pod_is_promised_what_is_being_released_where_nothing_else_is_left() -> None:
    world = nodes(2, gpus=1), a_job("old", gpus=1, on="n0", deleted=NOW - 5), a_job("j", pods=2, gpus=1)
    assert attempt(world) == (True, {"j-0": now("n1"), "j-1": later("n0")}, "")


def _left(*, whose: str):
    """A node whose only device is shared by a pod that stays and one that leaves, and one that is idle."""
    return (
        [a_queue("team"), a_queue("other")],
        nodes(2, gpus=1),
        a_job("stays", fraction=0.3, groups=("a",), on="n0"),
        leaving("leaves", fraction=0.5, groups=("a",), on="n0", queue=whose),
    )


NODE_0 = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}]}


@pytest.mark.parametrize(
    ("whose", "pod", "place"),
    [
        pytest.param("team", {}, later("n0"), id="its own queue: GPUs are shared first, as in the original"),
        pytest.param("other", {}, now("n1"), id="another queue: as long as it likes"),
        pytest.param(
            "other",
            {"spec": {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": NODE_0}]}}}},
            later("n0"),
            id="the pod prefers that node",
        ),
    ],
)
def test_where_it_can_begin_elsewhere_a_pod_waits_only_for_what_its_own_queue_leaves(
    whose, pod, place
) -> None:
    assert attempt(*_left(whose=whose), a_job("j", fraction=0.5, **pod))[1] == {"j-0": place}


@pytest.mark.parametrize(("whose", "place"), [("team", later("n0")), ("other", now("n1"))])
def test_a_pod_that_was_promised_a_place_waits_for_it_only_while_its_own_queue_leaves_it(
    whose, place
) -> None:
    state = a_state(
        [a_queue("team"), a_queue("other")],
        nodes(2, gpus=1),
        leaving("leaves", gpus=1, on="n0", queue=whose),
        a_job("j", gpus=1),
    )
    task_of(state, "j-0").nominated = "n0"
    session = Engine().open(state, NOW)
    statement = session.statement()
    assert allocate_job(session, statement, job_of(state, "j"))
    task = task_of(state, "j-0")
    assert (task.status.label, (task.node or task.pipelined_node).name) == place


def test_in_a_simulation_everything_waits() -> None:
    world = nodes(1, gpus=2), a_job("j", pods=2, gpus=1)
    assert attempt(world, simulation=True) == (True, {"j-0": later("n0"), "j-1": later("n0")}, "")


def test_in_a_simulation_nobody_is_told_anything() -> None:
    world = nodes(1, gpus=1), a_job("j", pods=2, gpus=1)
    placed, _, said = attempt(world, simulation=True)
    assert (placed, said) == (False, "")
    limited = a_queue("team", limit=0), nodes(1, gpus=1), a_job("j", gpus=1)
    assert attempt(limited, simulation=True) == (False, {}, "")


def test_whoever_fails_is_told_how_many_of_a_gang_found_room() -> None:
    placed, places, said = attempt(nodes(1, gpus=2), a_job("j", pods=3, gpus=1))
    assert not placed
    assert list(places) == ["j-0", "j-1"]
    assert "2 of the 3 pods needed found room; pod default/j-2" in said


def test_of_pods_that_are_told_their_subgroup_is_named() -> None:
    world = nodes(1, gpus=1), a_job("j", Part("a"), Part("b", 2, pods=2), gpus=1)
    placed, _, said = attempt(world)
    assert not placed
    assert "0 of the 2 pods of subgroup 'b' needed found room" in said


def test_only_nodes_that_are_given_are_taken() -> None:
    world = nodes(2, gpus=1), a_job("j", gpus=1)
    assert attempt(world, nodes=np.array([False, True]))[1] == {"j-0": now("n1")}
    assert not attempt(world, nodes=np.array([False, False]))[0]


def test_what_is_over_the_limit_is_not_tried() -> None:
    world = a_queue("team", limit=1), nodes(2, gpus=1), a_job("j", pods=2, gpus=1)
    placed, places, said = attempt(world)
    assert (placed, places) == (False, {})
    assert said.startswith("OverLimit")


def test_there_is_nothing_to_place_of_a_job_that_runs() -> None:
    assert attempt(nodes(1, gpus=1), a_job("j", gpus=1, on="n0")) == (False, {}, "")


def test_of_a_job_that_has_its_minimum_one_more_pod_is_placed() -> None:
    world = nodes(1, gpus=4), a_job("j", on="n0", pods=3, min_member=1, gpus=1)
    assert attempt(world)[1] == {"j-1": now("n0")}


def test_in_a_simulation_victims_get_back_the_places_they_had() -> None:
    """That is no eviction then: it leaves no operation in effect."""
    world = nodes(1, gpus=2), a_job("j", on=["n0", "n0"], gpus=1)
    assert attempt(world, simulation=True, evict=["j-0", "j-1"]) == (True, {}, "")


def test_in_reality_victims_of_the_same_statement_get_nothing() -> None:
    world = nodes(1, gpus=2), a_job("j", on=["n0", "n0"], gpus=1)
    assert not attempt(world, evict=["j-0", "j-1"])[0]


def test_what_does_not_fit_in_one_domain_is_tried_as_a_whole_in_the_next() -> None:
    racks = [a_node(f"n{n}", gpus=1, labels={"rack": rack}) for n, rack in enumerate(["a", "b", "b"])]
    world = a_topology("rack"), racks, a_job("j", pods=2, gpus=1, group={"topology": a_constraint("rack")})
    assert attempt(world)[1] == {"j-0": now("n1"), "j-1": now("n2")}


def test_a_subgroup_that_fails_in_a_domain_takes_those_before_it_along() -> None:
    """In rack ``a`` the first subgroup takes the only node that the second one may take."""
    disks = {"n0": ("a", "ssd"), "n1": ("a", "hdd"), "n2": ("b", "ssd"), "n3": ("b", "ssd")}
    racks = [a_node(name, gpus=1, labels={"rack": r, "disk": disk}) for name, (r, disk) in disks.items()]
    picky = Part("y", pod={"spec": {"node_selector": {"disk": "ssd"}}})
    job = a_job("j", Part("x"), picky, gpus=1, group={"topology": a_constraint("rack")})
    placed, places, _ = attempt(a_topology("rack"), racks, job)
    assert placed
    assert places == {"j-x-0": now("n2"), "j-y-0": now("n3")}


def test_pods_that_fail_in_a_domain_leave_nothing_there() -> None:
    """Rack ``a`` has room for both, but on one node, and they keep away from each other."""
    racks = [
        a_node(name, gpus=2, labels={"rack": rack}) for name, rack in (("n0", "a"), ("n1", "b"), ("n2", "b"))
    ]
    taken = [a_job(name, gpus=1, on=name.partition("-")[2]) for name in ("on-n1", "on-n2")]
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [APART]}}}
    pair = Part("x", 2, pods=2, constraint=a_constraint("rack"), pod={"labels": {"apart": ""}, "spec": spec})
    state = a_state(a_topology("rack"), racks, taken, a_job("j", pair, gpus=1))
    session = Engine().open(state, NOW)
    statement = session.statement()
    assert allocate_job(session, statement, job_of(state, "j"))
    places = [(operation.task.name, operation.node.name) for operation in statement.operations()]
    assert places == [("j-x-0", "n1"), ("j-x-1", "n2")]
    statement.rollback()
    session.close()
    state.check()


@pytest.mark.parametrize(("off", "node"), [((), "n1"), (("nominatednode",), "n0")])
def test_the_node_to_which_a_pod_is_nominated_comes_first(off, node) -> None:
    state = a_state(nodes(2, gpus=1), a_job("j", gpus=1))
    session = Engine(config(off=off)).open(state, NOW)
    task = task_of(state, "j-0")
    task.nominated = "n1"
    statement = session.statement()
    assert allocate_job(session, statement, job_of(state, "j"))
    assert (task.status, task.node.name) == (Status.ALLOCATED, node)


def test_memory_of_devices_is_counted_against_the_limit_where_it_is_taken() -> None:
    """Half of a small device is a quarter of a large one, so only the large one is within the limit."""
    world = (
        a_queue("team", limit=0.3),
        a_node("a", gpus=1, gpu_memory_mib=16_000),
        a_node("b", gpus=1, gpu_memory_mib=32_000),
        a_job("j", gpu_memory_mib=8_000),
    )
    assert attempt(world)[1] == {"j-0": now("b")}
