"""Fairness over time: cycle after cycle of the engine, each with the use of those before it.

Every cycle lasts a second. What it decides is done at once: pods that are bound run, and go on until they
are evicted; those that are evicted wait again, as their workloads would create them anew. Then what each
queue holds is recorded, and counts as use in the cycles to come. The same scenario always has the same
course.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.config import DEFAULT_OPTIONS, PluginOption
from kai.engine import Engine, SchedulerConfig
from kai.model.arrays import Floats
from kai.model.decisions import GPU, CycleResult, PodRef, ResourceVector
from kai.model.ids import PodUid
from kai.model.objects import Pod
from kai.simulate.scenario import Scenario
from kai.snapshot.state import ClusterState, Kind

_NOW: Final = 1_800_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What became of a scenario; arrays have the shape ``[cycles, queues]``, queues as in ``names``."""

    scenario: Scenario
    names: tuple[str, ...]
    #: GPUs held at the end of each cycle.
    allocated: Floats
    #: GPUs.
    fair_share: Floats
    #: The part of the cluster's GPUs that was used in the window before each cycle, 0 to 1.
    usage: Floats


def simulate(scenario: Scenario) -> Course:
    """Live through all cycles of a scenario."""
    names = tuple(team.name for team in scenario.teams)
    row = {name: place for place, name in enumerate(names)}
    allocated, fair_share, usage = (np.zeros((scenario.cycles, len(names))) for _ in range(3))
    world = _World(scenario)
    engine = Engine(_config(scenario))
    for cycle in range(scenario.cycles):
        usage[cycle] = used(allocated[:cycle], scenario)
        result = engine.run(world.state, _NOW + cycle, usage=_vectors(names, usage[cycle]))
        world.carry_out(result, cycle)
        for share in result.shares:
            place = row[share.queue]
            allocated[cycle, place], fair_share[cycle, place] = share.allocated[GPU], share.fair_share[GPU]
    return Course(scenario=scenario, names=names, allocated=allocated, fair_share=fair_share, usage=usage)


def used(allocated: Floats, scenario: Scenario) -> Floats:
    """The part of the cluster's GPUs that each queue used in the window that ends now, 0 to 1.

    ``allocated`` has a row of GPUs for each cycle so far; what is older counts less by the half-life.
    """
    history = allocated[-scenario.window :]
    if not len(history) or not scenario.gpus:
        return np.zeros(allocated.shape[1])
    age = np.arange(len(history) - 1, -1, -1) + 0.5
    weight = np.ones(len(history)) if scenario.half_life is None else 0.5 ** (age / scenario.half_life)
    shares: Floats = (weight @ history) / (weight.sum() * scenario.gpus)
    return shares


def _vectors(names: tuple[str, ...], gpus: Floats) -> dict[str, ResourceVector]:
    return {name: (0.0, 0.0, part) for name, part in zip(names, gpus.tolist(), strict=True)}


def _config(scenario: Scenario) -> SchedulerConfig:
    """What is usual, but for how strongly the past counts."""
    return SchedulerConfig(
        plugins=tuple(
            PluginOption(each.name, {**each.arguments, "kValue": repr(scenario.k)})
            if each.name == "proportion"
            else each
            for each in DEFAULT_OPTIONS
        )
    )


class _World:
    """The cluster, with a kubelet and controllers that lose no time."""

    def __init__(self, scenario: Scenario) -> None:
        self._pods: dict[str, Pod] = {}
        self.state = ClusterState()
        self.state.load(self._objects(scenario))

    def carry_out(self, result: CycleResult, cycle: int) -> None:
        """Let everything that was decided happen."""
        for bind in result.binds:
            self._replace(bind.pod, node=bind.node, uid=bind.pod.uid)
            self.state.bind_done(bind.pod.uid)
            self.state.apply(Kind.POD, self._pods[_key(bind.pod)])
        for eviction in result.evictions:
            self.state.remove(Kind.POD, _key(eviction.pod))
            self._replace(eviction.pod, node="", uid=PodUid(f"{_key(eviction.pod)}-{cycle}"))
            self.state.apply(Kind.POD, self._pods[_key(eviction.pod)])

    def _replace(self, ref: PodRef, *, node: str, uid: PodUid) -> None:
        pod = self._pods[_key(ref)]
        self._pods[_key(ref)] = msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(pod.metadata, uid=uid),
            spec=msgspec.structs.replace(pod.spec, node_name=node),
            status=msgspec.structs.replace(pod.status, phase="Running" if node else "Pending"),
        )

    def _objects(self, scenario: Scenario) -> Iterator[tuple[Kind, Any]]:
        for priority in usual_priorities():
            yield Kind.PRIORITY_CLASS, priority
        for number, gpus in enumerate(scenario.nodes):
            yield Kind.NODE, a_node(f"node-{number}", gpus=gpus, pods=10_000)
        for age, team in enumerate(scenario.teams):
            yield (
                Kind.QUEUE,
                a_queue(
                    team.name,
                    parent=team.parent,
                    gpu=team.deserved,
                    weight=team.weight,
                    priority=team.priority,
                    created=_NOW + age - len(scenario.teams),
                ),
            )
        yield from self._work(scenario)

    def _work(self, scenario: Scenario) -> Iterator[tuple[Kind, Any]]:
        for jobs in scenario.jobs:
            for number in range(jobs.count):
                name = f"{jobs.queue}-{number}"
                yield Kind.POD_GROUP, a_group(name, queue=jobs.queue, created=_NOW - jobs.count + number)
                for member in range(jobs.pods):
                    pod = a_pod(f"{name}-{member}", group=name, gpus=jobs.gpus, cpu="0", memory="0")
                    self._pods[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
                    yield Kind.POD, pod


def _key(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"
