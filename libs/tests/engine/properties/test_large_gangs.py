"""Gangs that are too large to be gathered node by node are told so at once, and only those."""

import random
from unittest import mock

from kai.engine import Engine
from kai.engine.search.solver import Search
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    config,
    usual_priorities,
)
from libs.tests.engine.random_worlds import fuzz

PODS = 16


def nearly_full(number: int) -> ClusterState:
    """Small nodes, nearly full, and a gang of at least 16 pods that may take the place of most who run."""
    rng = random.Random(number)
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    state.apply(Kind.QUEUE, a_queue("top"))
    for name in ("team", "other"):
        state.apply(Kind.QUEUE, a_queue(name, parent="top", gpu=rng.choice([-1, 4])))

    def job(name: str, queue: str, priority: str, *, pods: int, gpus: int, node: str = "") -> None:
        state.apply(Kind.POD_GROUP, a_group(name, queue=queue, priority=priority, min_member=pods))
        for pod in range(pods):
            found = a_pod(f"{name}-{pod:02}", group=name, gpus=gpus, node=node)
            state.apply(Kind.POD, found)

    gpus = rng.choice([1, 1, 2, 4])
    for node in range(rng.randint(PODS, 2 * PODS) // gpus + 2):
        state.apply(Kind.NODE, a_node(f"n{node:02}", gpus=gpus, cpu="64"))
        left = gpus - (rng.random() < 0.15)
        while left > 0:
            size = min(left, rng.choice([1, 1, 2]))
            queue = rng.choice(["team"] * 7 + ["other"])
            priority = rng.choice(["train"] * 7 + ["build"])
            job(f"runs-{node:02}-{left}", queue, priority, pods=1, gpus=size, node=f"n{node:02}")
            left -= size
    priority = rng.choice(["build-preemptible", "inference"])
    pods, large = rng.randint(PODS, PODS + 8), gpus > 1 and rng.random() < 0.3
    job("gang", "team", priority, pods=pods + large, gpus=1)
    if large:
        state.apply(Kind.POD, a_pod(f"gang-{pods:02}", group="gang", gpus=gpus))
    return state


@fuzz
def test_whether_a_gang_is_too_large_changes_nothing_that_is_decided(world: int) -> None:
    settings = config(off=["sg-multinodegang"] if world % 2 else [])
    told = Engine(settings).run(nearly_full(world), NOW)
    with mock.patch.object(Search, "_too_large_for_nodes", return_value=False):
        tried = Engine(settings).run(nearly_full(world), NOW)
    for name in ("binds", "evictions", "nominations", "outcomes", "shares"):
        assert getattr(told, name) == getattr(tried, name), name


def test_a_pod_of_a_gang_that_takes_a_whole_node_does_not_make_it_too_large() -> None:
    state = a_state(
        a_queue("team", gpu=-1),
        [a_node(f"n{node}", gpus=8, cpu="64") for node in range(5)],
        [a_job(f"runs-{at}", queue="team", gpus=1, on=f"n{at // 8}") for at in range(40)],
        a_group("gang", queue="team", priority="inference", min_member=21),
        [(Kind.POD, a_pod(f"gang-{pod:02}", group="gang", gpus=1)) for pod in range(20)],
        (Kind.POD, a_pod("gang-20", group="gang", gpus=8)),
    )
    result = Engine(config("preempt", off=["sg-multinodegang"])).run(state, NOW)
    assert len(result.nominations) == 21


def test_some_gangs_are_too_large_and_some_of_them_are_served() -> None:
    """Else the property above would say nothing."""
    served = [result for result in map(served_although_too_large, range(40)) if result is not None]
    assert len(served) >= 5
    assert sum(served) >= 3


def served_although_too_large(world: int) -> bool | None:
    """Whether the gang is promised room; None if it was not told to be too large."""
    ask, answers = Search._too_large_for_nodes, []

    def asked(search: Search) -> bool:
        answers.append(ask(search))
        return answers[-1]

    with mock.patch.object(Search, "_too_large_for_nodes", asked):
        result = Engine().run(nearly_full(world), NOW)
    return bool(result.nominations) if any(answers) else None
