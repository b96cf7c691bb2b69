"""What is told of a cluster, in the form that it has as JSON.

Amounts are thousandths of CPUs, bytes and GPUs; -1 is unlimited. Times are Unix seconds. What is in columns
has lists of one length, an entry for each.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

#: A device: -1 free; 0 and more: all of it a group's, by index; else its parts, ``[group, percent]`` each.
Slot: TypeAlias = int | list[list[int]]


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base: camelCase in JSON."""


class DomainColumns(Told, frozen=True, kw_only=True):
    """The topology; a domain comes after the one that it is in (-1: in none)."""

    level: tuple[str, ...]
    name: tuple[str, ...]
    parent: tuple[int, ...]


class NodeColumns(Told, frozen=True, kw_only=True):
    """Nodes as they are drawn. State: 0 ready, 1 cordoned, 2 not ready, 3 set aside by the scheduler."""

    name: tuple[str, ...]
    domain: tuple[int, ...]
    model: tuple[int, ...]
    gpus: tuple[int, ...]
    state: list[int]


class GroupColumns(Told, frozen=True, kw_only=True):
    """Holders. State: 0 running, 1 starting, 2 being released, 3 part of it waits. Key 0: all hidden."""

    queue: list[int]
    state: list[int]
    key: list[int]


class AmountColumns(Told, frozen=True, kw_only=True):
    """Of one resource, for each queue."""

    quota: list[float]
    limit: list[float]
    fair_share: list[float]
    allocated: list[float]
    requested: list[float]


class QueueColumns(Told, frozen=True, kw_only=True):
    """Queues, parents before children (-1: no parent). What waits counts in all queues above."""

    name: list[str]
    display_name: list[str]
    parent: list[int]
    priority: list[int]
    gpu: AmountColumns
    cpu: AmountColumns
    memory: AmountColumns
    waiting_groups: list[int]
    waiting_gpus: list[float]


class Lacks(Told, frozen=True, kw_only=True):
    """What waits in all."""

    groups: int
    gpus: float


class Hidden(Told, frozen=True, kw_only=True):
    """Pod groups that somebody may not see, and the namespaces that they are in."""

    groups: int
    namespaces: int


class Frame(Told, frozen=True, kw_only=True):
    """All of a cluster. A slot of -2 - k has the parts ``shared[k]``; those of group -1 are hidden.

    Keys of groups mean the same groups wherever ``numbering`` is the same, and others elsewhere.
    """

    shard: str
    version: str
    numbering: str
    at: float
    models: tuple[str, ...]
    domains: DomainColumns
    nodes: NodeColumns
    slots: list[int]
    shared: list[list[list[int]]]
    groups: GroupColumns
    queues: QueueColumns
    waiting: Lacks
    hidden: Hidden


class Change(Told, frozen=True, kw_only=True):
    """What is otherwise than before: ``[index, state, slots]``, and ``[index, queue, state, key]``."""

    version: str
    at: float
    nodes: list[tuple[int, int, list[Slot]]]
    groups: list[tuple[int, int, int, int]]
    queues: QueueColumns | None
    waiting: Lacks
    hidden: Hidden


class NamedGroup(Told, frozen=True, kw_only=True):
    """Who a key is."""

    key: int
    namespace: str
    name: str
    workload: str
    user: str
    queue: str


class NamedGroups(Told, frozen=True, kw_only=True):
    """Those of the keys that are known and may be seen; ``numbering`` as in a frame."""

    numbering: str
    items: list[NamedGroup]
    hidden: int


class Found(Told, frozen=True, kw_only=True):
    """A queue, node or group (``kind``) of which the name was looked for."""

    kind: str
    namespace: str
    name: str
    node: int | None
    key: int | None


class Findings(Told, frozen=True, kw_only=True):
    """What was found."""

    items: list[Found]
    more: bool


class Offer(Told, frozen=True, kw_only=True):
    """Of one resource, what a node has and what of it is taken."""

    offered: int
    allocated: int


class PodOnNode(Told, frozen=True, kw_only=True):
    """A pod, and where on its node it sits; ``portion`` of a device that it shares."""

    namespace: str
    name: str
    pod_group: str
    queue: str
    gpus: float
    devices: list[int]
    portion: float | None
    state: str
    since: float
    preemptible: bool


class NodeTold(Told, frozen=True, kw_only=True):
    """One node."""

    name: str
    state: int
    why: str
    domain: list[str]
    model: str
    gpus: int
    gpus_used: float
    taints: list[str]
    cpu: Offer
    memory: Offer
    hidden: int
    pods: list[PodOnNode]


class DomainSlots(Told, frozen=True, kw_only=True):
    """Room in one domain, by its index in the frame."""

    index: int
    slots: list[int]


class Slots(Told, frozen=True, kw_only=True):
    """How many pods of so many GPUs (``shapes``) find room."""

    shapes: tuple[int, ...]
    all: list[int]
    domains: list[DomainSlots]


class Place(Told, frozen=True, kw_only=True):
    """Where a group stands in its queue."""

    ahead: int
    of: int


class GroupRow(Told, frozen=True, kw_only=True):
    """A pod group. Amounts are those of all its pods that have not ended; no verdict where none was found."""

    namespace: str
    name: str
    workload: str
    user: str
    queue: str
    created: float
    waiting_since: float | None
    pods: int
    running: int
    min_member: int
    gpus: float
    cpu_millis: int
    memory_bytes: int
    priority: int
    preemptible: bool
    verdict: str
    code: str
    text: str
    position: Place | None


class Waiting(Told, frozen=True, kw_only=True):
    """Groups that wait; how many of those that match there are, by verdict and by code of the reason."""

    items: list[GroupRow]
    more: bool
    hidden: int
    total: int
    verdicts: dict[str, int]
    codes: dict[str, int]


class PodOfGroup(Told, frozen=True, kw_only=True):
    """A pod of a workload."""

    name: str
    state: str
    node: str
    devices: list[int]
    gpus: float
    since: float
    sub_group: str
