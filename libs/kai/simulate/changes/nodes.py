"""Changes of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from kai.model.objects import Node
from kai.simulate import lives
from kai.simulate.changes.change import ChangeRefused, node_of
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import LEAVING

HOSTNAME: Final = "kubernetes.io/hostname"
#: Sorts after every name that a node can have, so that no row of another node moves.
_ADDED: Final = "~{}-{:04}"
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNodes:
    """Add so many nodes that are like one that there is, and empty."""

    like: str
    count: int

    @property
    def text(self) -> str:
        """What to do."""
        return f"add {_counted(self.count)} like {self.like}"

    def command(self, state: ClusterState) -> str | None:
        """None: nodes come from elsewhere."""
        node_of(state, self.like)
        return None

    def make(self, journal: Journal) -> None:
        """Put the nodes, as they would register."""
        obj = node_of(journal.state, self.like).object
        if not 1 <= self.count <= _MOST:
            raise ChangeRefused(f"{self.count} nodes cannot be added; write 1 to {_MOST}")
        known, number = journal.state.nodes.by_name, 0
        for _ in range(self.count):
            while (name := _ADDED.format(self.like, number)) in known:
                number += 1
            journal.put(Kind.NODE, _empty(obj, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNode:
    """Cordon a node and empty it: its pods go, and come back as their owners make them."""

    node: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"drain node {self.node}"

    def command(self, state: ClusterState) -> str | None:
        """The drain."""
        node_of(state, self.node)
        return f"kubectl drain {self.node} --ignore-daemonsets --delete-emptydir-data --force"

    def make(self, journal: Journal) -> None:
        """Cordon the node, and let its pods come back as such that wait."""
        node = node_of(journal.state, self.node)
        spec = msgspec.structs.replace(node.object.spec, unschedulable=True)
        journal.put(Kind.NODE, msgspec.structs.replace(node.object, spec=spec))
        _take_off(journal, [task for task in _pods_on(journal, self.node) if _is_drained(task)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """Take a node away with all that is on it; what has owners comes back elsewhere."""

    node: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"remove node {self.node}"

    def command(self, state: ClusterState) -> str | None:
        """The deletion; whoever runs the machine has to take it away."""
        node_of(state, self.node)
        return f"kubectl delete node {self.node}"

    def make(self, journal: Journal) -> None:
        """Let its pods come back as such that wait, and drop the node."""
        node_of(journal.state, self.node)
        _take_off(journal, _pods_on(journal, self.node))
        journal.drop(Kind.NODE, self.node)


def _empty(like: Node, name: str) -> Node:
    labels = dict(like.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    meta = msgspec.structs.replace(like.metadata, name=name, uid=name, labels=labels)
    return msgspec.structs.replace(like, metadata=meta)


def _pods_on(journal: Journal, node: str) -> list[Task]:
    return sorted(journal.state.on_node.get(node, {}).values(), key=lambda task: task.key)


def _is_drained(task: Task) -> bool:
    """Pods of other schedulers stay, as daemons do, and who leaves has the time that was left to him."""
    return task.job is not None and not LEAVING[task.status]


def _take_off(journal: Journal, tasks: Iterable[Task]) -> None:
    """Delete pods; those that reserve devices for others go with these."""
    state = journal.state
    for task in tasks:
        if task.uid in state.tasks:
            lives.replace(journal, task, now=state.now)


def _counted(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
