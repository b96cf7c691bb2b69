"""Bounds promise at least what a simulation can place, whoever is gone, and all ways to ask agree."""

import random

import numpy as np
import pytest

from kai.engine import Engine
from kai.engine.framework.allocation import allocate_job
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.search.bounds import GangBound, SlotBound, never_fits
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_state,
    a_topology,
    config,
    decided,
    job_of,
    task_of,
)
from libs.tests.engine.random_worlds import fuzz


def crowded(rng: random.Random) -> ClusterState:
    """Nodes with whole and shared devices, some of which leave, and one job with many equal pods to place."""
    count = rng.randint(1, 4)
    made = [
        a_node(
            f"n{n}",
            gpus=rng.choice([0, 1, 2, 4]),
            cpu=str(rng.choice([2, 6, 20])),
            gpu_memory_mib=rng.choice([16_000, 32_000]),
            pods=rng.choice([3, 110]),
            labels={"disk": rng.choice(["ssd", "hdd"])},
        )
        for n in range(count)
    ]
    jobs = []
    for number in range(rng.randint(0, 8)):
        node = rng.choice(made)
        leaving = NOW - 5 if rng.random() < 0.2 else 0
        where = {"on": node.metadata.name, "deleted": leaving, "cpu": str(rng.choice([0, 1, 2]))}
        if rng.random() < 0.4:
            device = f"{node.metadata.name}-{rng.randint(0, 1)}"
            jobs.append(a_job(f"r{number}", fraction=rng.choice([0.2, 0.5]), groups=(device,), **where))
        else:
            jobs.append(a_job(f"r{number}", gpus=rng.choice([0, 1, 2]), **where))
    asks = rng.choice(
        [
            {"gpus": 1},
            {"gpus": 2},
            {"cpu": "1"},
            {"fraction": 0.5},
            {"fraction": 0.3},
            {"gpu_memory_mib": 8_000},
        ]
    )
    if rng.random() < 0.3:
        asks |= {"spec": {"node_selector": {"disk": "ssd"}}}
    return a_state(made, jobs, a_job("taker", pods=12, **asks))


def test_with_a_shared_device_goes_the_pod_that_reserves_it_and_both_leave_their_slots() -> None:
    state = a_state(
        a_node("n", gpus=1, pods=2),
        a_job("half", fraction=0.5, groups=["n-0"], on="n"),
        a_job("taker", pods=2, priority="build-preemptible"),
    )
    assert decided(state, config("preempt")).evicts == {"half-0"}


@fuzz
def test_no_more_pods_find_a_place_than_the_bound_says(world: int) -> None:
    rng = random.Random(world)
    state = crowded(rng)
    session = Engine().open(state, NOW)
    if (state.nodes.idle < 0).any():
        return
    taker = job_of(state, "taker")
    running = [task for task in state.tasks.values() if task.node is not None and task.job is not taker]
    victims = rng.sample(running, rng.randint(0, len(running)))
    victims = [task for task in victims if not task.releasing]
    bound = SlotBound(session, taker.single.sorted_tasks()[0].cls)
    reach = bound.reach(victims)
    statement = session.statement()
    for task in victims:
        statement.evict(task)
    placed = 0
    for task in taker.single.sorted_tasks():
        if not allocate_job(session, statement, taker, simulation=True, tasks=[task]):
            break
        placed += 1
    statement.rollback()
    assert reach >= placed
    assert GangBound(session, taker.single.sorted_tasks()[:placed]).holds_with(victims)


@fuzz
def test_step_by_step_and_all_at_once_bounds_are_the_same(world: int) -> None:
    rng = random.Random(world)
    state = crowded(rng)
    session = Engine().open(state, NOW)
    cls = job_of(state, "taker").single.sorted_tasks()[0].cls
    running = [task for task in state.tasks.values() if task.node is not None and not task.releasing]
    victims = rng.sample(running, len(running))
    steps, bound = [], SlotBound(session, cls)
    for number, task in enumerate(victims):
        bound.add([task])
        steps.append(bound.total)
        assert bound.reach(victims[: number + 1]) == bound.total
    rows = np.array([task.node.row for task in victims], dtype=np.int64)
    classes = np.array([task.cls.id for task in victims], dtype=np.int64)
    start = rng.randint(0, len(victims))
    late = SlotBound(session, cls)
    late.add(victims[:start])
    totals = late.totals(
        rows[start:], classes=classes[start:], of_class={task.cls.id: task.cls for task in victims}
    )
    if cls.shared:
        assert totals is None
    else:
        assert totals.tolist() == steps[start:]


