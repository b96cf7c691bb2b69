"""Where nobody may lose his place and moving makes no room no search is made, and nothing else is decided."""

import random
from unittest import mock

from kai.engine import Engine
from kai.engine.actions import eviction
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

QUEUES = ("one", "two", "three")


def nearly_full(number: int) -> ClusterState:
    """Nodes on which CPU, memory or GPUs are short, some closed, and jobs that wait for a little of them."""
    rng = random.Random(number)
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    state.apply(Kind.QUEUE, a_queue("top"))
    for name in QUEUES:
        quotas = {"gpu": rng.choice([-1, 0, 2, 4]), "cpu": rng.choice([-1, -1, 4_000, 8_000])}
        state.apply(Kind.QUEUE, a_queue(name, parent="top", weight=rng.choice([0, 1]), **quotas))
    cores = rng.choice([4, 8])
    nodes = [f"n{node}" for node in range(rng.randint(2, 5))]
    for node in nodes:
        closed = rng.random() < 0.2
        state.apply(
            Kind.NODE, a_node(node, gpus=rng.choice([0, 2]), cpu=str(cores), memory="6G", ready=not closed)
        )

    def job(name: str, *, node: str = "") -> None:
        gpus, pods = rng.choice([0, 0, 1]), rng.choice([1, 1, 1, 2])
        group = a_group(
            name, queue=rng.choice(QUEUES), priority=rng.choice(["train", "build"]), min_member=pods
        )
        state.apply(Kind.POD_GROUP, group)
        amounts = {"cpu": str(rng.choice([1, 1, 2])), "memory": f"{rng.choice([1, 2])}G"}
        share = {"fraction": 0.5} if gpus and rng.random() < 0.1 else {"gpus": gpus}
        for pod in range(pods):
            state.apply(Kind.POD, a_pod(f"{name}-{pod}", group=name, node=node, **amounts, **share))

    for at, node in enumerate(nodes):
        for runs in range(rng.randint(cores // 2, cores)):
            job(f"runs-{at}-{runs}", node=node)
    for waits in range(rng.randint(1, 4)):
        job(f"waits-{waits}")
    return state


@fuzz
def test_whether_moving_may_do_changes_nothing_that_is_decided(world: int) -> None:
    settings = config()
    told = Engine(settings).run(nearly_full(world), NOW)
    with mock.patch.object(eviction, "moving_may_do", return_value=True):
        tried = Engine(settings).run(nearly_full(world), NOW)
    for name in ("binds", "evictions", "nominations", "outcomes", "shares"):
        assert getattr(told, name) == getattr(tried, name), name


def searches(state: ClusterState) -> int:
    found = Engine(config("reclaim")).run(state, NOW).searches
    return sum(map(len, found.values()))


def test_a_cluster_without_memory_is_not_searched_for_a_pod_that_needs_some() -> None:
    """Quota of CPU and memory is unlimited, so that each queue holds less than it deserves."""

    def full(memory: str) -> ClusterState:
        return a_state(
            a_queue("top"),
            [a_queue(name, parent="top", gpu=8) for name in ("team", "other")],
            [a_node(f"n{node}", gpus=8, cpu="64", memory=memory) for node in range(4)],
            a_node("closed", gpus=8, cpu="64", memory="64G", ready=False),
            [a_job(f"runs-{at}", queue="other", on=f"n{at // 8}") for at in range(32)],
            a_job("waits", queue="team"),
        )

    assert searches(full("8G")) == 0
    assert searches(full("8500M")) > 0
