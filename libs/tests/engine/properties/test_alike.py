"""Jobs that wait alike are refused together, and nothing else is decided by that.

What their owners are told may be as of an earlier moment of the cycle, when the first of them was refused.
"""

import random
from unittest import mock

from kai.engine import Engine
from kai.engine.framework.session import Session
from kai.model.decisions import Outcome
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_node,
    a_pod,
    a_queue,
    config,
    usual_priorities,
)
from libs.tests.engine.random_worlds import fuzz

QUEUES = ("one", "two", "three")


def crowded(number: int) -> ClusterState:
    """Few nodes, some running work, and crowds that wait, with others between them and limits above."""
    rng = random.Random(number)
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    state.apply(Kind.QUEUE, a_queue("top", limit=rng.choice([-1, 6])))
    for name in QUEUES:
        state.apply(
            Kind.QUEUE,
            a_queue(
                name,
                parent="top",
                gpu=rng.choice([-1, 0, 2, 4]),
                limit=rng.choice([-1, -1, 3]),
                weight=rng.choice([0, 1, 2]),
            ),
        )
    nodes = [f"n{node}" for node in range(rng.randint(1, 4))]
    for node in nodes:
        state.apply(Kind.NODE, a_node(node, gpus=rng.choice([1, 2, 4]), cpu=str(rng.choice([4, 8]))))

    def job(name: str, share: dict[str, float], *, node: str = "", pods: int = 1, at: float = 0.0) -> None:
        priority = rng.choice(["train", "train", "train", "build", "inference"])
        queue = rng.choice(QUEUES)
        state.apply(
            Kind.POD_GROUP, a_group(name, queue=queue, priority=priority, min_member=pods, created=NOW + at)
        )
        for pod in range(pods):
            state.apply(Kind.POD, a_pod(f"{name}-{pod}", group=name, node=node, created=NOW + at, **share))

    for at, node in enumerate(nodes):
        for runs in range(rng.randint(0, 3)):
            job(f"runs-{at}-{runs}", {"gpus": rng.choice([0, 1, 1])}, node=node)
    kinds = [rng.choice([{"gpus": 0}, {"gpus": 1}, {"gpus": 2}, {"fraction": 0.5}]) for _ in range(3)]
    for waits in range(rng.randint(5, 40)):
        pods = 2 if rng.random() < 0.1 else 1
        job(f"waits-{waits}", rng.choice(kinds), pods=pods, at=float(rng.randint(0, 5)))
    return state


def a_life(number: int) -> list[object]:
    """What is decided and told in three cycles, between which some of what runs goes."""
    rng = random.Random(-number)
    state, engine = crowded(number), Engine(config())
    told: list[object] = []
    outcomes: dict[str, Outcome] = {}
    for cycle in range(3):
        result = engine.run(state, NOW + 10.0 * (1 + cycle))
        told += [result.binds, result.evictions, result.nominations, result.shares]
        outcomes.update((each.pod_group, each.outcome) for each in result.outcomes)
        told.append(dict(outcomes))
        told.append(
            {key: by for key, by in result.counters.items() if key[0] == "podgroups_scheduled_by_action"}
        )
        for bind in result.binds:
            state.bind_done(bind.pod.uid)
        holding = sorted(task.key for task in state.tasks.values() if task.node is not None)
        for key in rng.sample(holding, min(len(holding), rng.randint(0, 2))):
            state.remove(Kind.POD, key)
    return told


@fuzz
def test_refusing_those_alike_together_changes_nothing(world: int) -> None:
    together = a_life(world)
    with mock.patch.object(Session, "stands_for_alike", return_value=False):
        one_by_one = a_life(world)
    assert together == one_by_one