def chunk(*world):
    state = a_state(*world, a_job("other", gpus=1))
    session = Engine().open(state, NOW)
    job = job_of(state, "j")
    return session, job, tasks_to_allocate(job, simulation=True)


RACKS = [a_node(f"n{n}", gpus=2, labels={"rack": f"r{n // 2}"}) for n in range(4)]
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "j"}}}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("job", "never"),
    [
        (a_job("j", pods=8, gpus=1), False),
        (a_job("j", pods=9, gpus=1), True),
        (a_job("j", pods=4, gpus=2), False),
        (a_job("j", pods=5, gpus=2), True),
        (a_job("j", gpus=3), True),
        (a_job("j", pods=9, min_member=8, gpus=1), False),
        (a_job("j", pods=16, fraction=0.5), False),
        (a_job("j", pods=17, fraction=0.5), True),
        (a_job("j", pods=4, gpus=1, spec={"node_selector": {"rack": "r0"}}), False),
        (a_job("j", pods=5, gpus=1, spec={"node_selector": {"rack": "r0"}}), True),
        (a_job("j", pods=4, gpus=1, group={"topology": a_constraint("rack")}), False),
        (a_job("j", pods=5, gpus=1, group={"topology": a_constraint("rack")}), True),
        (a_job("j", pods=5, gpus=1, group={"topology": a_constraint(preferred="rack")}), False),
        (a_job("j", pods=2, gpus=1, labels={"app": "j"}, spec=APART), False),
        (a_job("j", pods=3, gpus=1, labels={"app": "j"}, spec=APART), True),
        (a_job("j", pods=3, gpus=1, labels={"app": "x"}, spec=APART), False),
        (a_job("j", Part("a", 2, pods=2), Part("b", 2, pods=2), gpus=2), False),
        (a_job("j", Part("a", 3, pods=3), Part("b", 2, pods=2), gpus=2), True),
    ],
)
def test_what_does_not_even_fit_on_empty_nodes_never_fits(job, never) -> None:
    """Though all of them are full: whoever is there might go."""
    full = [a_job(f"full{n}", gpus=2, on=f"n{n}") for n in range(4)]
    assert never_fits(*chunk(a_topology("rack"), RACKS, full, job)) is never


def test_a_gang_fits_only_if_the_pods_of_each_class_do() -> None:
    """There is room for all of the one kind and for none of the other."""
    job = a_job("j", Part("a", 2, pods=2, pod={"gpus": 1}), Part("b", pod={"gpus": 2}))
    old = a_job("old", gpus=2, on="n1")
    session, _, tasks = chunk(a_node("n0", gpus=1), a_node("n1", gpus=2), a_node("n2", gpus=1), old, job)
    bound = GangBound(session, tasks)
    assert not bound.holds
    victim = task_of(session.state, "old-0")
    assert bound.holds_with([victim])
    bound.add([victim])
    assert bound.holds


def test_victims_on_nodes_where_the_job_may_not_go_are_of_no_use() -> None:
    job = a_job("j", gpus=1, spec={"node_selector": {"disk": "ssd"}})
    made = a_node("n0", gpus=1), a_node("n1", gpus=1, labels={"disk": "ssd"})
    old = [a_job(f"old{n}", gpus=1, on=f"n{n}") for n in (0, 1)]
    session, _, tasks = chunk(made, old, job)
    bound = GangBound(session, tasks)
    assert not bound.holds_with([task_of(session.state, "old0-0")])
    assert bound.holds_with([task_of(session.state, "old1-0")])


def test_the_first_victim_with_which_a_gang_fits_is_found_without_steps() -> None:
    made = [a_node(f"n{n}", gpus=1) for n in range(6)]
    old = [a_job(f"old{n}", gpus=1, on=f"n{n}", created=n) for n in range(6)]
    session, job, tasks = chunk(made, old, a_job("j", pods=3, gpus=1, priority="build"))
    source = session.victim_source(job, lambda queue: True)
    source.get(5)
    bound = GangBound(session, tasks)
    assert bound.first_holding(source.columns(), begin=0, of_class=source.classes) == 2
    assert bound.first_holding(source.columns(), begin=1, of_class=source.classes) == 3
    assert bound.first_holding(source.columns(), begin=4, of_class=source.classes) == -1
