"""What of a cluster is drawn once: nodes in their order, the domains that they are in, models, and queues."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kai.live.devices import size
from kai.model import names
from kai.model.objects import Topology
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Queue
from kai.snapshot.state import ClusterState

_DIGITS: Final = re.compile(r"(\d+)")
#: In no domain.
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Domains:
    """A tree: of each domain its level, its name, and the index of the one that it is in, which is lower."""

    level: tuple[str, ...]
    name: tuple[str, ...]
    parent: tuple[int, ...]

    def path(self, domain: int) -> list[str]:
        """Names from the outermost domain on."""
        found: list[str] = []
        while domain != NOWHERE:
            found.append(self.name[domain])
            domain = self.parent[domain]
        return found[::-1]

    def ancestors(self, domain: int) -> Iterable[int]:
        """A domain and those that it is in."""
        while domain != NOWHERE:
            yield domain
            domain = self.parent[domain]


@dataclass(frozen=True, slots=True)
class Structure:
    """Nodes in the order in which they are drawn, in columns, and what their numbers refer to."""

    models: tuple[str, ...]
    domains: Domains
    name: tuple[str, ...]
    domain: tuple[int, ...]
    model: tuple[int, ...]
    gpus: tuple[int, ...]
    #: Queue, display name, its parent's name and its priority; parents before children.
    queues: tuple[tuple[str, str, str, int], ...]


def structure_of(state: ClusterState) -> Structure:
    """That of a state that is settled. Costs time by the number of nodes and queues."""
    keys, levels = _levels(state)
    placed = sorted(
        ((_place(node, keys), natural(node.name), node) for node in state.nodes.nodes),
        key=lambda each: (tuple(map(natural, each[0])), each[1]),
    )
    tree: dict[tuple[str, ...], int] = {}
    columns: tuple[list[str], list[str], list[int]] = ([], [], [])
    for place, _, _ in placed:
        for depth in range(1, len(place) + 1):
            if place[:depth] not in tree:
                tree[place[:depth]] = len(tree)
                columns[0].append(levels[depth - 1])
                columns[1].append(place[depth - 1])
                columns[2].append(tree.get(place[: depth - 1], NOWHERE))
    models: dict[str, int] = {}
    nodes = [node for _, _, node in placed]
    numbers = [models.setdefault(_model(node), len(models)) for node in nodes]
    return Structure(
        models=tuple(models),
        domains=Domains(tuple(columns[0]), tuple(columns[1]), tuple(columns[2])),
        name=tuple(node.name for node in nodes),
        domain=tuple(tree.get(place, NOWHERE) for place, _, _ in placed),
        model=tuple(numbers),
        gpus=tuple(map(size, nodes)),
        queues=tuple(map(_queue, shown(state))),
    )


def shown(state: ClusterState) -> list[Queue]:
    """Queues that exist, parents before children."""
    return [queue for queue in state.queue_rows if queue.exists]


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """For sorting with numbers counted: node-2 comes before node-10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text))


def _queue(queue: Queue) -> tuple[str, str, str, int]:
    parent = queue.parent.name if queue.parent is not None and queue.parent.exists else ""
    return queue.name, queue.display_name, parent, queue.priority


def _levels(state: ClusterState) -> tuple[list[str], list[str]]:
    """Labels and names of the levels by which nodes are told apart: those of the topology of most nodes."""

    def known(topology: Topology) -> int:
        first = topology.spec.levels[0].node_label
        return sum(first in node.object.labels for node in state.nodes.nodes)

    there = [each for each in state.objects[Kind.TOPOLOGY].values() if each.spec.levels]
    if not there:
        return [], []
    chosen = min(there, key=lambda each: (-known(each), each.metadata.name))
    keys = [level.node_label for level in chosen.spec.levels]
    return keys, [level.alias or level.node_label.rpartition("/")[2] for level in chosen.spec.levels]


def _place(node: Node, keys: list[str]) -> tuple[str, ...]:
    """The domains of a node, from the outermost on; a label that it lacks ends them."""
    found: list[str] = []
    for key in keys:
        value = node.object.labels.get(key)
        # The last level is mostly the node itself, which is no domain.
        if value is None or value == node.name:
            break
        found.append(value)
    return tuple(found)


def _model(node: Node) -> str:
    return node.object.labels.get(names.GPU_PRODUCT_LABEL, "")
