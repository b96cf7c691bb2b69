"""Random clusters with queues and work, for tests of what must hold whatever is decided.

Everything that runs in them fits on its node and its devices; queues may hold more than their limit and
quota, as after a change of these.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.model import names
from kai.model.objects import (
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    Queue,
    SubGroup,
    Taint,
    Toleration,
    Topology,
    TopologyConstraint,
    TopologyLevel,
    TopologySpec,
)
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0
TOPOLOGY = "fabric"
LEVELS = ("zone", "rack")
_PRIORITIES = ("train", "train", "train", "build-preemptible", "build", "inference")
#: Which one of six groups is semi-preemptible.
_SEMI_PREEMPTIBLE = 2
_NODE_MEMORY_GB = 64
_NO_GROUPS: tuple[str, ...] = ()


@dataclass(slots=True, repr=False)
class World:
    """Objects of a cluster, as an API server would list them."""

    nodes: list[Node] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def objects(self) -> list[tuple[Kind, Any]]:
        """All of them, in an order in which they may arrive."""
        levels = [TopologyLevel(node_label=label) for label in LEVELS]
        topology = Topology(metadata=ObjectMeta(name=TOPOLOGY), spec=TopologySpec(levels=levels))
        return [
            *((Kind.PRIORITY_CLASS, each) for each in usual_priorities()),
            (Kind.TOPOLOGY, topology),
            *((Kind.NODE, each) for each in self.nodes),
            *((Kind.QUEUE, each) for each in self.queues),
            *((Kind.POD_GROUP, each) for each in self.groups),
            *((Kind.POD, each) for each in self.pods),
        ]

    def __repr__(self) -> str:
        """How large it is; a report that shows it all has no room for anything else."""
        sizes = f"{len(self.nodes)} nodes, {len(self.queues)} queues, {len(self.groups)} groups"
        return f"<world of {sizes}, {len(self.pods)} pods>"

    def __str__(self) -> str:
        """All objects as YAML, for a report."""
        found = [msgspec.to_builtins(obj) for obj in (*self.nodes, *self.queues, *self.groups, *self.pods)]
        return yaml.safe_dump_all(found, default_flow_style=None, width=160)

    def state(self) -> ClusterState:
        """The cluster as the engine takes it."""
        found = ClusterState()
        for kind, obj in self.objects():
            found.apply(kind, obj)
        return found


def a_world(rng: random.Random) -> World:
    """A small cluster of whatever is drawn; a simple one where draws are low."""
    world = World()
    free: dict[str, _Free] = {}
    for number in range(rng.randint(1, 6)):
        node = _node(rng, number)
        world.nodes.append(node)
        free[node.metadata.name] = _Free(node)
        if rng.random() < 0.15:
            world.pods.extend(_left_over(free[node.metadata.name]))
    leaves = _queues(rng, world)
    for number in range(rng.randint(1, 14)):
        _job(rng, world, f"job-{number:02}", rng.choice(leaves), free)
    return world


def _node(rng: random.Random, number: int) -> Node:
    gpus, cpu = rng.choice([4, 2, 8, 1, 0]), rng.choice([16, 4, 64])
    node = a_node(
        f"node-{number}",
        gpus=gpus,
        cpu=str(cpu),
        memory=f"{_NODE_MEMORY_GB}G",
        pods=rng.choice([110, 110, 110, 4]),
        gpu_memory_mib=rng.choice([16_000, 16_000, 40_000]) if gpus else 0,
        labels={"zone": f"z{number % 2}", "rack": f"r{number % 4}", "pool": rng.choice(["a", "b"])},
        ready=rng.random() < 0.95,
    )
    if rng.random() < 0.1:
        node.spec = msgspec.structs.replace(
            node.spec, taints=[Taint(key="dedicated", value="x", effect="NoSchedule")]
        )
    if rng.random() < 0.05:
        node.spec = msgspec.structs.replace(node.spec, unschedulable=True)
    return node


def _queues(rng: random.Random, world: World) -> list[str]:
    """A tree of up to three levels; returns the names of its leaves."""
    leaves: list[str] = []

    def add(name: str, parent: str, depth: int) -> None:
        inner = depth < 2 and (depth == 0 or rng.random() < 0.25)
        queue = a_queue(
            name,
            parent=parent,
            gpu=rng.choice([-1, 8, 4]) if inner else rng.choice([1, 2, 0, 4, -1]),
            weight=rng.choice([1, 0, 2]),
            limit=rng.choice([-1, -1, -1, 6, 2]),
            cpu=rng.choice([-1, -1, 4_000]),
            priority=rng.choice([None, None, None, 200]),
            created=float(len(world.queues)),
            reclaim_min_runtime=rng.choice([None, None, None, "30m"]),
            preempt_min_runtime=rng.choice([None, None, None, "30m"]),
        )
        if rng.random() < 0.15 and queue.spec.resources is not None:
            queue.spec.resources.cpu.limit = rng.choice([8_000.0, 20_000.0])
        if rng.random() < 0.15 and queue.spec.resources is not None:
            queue.spec.resources.memory.quota = rng.choice([4_000.0, 0.0, 16_000.0])
            queue.spec.resources.memory.limit = rng.choice([-1.0, 16_000.0, 40_000.0])
        world.queues.append(queue)
        if not inner:
            leaves.append(name)
            return
        for number in range(rng.randint(1, 3)):
            add(f"{name}-{number}", name, depth + 1)

    for number in range(rng.randint(1, 2)):
        add(f"q{number}", "", 0)
    return leaves


@dataclass(slots=True)
class _Shape:
    """What each pod of a job asks for."""

    gpus: int = 0
    fraction: float = 0.0
    gpu_memory_mib: int = 0
    devices: int = 0
    cpu: int = 1
    memory_gb: int = 1


def _shape(rng: random.Random) -> _Shape:
    cpu, memory = rng.choice([1, 1, 2, 6]), rng.choice([1, 1, 8])
    kind = rng.random()
    if kind < 0.6:
        return _Shape(gpus=rng.choice([1, 1, 2, 4]), cpu=cpu, memory_gb=memory)
    if kind < 0.8:
        return _Shape(fraction=rng.choice([0.5, 0.3, 0.25]), devices=rng.choice([0, 0, 2]), cpu=1)
    if kind < 0.87:
        return _Shape(gpu_memory_mib=rng.choice([4_000, 8_000, 20_000]), cpu=1)
    return _Shape(cpu=cpu, memory_gb=memory)


class _Free:
    """What of a node is still free while the world is made."""

    def __init__(self, node: Node) -> None:
        allocatable = node.status.allocatable or {}
        self.name = node.metadata.name
        self.gpu_memory_mib = int(node.labels.get("nvidia.com/gpu.memory", "0"))
        self.cpu = int(allocatable["cpu"])
        self.memory = _NODE_MEMORY_GB
        self.pods = int(allocatable["pods"])
        self.gpus = int(allocatable.get("nvidia.com/gpu", "0"))
        self.groups: dict[str, float] = defaultdict(float)

    def take(self, shape: _Shape) -> tuple[str, ...] | None:
        """Shared devices for a pod that fits, none of them for whole ones; None if it does not fit."""
        portion, devices = shape.fraction, max(shape.devices, 1)
        if shape.gpu_memory_mib and self.gpu_memory_mib:
            portion = shape.gpu_memory_mib / self.gpu_memory_mib
        shared = bool(shape.fraction or shape.gpu_memory_mib)
        if self.cpu < shape.cpu or self.memory < shape.memory_gb or self.pods < 1 or self.gpus < shape.gpus:
            return None
        groups: list[str] = []
        if shared:
            if not self.gpu_memory_mib or portion > 1:
                return None
            groups = [name for name, used in self.groups.items() if used + portion <= 1][:devices]
            fresh = devices - len(groups)
            if fresh > self.gpus:
                return None
            self.gpus -= fresh
            groups += [f"{self.name}-g{len(self.groups) + number}" for number in range(fresh)]
            for name in groups:
                self.groups[name] += portion
        self.cpu, self.memory, self.pods = self.cpu - shape.cpu, self.memory - shape.memory_gb, self.pods - 1
        self.gpus -= shape.gpus
        return tuple(groups)


def _left_over(free: _Free) -> Iterator[Pod]:
    """A reservation pod whose device nobody uses any more, or yet."""
    if free.gpus and free.gpu_memory_mib and free.pods > 1:
        free.gpus -= 1
        free.pods -= 1
        yield a_pod(
            f"spare-{free.name}", node=free.name, gpus=1, cpu="0", memory="0", groups=(f"{free.name}-spare",),
            namespace=names.RESERVATION_NAMESPACE, scheduler="",
            labels={names.APP_LABEL: names.RESERVATION_APP},
        )  # fmt: skip


def _job(rng: random.Random, world: World, name: str, queue: str, free: dict[str, _Free]) -> None:
    shape, members = _shape(rng), rng.choice([1, 1, 2, 2, 3, 4])
    running = rng.random() < 0.5
    # Not drawn, as below: subgroups of each second job need all of their pods.
    needed = members // 2 if len(world.groups) % 2 else 1
    sub_groups, leaves, min_sub_group = _tree(rng, members, needed=needed)
    constraint = None
    if rng.random() < 0.15:
        level = rng.choice(LEVELS)
        constraint = TopologyConstraint(
            topology=TOPOLOGY, required_topology_level=level if rng.random() < 0.6 else "",
            preferred_topology_level=level,
        )  # fmt: skip
    group = a_group(
        name,
        queue=queue,
        min_member=rng.randint(1, members),
        priority=rng.choice(_PRIORITIES),
        created=NOW - 1000 + len(world.groups),
        started=NOW - rng.choice([100, 4000]) if running else 0,
        sub_groups=sub_groups,
        min_sub_group=min_sub_group,
        topology=constraint,
        preemption_delay="2h" if rng.random() < 0.05 else None,
        # Not drawn, so that the other draws mean what they meant before.
        preemptibility="semi-preemptible" if len(world.groups) % 6 == _SEMI_PREEMPTIBLE else "",
    )
    world.groups.append(group)
    spec = _constraints(rng)
    for number in range(members):
        node, groups = "", _NO_GROUPS
        if running and not spec and constraint is None and rng.random() < 0.85:
            node, groups = _place(free, shape)
        world.pods.append(
            a_pod(
                f"{name}-{number}", group=name, gpus=shape.gpus, fraction=shape.fraction,
                gpu_memory_mib=shape.gpu_memory_mib, devices=shape.devices, cpu=str(shape.cpu),
                memory=f"{shape.memory_gb}G", node=node, groups=groups,
                sub_group=leaves[number % len(leaves)] if leaves else "",
                deleted=NOW - rng.choice([5, 5, 500]) if node and rng.random() < 0.1 else 0,
                gated=not node and rng.random() < 0.03, spec=spec, created=NOW - 1000 + number,
                labels={"team": rng.choice(["x", "y"])},
            )
        )  # fmt: skip


def _tree(
    rng: random.Random, members: int, *, needed: int
) -> tuple[list[SubGroup] | None, list[str], int | None]:
    """Subgroups, the leaves that pods name, and how many of the top ones are needed."""
    if members < 2 or rng.random() < 0.75:
        return None, [], None
    if rng.random() < 0.6:
        found = [SubGroup(name="a", min_member=needed), SubGroup(name="b", min_member=needed)]
        return found, ["a", "b"], 1 if rng.random() < 0.3 else None
    found = [
        SubGroup(name="top"),
        SubGroup(name="a", parent="top", min_member=needed),
        SubGroup(name="b", parent="top", min_member=needed),
    ]
    return found, ["a", "b"], None


def _constraints(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    drawn = rng.random()
    if drawn < 0.08:
        found["node_selector"] = {"pool": rng.choice(["a", "b"])}
    elif drawn < 0.14:
        found["tolerations"] = [Toleration(key="dedicated", operator="Exists")]
    elif drawn < 0.2:
        term = {"labelSelector": {"matchLabels": {"team": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        found["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return found


def _place(free: dict[str, _Free], shape: _Shape) -> tuple[str, tuple[str, ...]]:
    for name, node in free.items():
        groups = node.take(shape)
        if groups is not None:
            return name, groups
    return "", ()
