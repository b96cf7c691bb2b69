"""NUMA alignment: the rules are in :mod:`kai.engine.numa`; here they meet tasks and statements."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from kai.config.plugin_table import NumaArguments
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import NodeFilter, Plugin, Readiness, Scorer, Tracker
from kai.engine.numa.ledger import NumaLedger
from kai.engine.numa.request import NumaRequest, numa_request
from kai.engine.numa.topology import ZoneAllocation
from kai.model import quantity
from kai.model.arrays import Floats, Mask
from kai.model.decisions import NO_ALLOTMENT, Allotment
from kai.model.ids import PodUid
from kai.model.numa import NodeResourceTopology
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Node, Task
from kai.snapshot.state import Kind
from kai.snapshot.status import ACTIVE_USED, Status

#: Of those that hold something, who is on the node already.
_THERE: Final = frozenset({Status.BOUND, Status.RUNNING, Status.STUCK_IN_RELEASING, Status.LINGERING})
_NOBODY: Final[Mapping[PodUid, ZoneAllocation]] = {}


class _Step(NamedTuple):
    """What was so before a pod was placed or evicted."""

    mark: int
    uid: PodUid
    held: tuple[str, ZoneAllocation] | None
    allotment: Allotment | None
    node: str
    #: Of the node, what the pod had and was about to give up.
    leaving: ZoneAllocation | None


def opened(handle: Handle) -> Iterator[Plugin]:
    """It is needed where pods wait and nodes report zones."""
    if handle.waiting and handle.objects[Kind.NODE_RESOURCE_TOPOLOGY]:
        yield NumaZones(handle)


class NumaZones(NodeFilter, Readiness, Scorer, Tracker):
    """The ``numa`` plugin in one cycle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        arguments = handle.arguments(NumaArguments)
        trust = not arguments.reconstruct
        self._ledger = NumaLedger(ignore=list(arguments.ignore), trust_reported=trust)
        self._requests: dict[int, NumaRequest | None] = {}
        self._held: dict[PodUid, tuple[str, ZoneAllocation]] = {}
        #: By node, what those who leave have until they are gone; it counts as available all the same.
        self._leaving: dict[str, dict[PodUid, ZoneAllocation]] = {}
        self._log: list[_Step] = []
        for obj in handle.objects[Kind.NODE_RESOURCE_TOPOLOGY].values():
            self._ledger.put(
                obj if isinstance(obj, NodeResourceTopology) else msgspec.convert(obj, NodeResourceTopology)
            )
        for node in handle.nodes.nodes:
            for task in node.tasks.values():
                self._recall(task, node, reported=trust)

    def _recall(self, task: Task, node: Node, *, reported: bool) -> None:
        """Put what a pod holds into the zones; ``reported``: nodes say what is left beside those that run.

        A node knows nothing of who is on his way there. Those who leave have theirs until they are gone;
        who waits may count on it, else others would be evicted for it, too.
        """
        facts = task.facts
        if facts is None or not ACTIVE_USED[task.status]:
            return
        assumed = (facts.assumed_allotment or NO_ALLOTMENT).numa
        if facts.pod is None and not assumed:
            return
        allocation = self._ledger.recorded(facts.pod or task.cls.pod, node.name, assumed=assumed)
        if not allocation:
            return
        if task.releasing:
            back = self._ledger.expect(node.name, allocation) if reported else allocation
            self._leaving.setdefault(node.name, {})[task.uid] = back
            return
        self._held[task.uid] = (node.name, allocation)
        if not (reported and task.status in _THERE):
            self._ledger.charge(node.name, allocation)

    def _request(self, cls: TaskClass) -> NumaRequest | None:
        if cls.id not in self._requests:
            self._requests[cls.id] = numa_request(cls.pod)
        return self._requests[cls.id]

    def concerns(self, cls: TaskClass) -> bool:
        """Classes that ask for anything that is ever aligned."""
        return self._request(cls) is not None

    def depends_on(self, task: Task) -> Hashable:
        """What is aligned, and how many times by itself; amounts are compared as they are for all."""
        request = self._request(task.cls)
        if request is None:
            return None
        units = (request.pod, *request.lasting, *request.brief)
        return request.guaranteed, len(request.brief), tuple([frozenset(each) for each in units])

    def check(self, task: Task, node: Node) -> str | None:
        """What the topology manager would say."""
        if self._ledger.fit(self._request(task.cls), node.name) is None:
            return "node's NUMA zones cannot hold the pod as its policy demands"
        return None

    def waits(self, task: Task, node: Node) -> bool:
        """Whether zones must first be given up: a kubelet refuses for good who comes too early."""
        return self._fit_now(task, node) is None

    def _fit_now(self, task: Task, node: Node) -> ZoneAllocation | None:
        leaving = self._leaving.get(node.name, _NOBODY).values()
        return self._ledger.fit(self._request(task.cls), node.name, without=leaving)

    def score(self, task: Task, able: Mask) -> Floats | None:
        """The fewer zones the better."""
        del able
        request = self._request(task.cls)
        nodes = self._handle.nodes.nodes
        return np.fromiter(
            (self._ledger.score(request, node.name) for node in nodes), dtype=np.float64, count=len(nodes)
        )

    # --- virtual placements ----------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """Charge the zones that the pod gets."""
        self._note(task, node)
        allocation = self._fit_now(task, node)
        if allocation is None:
            allocation = self._ledger.fit(self._request(task.cls), node.name) or ()
        self._give(task, node, allocation)

    def evicted(self, task: Task, node: Node) -> None:
        """Credit what it had."""
        self._note(task, node)
        held = self._held.pop(task.uid, None)
        if held is None:
            return
        self._ledger.credit(*held)
        if task.node is node:  # else it was only promised a place there
            self._leaving.setdefault(node.name, {}).setdefault(task.uid, held[1])

    def may_stay(self, task: Task, node: Node) -> bool:
        """Whether its zones were promised to nobody else: a kubelet moves nobody."""
        had = self._leaving.get(node.name, _NOBODY).get(task.uid, ())
        return self._ledger.has(node.name, had)

    def stays(self, task: Task, node: Node) -> None:
        """Charge again what it has, or was promised."""
        had = self._leaving.get(node.name, _NOBODY).get(task.uid)
        if had is None:
            self.placed(task, node)
            return
        self._note(task, node)
        del self._leaving[node.name][task.uid]
        self._give(task, node, had)

    def _give(self, task: Task, node: Node, allocation: ZoneAllocation) -> None:
        self._held.pop(task.uid, None)
        if allocation:
            self._held[task.uid] = (node.name, allocation)
            self._ledger.charge(node.name, allocation)
            zones = self._ledger.describe(node.name, allocation)
            self._handle.allot(task, replace(task.allotment or NO_ALLOTMENT, numa=zones))

    def _note(self, task: Task, node: Node) -> None:
        """Keep what is so, for :meth:`undo`."""
        uid, leaving = task.uid, self._leaving.get(node.name, _NOBODY).get(task.uid)
        held = self._held.get(uid)
        self._log.append(_Step(self._ledger.mark(), uid, held, task.allotment, node.name, leaving))

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Go back."""
        while len(self._log) > mark:
            step = self._log.pop()
            uid = step.uid
            self._ledger.undo(step.mark)
            if step.held is None:
                self._held.pop(uid, None)
            else:
                self._held[uid] = step.held
            leaving = self._leaving.get(step.node)
            if step.leaving is not None:
                self._leaving.setdefault(step.node, {})[uid] = step.leaving
            elif leaving is not None:
                leaving.pop(uid, None)
            task = self._handle.tasks.get(uid)
            if task is not None:
                self._handle.allot(task, step.allotment)

    # --- what tests and explanations ask ---------------------------------------------------------
    def zones_of(self, task: Task) -> set[int]:
        """Zones that a pod has something of."""
        held = self._held.get(task.uid)
        return {share.zone for share in held[1]} if held is not None else set()

    def available(self, node: str, *, zone: int, resource: str) -> str:
        """What is left of a resource in a zone, as a quantity."""
        amount = self._ledger.available(node)[zone].get(resource, 0)
        if resource != "cpu":
            return str(amount)
        return str(amount // 1000) if amount % 1000 == 0 else f"{quantity.parse(str(amount))}m"
