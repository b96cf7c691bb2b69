"""GPUs of device plugins on nodes that offer others to resource claims: each in its own number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter, Readiness, Tracker
from kai.model.arrays import Mask
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.nodes import plugin_gpu_names
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_USED

_TOO_FEW: Final = "Insufficient GPUs beside those for resource claims"


class _Step(NamedTuple):
    """What a placement or an eviction changed, on the node of a row."""

    row: int
    claimed: int
    held: int


class DevicePluginGpus(Filter, Readiness, Tracker):
    """Keeps those who ask a device plugin from what is left for claims: the kubelet would refuse them.

    In the amounts of a node both are one, so that queues and searches count them alike. Claims need no such
    limit, for they find their devices one by one.
    """

    def __init__(self, handle: Handle, rows: Sequence[int]) -> None:
        """``rows`` are those of the nodes that offer GPUs in both ways."""
        nodes = handle.nodes.nodes
        self._mixed = np.zeros(len(nodes), dtype=bool)
        self._mixed[list(rows)] = True
        self._names = {row: plugin_gpu_names(nodes[row].object) for row in rows}
        self._any_name = frozenset[str]().union(*self._names.values())
        #: ``[nodes]`` what the device plugins of these nodes have in all; what is taken or promised, but for
        #: what is being released; and what somebody holds, be it being released or not.
        self._offered = np.zeros(len(nodes), dtype=np.int64)
        self._claimed, self._held = np.zeros_like(self._offered), np.zeros_like(self._offered)
        self._log: list[_Step] = []
        for row in rows:
            node = nodes[row]
            self._offered[row] = node.gpus - node.dra_gpus
            for task in node.tasks.values():
                if task.node is node and ACTIVE_USED[task.status]:
                    count = self._count(task, node)
                    self._held[row] += count
                    self._claimed[row] += 0 if task.releasing else count

    def _count(self, task: Task, node: Node) -> int:
        """How many GPUs of the node's device plugin the pod takes there."""
        names = self._names.get(node.row)
        cls = task.cls
        if names is None or cls.kind is not GpuKind.WHOLE or names.isdisjoint(cls.gpu_names):
            return 0
        return cls.devices

    def concerns(self, cls: TaskClass) -> bool:
        """Classes that ask for whole GPUs by a name under which such a node's device plugin offers some."""
        return cls.kind is GpuKind.WHOLE and not self._any_name.isdisjoint(cls.gpu_names)

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes whose device plugin has, or will have, as many as the pod asks for."""
        enough = self._claimed + task.cls.devices <= self._offered
        return np.asarray(enough | ~self._mixed, dtype=bool), _TOO_FEW

    def waits(self, task: Task, node: Node) -> bool:
        """Whether some of them must first be given up."""
        row, count = node.row, self._count(task, node)
        return count > 0 and int(self._held[row]) + count > int(self._offered[row])

    # --- virtual placements ----------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """It takes them, or is promised them."""
        count = self._count(task, node)
        self._change(node.row, claimed=count, held=0 if task.pipelined_node is node else count)

    def evicted(self, task: Task, node: Node) -> None:
        """It is about to give them up."""
        self._change(node.row, claimed=-self._count(task, node), held=0)

    def stays(self, task: Task, node: Node) -> None:
        """It keeps them after all."""
        self._change(node.row, claimed=self._count(task, node), held=0)

    def _change(self, row: int, *, claimed: int, held: int) -> None:
        self._claimed[row] += claimed
        self._held[row] += held
        self._log.append(_Step(row, claimed, held))

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Go back."""
        while len(self._log) > mark:
            step = self._log.pop()
            self._claimed[step.row] -= step.claimed
            self._held[step.row] -= step.held
