"""Made-up clusters as the page sees them: columns of nodes, GPUs, groups and queues."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

FREE: Final = -1
GPUS_OF_NODE: Final = 8
NODES_OF_RACK: Final = 16
RACKS_OF_ZONE: Final = 40
#: Queue, display name, its parent, weight of how much work is in it.
QUEUES: Final = (
    ("research", "Research", "", 0),
    ("vision", "", "research", 5),
    ("speech", "", "research", 3),
    ("language", "", "research", 8),
    ("robotics", "", "research", 1),
    ("product", "Product", "", 0),
    ("ranking", "", "product", 4),
    ("search", "", "product", 3),
    ("advertising", "", "product", 2),
    ("assistants", "", "product", 4),
    ("platform", "Platform", "", 0),
    ("notebooks", "", "platform", 1),
    ("continuous-integration", "", "platform", 1),
)
_WORK: Final = ("pretrain", "finetune", "sweep", "eval", "distill", "serve", "embed", "preprocess")
_MODELS: Final = ("atlas", "birch", "comet", "delta", "ember", "fjord", "grove", "heron")
_KINDS: Final = ("Job", "PyTorchJob", "RayJob", "LeaderWorkerSet", "Deployment", "JobSet")
_USERS: Final = ("amara", "bo", "chen", "dilan", "eva", "farid", "grace", "hiro")
_SIZES: Final = (1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 16, 32, 64)
_PORTIONS: Final = ((50, 50), (50, 25), (30, 30, 30), (25, 25, 25, 25), (40,), (70, 30))


@dataclass(slots=True)
class Group:
    """Something that holds GPUs."""

    key: int
    queue: int
    namespace: str
    name: str
    workload: str
    user: str
    gpus: float
    state: int = 0

    @property
    def said(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "namespace": self.namespace,
            "name": self.name,
            "workload": self.workload,
            "user": self.user,
            "queue": QUEUES[self.queue][0],
        }


@dataclass(slots=True)
class World:
    """One cluster at one moment. ``slots``: the devices of each node in turn, as the page reads them."""

    nodes: list[str]
    gpus: list[int]
    domain: list[int]
    state: list[int]
    domains: dict[str, list[Any]]
    slots: list[int]
    shared: list[list[list[int]]]
    groups: list[Group]
    waiting: list[dict[str, Any]]
    hidden: int = 0
    #: What keys of groups mean is said by this word and them together.
    numbering: str = "first"
    random: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def used(self) -> float:
        whole = sum(slot >= 0 for slot in self.slots)
        return whole + sum(
            share[1] / 100 for slot in self.slots if slot <= -2 for share in self.shared[-2 - slot]
        )

    def offset(self, node: int) -> int:
        """Where the devices of a node begin."""
        return sum(self.gpus[:node])

    def of_node(self, node: int) -> list[Any]:
        """The devices of a node, with the parts of those that are shared."""
        first = self.offset(node)
        return [
            slot if slot >= FREE else self.shared[-2 - slot]
            for slot in self.slots[first : first + self.gpus[node]]
        ]


def make(gpus: int, *, seed: int = 7, names: Sequence[str] = (), full: float = 0.9) -> World:
    """A world of so many GPUs. ``names`` are given to what has a name, in turn, where there are any."""
    chance = random.Random(seed)
    count = -(-gpus // GPUS_OF_NODE) if gpus else 0
    sizes = [min(GPUS_OF_NODE, gpus - GPUS_OF_NODE * node) for node in range(count)]
    called = _names(names)
    domains = _domains(count, called)
    racks = [at for at, parent in enumerate(domains["parent"]) if parent >= 0]
    world = World(
        nodes=[called(f"gpu-{node + 1}") for node in range(count)],
        gpus=sizes,
        domain=[racks[node // NODES_OF_RACK] for node in range(count)],
        state=[_state(chance) if count > 4 else 0 for _ in range(count)],
        domains=domains,
        slots=[FREE] * gpus,
        shared=[],
        groups=[],
        waiting=[],
        random=chance,
    )
    _fill(world, full, called)
    return world


def _names(given: Sequence[str]) -> Any:
    turn: Iterator[int] = iter(range(10**9))

    def called(usual: str) -> str:
        return f"{given[next(turn) % len(given)]} {usual}" if given else usual

    return called


def _domains(nodes: int, called: Any) -> dict[str, list[Any]]:
    domains: dict[str, list[Any]] = {"level": [], "name": [], "parent": []}
    racks = -(-nodes // NODES_OF_RACK)
    zone = -1
    for rack in range(racks):
        if rack % RACKS_OF_ZONE == 0:
            zone = len(domains["name"])
            domains["level"].append("zone")
            domains["name"].append(called(f"zone-{chr(97 + rack // RACKS_OF_ZONE)}"))
            domains["parent"].append(-1)
        domains["level"].append("rack")
        domains["name"].append(called(f"rack-{rack + 1}"))
        domains["parent"].append(zone)
    return domains


def _state(chance: random.Random) -> int:
    return chance.choices((0, 1, 2, 3), (96, 2, 1, 1))[0]


def _fill(world: World, full: float, called: Any) -> None:
    """Gangs side by side, with holes between, and devices that several share."""
    chance, place = world.random, 0
    weights = [queue[3] for queue in QUEUES]
    while place < len(world.slots):
        if chance.random() > full:
            place += chance.randint(1, 5)
            continue
        queue = chance.choices(range(len(QUEUES)), weights)[0]
        if chance.random() < 0.06:
            parts = [[new_group(world, queue, part / 100, called), part] for part in chance.choice(_PORTIONS)]
            world.shared.append(parts)
            world.slots[place] = -1 - len(world.shared)
            place += 1
            continue
        size = chance.choice(_SIZES)
        if size >= GPUS_OF_NODE and place % GPUS_OF_NODE:
            place += GPUS_OF_NODE - place % GPUS_OF_NODE
        size = min(size, len(world.slots) - place)
        if size > 0:
            group = new_group(world, queue, size, called)
            world.slots[place : place + size] = [group] * size
        place += size


def new_group(world: World, queue: int, gpus: float, called: Any = None) -> int:
    """Its index."""
    chance, index = world.random, len(world.groups)
    work = f"{chance.choice(_MODELS)}-{chance.choice(_WORK)}"
    name = f"{called(work) if called else work}-{index + 100}"
    world.groups.append(
        Group(
            key=index + 1,
            queue=queue,
            namespace=f"team-{QUEUES[queue][0]}",
            name=f"pg-{name}",
            workload=f"{chance.choice(_KINDS)}/{name}",
            user=chance.choice(_USERS),
            gpus=gpus,
            state=chance.choices((0, 1, 2, 3), (92, 4, 2, 2))[0],
        )
    )
    return index


def queues_of(world: World) -> dict[str, Any]:
    """The columns of queues, with sums of what their groups hold."""
    names = [queue[0] for queue in QUEUES]
    parents = [names.index(queue[2]) if queue[2] else -1 for queue in QUEUES]
    held = [0.0] * len(QUEUES)
    for slot in world.slots:
        if slot >= 0:
            held[world.groups[slot].queue] += 1
        elif slot <= -2:
            for group, part in world.shared[-2 - slot]:
                held[world.groups[group].queue] += part / 100
    waits, gpus = [0] * len(QUEUES), [0.0] * len(QUEUES)
    for row in world.waiting:
        at = names.index(row["queue"])
        waits[at] += 1
        gpus[at] += row["gpus"]
    total = max(1, len(world.slots))
    weight = sum(queue[3] for queue in QUEUES)
    quota = [float(round(total * queue[3] / weight * 0.8)) for queue in QUEUES]
    for sums in (held, waits, gpus, quota):
        for at, parent in enumerate(parents):
            if parent >= 0:
                sums[parent] += sums[at]
    asked = [round(one + other, 2) for one, other in zip(held, gpus, strict=True)]
    share = [
        round(min(max(one * 1.2, 1), max(other, one)), 2) for one, other in zip(quota, asked, strict=True)
    ]
    limit = [
        -1.0 if parent < 0 or at % 3 else round(each * 1.5)
        for at, (each, parent) in enumerate(zip(quota, parents, strict=True))
    ]
    gpu = {
        "quota": quota,
        "limit": limit,
        "fairShare": share,
        "allocated": [round(each, 2) for each in held],
        "requested": asked,
    }
    return {
        "name": names,
        "displayName": [queue[1] for queue in QUEUES],
        "parent": parents,
        "priority": [100] * len(QUEUES),
        "gpu": gpu,
        "cpu": {key: [each if each < 0 else each * 12_000 for each in column] for key, column in gpu.items()},
        "memory": {
            key: [each if each < 0 else each * 120 * 2**30 for each in column] for key, column in gpu.items()
        },
        "waitingGroups": waits,
        "waitingGpus": gpus,
    }
