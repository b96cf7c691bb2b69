"""What tasks hold of nodes, and what they are promised there.

What a shared device counts against its node says :class:`~kai.snapshot.amounts.SharedDevice`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kai.model.ids import GpuGroup
from kai.snapshot.amounts import SharedClaim, SharedDevice
from kai.snapshot.classes import TaskClass
from kai.snapshot.resources import GPU, PODS
from kai.snapshot.rows import Node, Task
from kai.snapshot.table import NodeTable

#: Half of what a sum can hold; pods that are not vast cannot use up the other half.
_WIDEST: Final = 1 << 62


class NodeHolds:
    """Takes what tasks hold from what nodes have idle, or are releasing."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        #: By class the row of each task's node, of whose idle ones it has its own; while deferred.
        self._late: dict[TaskClass, list[int]] | None = None

    def bears(self, task: Task, node: Node) -> bool:
        """Whether a node's sums, which are 64 bits wide, can take another pod that asks for the absurd.

        Enters first what was deferred, so it is a question for classes that are ``vast`` only.
        """
        if self._late is not None:
            self.enter_deferred()
            self.defer()
        idle, row = self.nodes.cells_idle, node.row
        return all(idle[row, column] - amount > -_WIDEST for column, amount in task.cls.items)

    def hold(self, task: Task, node: Node, groups: tuple[GpuGroup, ...], *, releasing: bool) -> None:
        """The task takes its resources from a node's idle ones; they are being released if so said.

        Before: it holds nothing. After: what the node offers of all that it asks for is idle no more, each of
        the shared devices ``groups`` has a part of it, one for each device, and each of its GPU claims a user
        more. Nothing is checked: idle amounts may be negative afterwards. Status and queue are not touched.
        """
        cls = task.cls
        task.node, task.groups, task.releasing = node, groups, releasing
        node.tasks[task.uid] = task
        if cls.legacy_mig:
            node.legacy_mig += 1
        late = self._late
        if late is not None and not (
            releasing or cls.vast or (task.facts is not None and task.facts.reservation)
        ):
            rows = late.get(cls)
            if rows is None:
                rows = late[cls] = []
            rows.append(node.row)
        else:
            self._items(task, node, self.nodes.cells_idle, -1)
            self.nodes.touched.append(node.row)
        if releasing:
            self._items(task, node, self.nodes.cells_releasing, 1)
        if groups:
            size = task.cls.part_mib(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, held_mib=size, releasing_mib=size if releasing else 0)
        for claim, gpus in task.claims:
            self.claim(node, claim, gpus, users=1, releasing=1 if releasing else 0)

    def hold_all(self, tasks: Sequence[Task], nodes: Sequence[Node | None]) -> None:
        """:meth:`hold` for each of many tasks, with its node, or None where it holds nothing.

        Before: it is deferred. None of them is being released, stands for a device or has a vast class; the
        shared devices that they have are those that their pods name.
        """
        late = self._late
        assert late is not None
        for task, node in zip(tasks, nodes, strict=True):
            if node is None:
                continue
            cls = task.cls
            if cls.shared or cls.legacy_mig:
                self.hold(
                    task, node, task.facts.group_ids if task.facts and cls.shared else (), releasing=False
                )
                continue
            task.node, task.releasing = node, False
            node.tasks[task.uid] = task
            rows = late.get(cls)
            if rows is None:
                rows = late[cls] = []
            rows.append(node.row)

    def unhold(self, task: Task) -> None:
        """The inverse of :meth:`hold`.

        Before: it holds something. What is promised to it, there or elsewhere, stays promised.
        """
        node, groups, releasing = task.node, task.groups, task.releasing
        assert node is not None
        node.legacy_mig -= task.cls.legacy_mig
        self._items(task, node, self.nodes.cells_idle, 1)
        if releasing:
            self._items(task, node, self.nodes.cells_releasing, -1)
        if groups:
            size = task.cls.part_mib(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, held_mib=-size, releasing_mib=-size if releasing else 0)
        for claim, gpus in task.claims:
            self.claim(node, claim, gpus, users=-1, releasing=-1 if releasing else 0)
        if task.pipelined_node is not node:
            del node.tasks[task.uid]
        task.node, task.groups, task.releasing = None, (), None
        self.nodes.touched.append(node.row)

    def set_releasing(self, task: Task, *, releasing: bool) -> None:
        """Begin to release what a task holds, or stop to.

        What is being released is not idle yet. Nothing changes where the row says so already, or holds
        nothing.
        """
        node = task.node
        if node is None or task.releasing is releasing:
            task.releasing = None if node is None else releasing
            return
        task.releasing = releasing
        sign = 1 if releasing else -1
        self._items(task, node, self.nodes.cells_releasing, sign)
        if task.groups:
            size = sign * task.cls.part_mib(node.gpu_memory_mib)
            for group in task.groups:
                self._share(node, group, releasing_mib=size)
        for claim, gpus in task.claims:
            self.claim(node, claim, gpus, releasing=sign)
        self.nodes.touched.append(node.row)

    def pipeline(self, task: Task, node: Node, groups: tuple[GpuGroup, ...]) -> None:
        """The task is promised resources that are being released.

        Before: nothing is promised to it; it may hold something, there or elsewhere. Nothing is checked:
        where idle resources are promised as well, the releasing amounts are negative afterwards.
        """
        task.pipelined_node, task.pipelined_groups = node, groups
        node.tasks[task.uid] = task
        self._items(task, node, self.nodes.cells_releasing, -1)
        if groups:
            size = task.cls.part_mib(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, pipelined_mib=size)
        for claim, gpus in task.claims:
            self.claim(node, claim, gpus, pipelined=1)
        self.nodes.touched.append(node.row)

    def unpipeline(self, task: Task) -> None:
        """The inverse of :meth:`pipeline`.

        Before: something is promised to it. What it holds it goes on to hold.
        """
        node, groups = task.pipelined_node, task.pipelined_groups
        assert node is not None
        self._items(task, node, self.nodes.cells_releasing, 1)
        if groups:
            size = task.cls.part_mib(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, pipelined_mib=-size)
        for claim, gpus in task.claims:
            self.claim(node, claim, gpus, pipelined=-1)
        if task.node is not node:
            del node.tasks[task.uid]
        task.pipelined_node, task.pipelined_groups = None, ()
        self.nodes.touched.append(node.row)

    def reserve(self, node: Node, groups: tuple[GpuGroup, ...], *, count: int) -> None:
        """That many reservation pods more, or fewer, stand for each of the groups.

        While nobody has a part of such a device, it is one whole GPU that is not idle and is being released.
        """
        for group in groups:
            self._share(node, group, reservation_pods=count)
        self.nodes.touched.append(node.row)

    def defer(self) -> None:
        """Take nothing from nodes until :meth:`enter_deferred`; meanwhile nobody may read sums."""
        self._late = {}

    def enter_deferred(self) -> None:
        """Enter what was deferred, and defer no more."""
        late, self._late = self._late, None
        assert late is not None
        offered, idle, touched = self.nodes.cells_allocatable, self.nodes.cells_idle, self.nodes.touched
        for cls, rows in late.items():
            for row, count in Counter(rows).items():
                for column, amount in cls.items:
                    if offered[row, column] > 0:
                        idle[row, column] -= amount * count
                touched.append(row)

    def _items(self, task: Task, node: Node, cells: Any, sign: int) -> None:
        row, offered = node.row, self.nodes.cells_allocatable
        # The GPU of a reservation pod counts as the shared device that it stands for.
        reserves = task.facts is not None and task.facts.reservation
        for column, amount in task.cls.items:
            if offered[row, column] > 0 and not (reserves and column == GPU):
                cells[row, column] += sign * amount

    def _share(
        self,
        node: Node,
        group: GpuGroup,
        *,
        held_mib: int = 0,
        releasing_mib: int = 0,
        pipelined_mib: int = 0,
        reservation_pods: int = 0,
    ) -> None:
        """So much more of a shared device, or less, is held, being released and promised."""
        device = node.groups.get(group)
        if device is None:
            device = node.groups[group] = SharedDevice()
            self.nodes.sharing[node.name] = node
        gpus, slots = device.whole_gpus(), device.slots()
        device.held_mib += held_mib
        device.releasing_mib += releasing_mib
        device.pipelined_mib += pipelined_mib
        device.reservation_pods += reservation_pods
        self._whole(node, GPU, gpus, device.whole_gpus())
        if self.nodes.cells_allocatable[node.row, PODS] > 0:
            self._whole(node, PODS, slots, device.slots())
        if device.unused and not device.reservation_pods:
            del node.groups[group]
            if not node.groups:
                del self.nodes.sharing[node.name]

    def claim(
        self, node: Node, key: str, gpus: int, *, users: int = 0, releasing: int = 0, pipelined: int = 0
    ) -> None:
        """So many users more, or fewer, hold a claim of GPUs, release it and were promised it.

        Its ``gpus`` are charged to the node once for all of them.
        """
        claim = node.claims.get(key)
        if claim is None:
            claim = node.claims[key] = SharedClaim(gpus=gpus)
        before = claim.whole_gpus()
        claim.users += users
        claim.releasing_users += releasing
        claim.pipelined_users += pipelined
        self._whole(node, GPU, before, claim.whole_gpus())
        if not claim.users and not claim.pipelined_users:
            del node.claims[key]

    def _whole(self, node: Node, column: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        if after != before:
            self.nodes.cells_idle[node.row, column] += after[0] - before[0]
            self.nodes.cells_releasing[node.row, column] += after[1] - before[1]
