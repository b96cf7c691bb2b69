"""A scheduler over a random world, as what it decided is recorded."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec

from kai.bench.worlds import NOW, World
from kai.engine import Engine
from kai.engine.queueing.turns import Turns
from kai.model.decisions import CycleResult
from kai.model.objects import NodeStatus
from kai.replay.cycles import take_base, write_cycle
from kai.snapshot.changes import Changes, Unread, take_in
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.reports import BindDone, BindFailed, EvictionFailed, PodRan, PodRefused
from kai.snapshot.state import ClusterState
from libs.tests.engine.random_worlds import advance, annotate


class Life:
    """A scheduler over a world in which all kinds of things happen between its cycles."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.state, self.engine = ClusterState(), Engine(contained=True)
        if rng.random() < 0.5:  # each look at the clock takes a second, so searches give way
            self.engine.turns = Turns(itertools.count().__next__)
        self.batch = Changes()
        for kind, obj in world.objects():
            self._tell(kind, obj)
        self.bases: list[bytes] = []
        self.records: list[bytes] = []

    def cycle(self, number: int) -> None:
        """Take a base, decide, and let something come of it."""
        now = NOW + number
        self.bases.append(take_base(self.state, self.engine, now=now))
        batch, self.batch = self.batch, Changes()
        usage = {self.world.queues[0].metadata.name: (0.0, 0.0, self.rng.random())}
        take_in(self.state, batch)
        result = self.engine.run(self.state, now, usage=usage, hurry=lambda: True)
        self.records.append(write_cycle(batch, result, number=number, version=number, now=now, usage=usage))
        self._carry_out(result, now)
        self._happen(self.rng.randrange(7))

    def _tell(self, kind: Kind, obj: Any) -> None:
        self.batch.objects.setdefault(kind, {})[object_key(obj)] = obj

    def _carry_out(self, result: CycleResult, now: float) -> None:
        """Much of it, and of that not all is told at once."""
        rng, failed = self.rng, set()
        for bind in result.binds:
            chance = rng.random()
            if chance < 0.25:
                failed.add(bind.pod.uid)
                self.batch.reports += [
                    BindFailed(bind.pod.uid),
                    PodRefused(node=bind.node, namespace=bind.pod.namespace, at=now),
                ]
            elif chance < 0.5:
                self.batch.reports.append(BindDone(bind.pod.uid))
        for eviction in result.evictions:
            if rng.random() < 0.25:
                failed.add(eviction.pod.uid)
                self.batch.reports.append(EvictionFailed(eviction.pod.uid, "forbidden", now))
        done = CycleResult(
            binds=tuple(each for each in result.binds if each.pod.uid not in failed),
            evictions=tuple(each for each in result.evictions if each.pod.uid not in failed),
        )
        for pod in advance(self.world, done):
            if rng.random() < 0.7:
                self._tell(Kind.POD, pod)
        for group in annotate(self.world, result):
            if rng.random() < 0.5:
                self._tell(Kind.POD_GROUP, group)

    def _happen(self, what: int) -> None:
        world, rng, objects = self.world, self.rng, self.batch.objects
        match what:
            case 0:
                objects.setdefault(Kind.POD, {})[rng.choice(world.pods).key] = None
            case 1:
                node = rng.choice(world.nodes)
                broken = NodeStatus(allocatable={"cpu": "lots"})
                self._tell(Kind.NODE, msgspec.structs.replace(node, status=broken))
            case 2:
                self._tell(Kind.NODE, rng.choice(world.nodes))
            case 3:
                objects.setdefault(Kind.POD_GROUP, {})[rng.choice(world.groups).key] = Unread("uid", "deep")
            case 4:
                group = rng.choice(world.groups)
                beyond = msgspec.structs.replace(group.spec, min_member=2**40)
                self._tell(Kind.POD_GROUP, msgspec.structs.replace(group, spec=beyond))
            case 5:
                self.batch.reports.append(PodRan(world.nodes[0].metadata.name, "default"))
            case _:
                self.batch.pods_after_relist = frozenset(pod.metadata.uid for pod in world.pods)
