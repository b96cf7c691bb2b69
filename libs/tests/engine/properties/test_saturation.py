"""Reclaim never leaves who takes more saturated than who gives, where their queues part.

A queue takes only within its fair share, so the rule matters above it: the department that takes is over its
share by another of its queues, while a third department, which cannot use its own, leaves room for that.
"""

import random
from collections.abc import Iterator

from kai.engine import Engine, SchedulerConfig
from kai.model.decisions import QueueShare
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_queue, usual_priorities
from libs.tests.engine.random_worlds import fuzz

DEPARTMENTS = {
    "taker": ("poor", "rich"),
    "giver": ("first", "second"),
    "absent": ("hopeless",),
}
PARENT = {leaf: top for top, leaves in DEPARTMENTS.items() for leaf in leaves}
GPU = 2


class Crowd:
    """A full cluster in which one job of a poor queue waits."""

    def __init__(self, number: int) -> None:
        rng = random.Random(number)
        self.state = ClusterState()
        self.queue_of: dict[str, str] = {}
        for each in usual_priorities():
            self.state.apply(Kind.PRIORITY_CLASS, each)
        nodes = rng.randint(1, 3)
        for node in range(nodes):
            self.state.apply(Kind.NODE, a_node(f"n{node}", gpus=8))
        for top, leaves in DEPARTMENTS.items():
            self._queue(top, "", quota=rng.randint(0, 3 * nodes))
            for leaf in leaves:
                self._queue(leaf, top, quota=rng.randint(0, 4))
        weights = (0.2, rng.random(), rng.random(), rng.random())
        for place in range(8 * nodes):
            (queue,) = rng.choices(("poor", "rich", "first", "second"), weights)
            self._job(f"runs-{place:02}", queue, gpus=1, node=f"n{place // 8}")
        for place in range(nodes):
            self._job(f"fits-nowhere-{place}", "hopeless", gpus=9)
        self._job("waits", "poor", gpus=rng.randint(1, 3))

    def _queue(self, name: str, parent: str, *, quota: int) -> None:
        self.state.apply(Kind.QUEUE, a_queue(name, parent=parent, gpu=quota, weight=1))

    def _job(self, name: str, queue: str, *, gpus: int, node: str = "") -> None:
        group = a_group(name, queue=queue)
        self.state.apply(Kind.POD_GROUP, group)
        self.state.apply(Kind.POD, a_pod(f"{name}-0", group=name, gpus=gpus, node=node))
        self.queue_of[group.key] = queue

    def judged(self) -> Iterator[tuple[float, float]]:
        """For each pod lost: how saturated taker and giver are, where the taker is over its share."""
        result = Engine(SchedulerConfig(actions=("reclaim",))).run(self.state, NOW)
        shares = {share.queue: share for share in result.shares}
        moved = {each.pod.uid for each in result.nominations}
        for each in result.evictions:
            if each.pod.uid in moved:
                continue
            mine, theirs = parted(self.queue_of[each.evictor], self.queue_of[each.pod.pod_group])
            taker, giver = saturation(shares[mine]), saturation(shares[theirs])
            if taker > 1:
                yield taker, giver


def parted(first: str, second: str) -> tuple[str, str]:
    """The ancestors, from the root, that are not the same any more."""
    if PARENT[first] == PARENT[second]:
        return first, second
    return PARENT[first], PARENT[second]


def saturation(share: QueueShare) -> float:
    fair, held = share.fair_share[GPU], share.allocated[GPU]
    return held / fair if fair else (float("inf") if held else 0.0)


@fuzz(share=2.5)
def test_reclaim_leaves_the_taker_less_saturated_than_those_it_took_from(world: int) -> None:
    for taker, giver in Crowd(world).judged():
        assert taker < giver + 1e-6


def test_takers_are_often_over_their_share() -> None:
    """Else the property above would say nothing."""
    assert sum(any(True for _ in Crowd(world).judged()) for world in range(100)) >= 5
