"""Resource claims: the allocator is in :mod:`kai.engine.dra`; here it meets tasks and statements."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from kai.engine.dra.allocator import Unfit
from kai.engine.dra.extended import resources_of
from kai.engine.dra.inventory import Inventory
from kai.engine.dra.ledger import ClaimLedger, Plan
from kai.engine.dra.pods import PodDemand
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import (
    Filter,
    NodeFilter,
    Plugin,
    PreFilter,
    Readiness,
    Tie,
    Ties,
    Tracker,
)
from kai.model import dra, quantity
from kai.model.arrays import Mask
from kai.model.decisions import NO_ALLOTMENT, Allotment
from kai.model.ids import PodUid
from kai.model.objects import ObjectMeta, Pod
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.state import Kind
from kai.snapshot.status import ACTIVE_USED, Status


class ResourceClaims(PreFilter, Filter, NodeFilter, Readiness, Ties, Tracker):
    """The ``dynamicresources`` plugin in one cycle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        objects = handle.objects
        self.ledger = ClaimLedger(_inventory(handle))
        # The inventory lasts longer than a cycle, what may be spent on it does not.
        self.ledger.inventory.effort.renew()
        # Pods that cannot be taken in hold what they hold, too.
        unread = {fault.uid for (kind, _), fault in handle.faults.items() if kind is Kind.POD}
        for obj in objects[Kind.RESOURCE_CLAIM].values():
            claim = _typed(obj, dra.ResourceClaim)
            self.ledger.put_claim(claim, gone=self._gone(claim, unread))
        self._demands: dict[str, PodDemand] = {}
        self._concerned: dict[int, bool] = {}
        self._offered: dict[str, frozenset[str]] = {}
        self._on = handle.claims
        for task in handle.tasks.values():
            if task.node is not None and ACTIVE_USED[task.status] and self.concerns(task.cls):
                self._adopt(task)
        self._log: list[tuple[int, Task, Allotment | None]] = []
        self._plan: tuple[str, str, int, Plan] | None = None

    def _gone(self, claim: dra.ResourceClaim, unread: set[str]) -> list[str]:
        """Pods (uids) for which a claim is reserved though they have ended."""
        tasks = self._handle.tasks
        found: list[str] = []
        for consumer in claim.status.reserved_for:
            if consumer.resource != "pods" or consumer.uid in unread:
                continue
            task = tasks.get(PodUid(consumer.uid))
            if task is None or task.status in _ENDED:
                found.append(consumer.uid)
        return found

    def _adopt(self, task: Task) -> None:
        assumed = (task.facts.assumed_allotment if task.facts is not None else None) or NO_ALLOTMENT
        allocations = {each["name"]: _allocation(each) for each in assumed.claims}
        extended = assumed.extended_claim
        demand = self._demand(task)
        if demand is None:
            return
        self.ledger.adopt(
            demand, allocations=allocations or None, extended=_allocation(extended) if extended else None
        )
        if task.releasing:
            self.ledger.release(demand)

    def _demand(self, task: Task) -> PodDemand | None:
        facts = task.facts
        if facts is None or (facts.pod is None and task.cls.claims):
            return None
        demand = self._demands.get(task.uid)
        if demand is None:
            demand = self._demands[task.uid] = self.ledger.demand(facts.pod or _pod_of(task))
        return demand

    def concerns(self, cls: TaskClass) -> bool:
        """Classes with claims, or with extended resources that are backed by a device class."""
        if not self._on:
            return cls.claims
        known = self._concerned.get(cls.id)
        if known is None:
            backed = self.ledger.inventory.backed_resources
            known = self._concerned[cls.id] = cls.claims or not backed.isdisjoint(resources_of(cls.pod))
        return known

    def depends_on(self, task: Task) -> Hashable:
        """The devices that its claims ask for, or have."""
        demand = self._demand(task) if self._on else None
        return self.ledger.wishes(demand) if demand is not None else None

    def refuse(self, task: Task, job: Job) -> str | None:
        """Claims that cannot be served anywhere."""
        if not self._on:
            return "the pod has resource claims, but dynamic resource allocation is off"
        demand = self._demand(task)
        if demand is None:
            return "the pod's resource claims are not known"
        for claim in demand.claims:
            fault = self._handle.faults.get((Kind.RESOURCE_CLAIM, claim.key))
            if fault is not None:
                return f"claim {claim.key} cannot be taken in: {fault.message}"
        label = self._handle.params.queue_label_key
        return self.ledger.obstacle(demand, queue=job.queue.name, queue_label=label) or None

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes whose free GPUs could suffice, as far as nobody else has the claims already."""
        demand = self._demand(task)
        if demand is None or not demand.gpus:
            return None
        wanted = demand.gpus - self.ledger.counted_gpus(demand)
        if wanted <= 0:
            return None
        table = self._handle.nodes
        enough = table.idle[:, GPU] + table.releasing[:, GPU] >= wanted
        return np.asarray(enough, dtype=bool) | self._reach_shared, "Insufficient GPUs"

    @cached_property
    def _reach_shared(self) -> Mask:
        """Nodes with GPUs that others reach, too: these are in no node's amounts."""
        inventory, nodes = self.ledger.inventory, self._handle.nodes.nodes
        return np.fromiter(
            (inventory.reaches_shared_gpus(node.name) for node in nodes), dtype=bool, count=len(nodes)
        )

    def check(self, task: Task, node: Node) -> str | None:
        """Find devices for all claims."""
        plan = self._fit(task, node)
        return f"resource claims: {plan.reason}" if isinstance(plan, Unfit) else None

    def waits(self, task: Task, node: Node) -> bool:
        """Whether devices must first be given up."""
        plan = self._fit(task, node)
        return not isinstance(plan, Unfit) and plan.waits

    def tie(self, first: Task, tasks: Sequence[Task]) -> Tie | None:
        """Pods that share a claim with the first one, which gets its devices on that one's node."""
        wanted = self._open_claims(first)
        others = [
            task for task in tasks if task is not first and not wanted.isdisjoint(self._open_claims(task))
        ]
        return Tie(np.arange(len(self._handle.nodes)), others) if others else None

    def _open_claims(self, task: Task) -> set[str]:
        """Keys of the claims of a pod that have no devices yet: the others stand for themselves."""
        demand = self._demand(task) if self._on and task.cls.claims else None
        if demand is None:
            return set()
        wishes = zip(demand.claims, self.ledger.wishes(demand), strict=True)
        return {each.key for each, wish in wishes if wish != each.key}

    def _fit(self, task: Task, node: Node) -> Plan | Unfit:
        known = self._plan
        stamp = self.ledger.mark()
        if known is not None and known[:3] == (task.uid, node.name, stamp):
            return known[3]
        demand = self._demand(task)
        assert demand is not None
        plan = self.ledger.fit(demand, node.name, offered=self._offered_by(node), after_release=True)
        if not isinstance(plan, Unfit):
            self._plan = (task.uid, node.name, stamp, plan)
        return plan

    def _offered_by(self, node: Node) -> frozenset[str]:
        """What the node's device plugins offer."""
        known = self._offered.get(node.name)
        if known is None:
            amounts = node.object.status.allocatable or {}
            known = frozenset(name for name, text in amounts.items() if quantity.parse(text) > 0)
            self._offered[node.name] = known
        return known

    # --- virtual placements ----------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """The pod takes its devices."""
        self._log.append((self.ledger.mark(), task, task.allotment))
        if not self.concerns(task.cls):
            return
        plan, demand = self._fit(task, node), self._demand(task)
        if isinstance(plan, Unfit) or demand is None:
            return
        self.ledger.place(demand, plan)
        self._handle.allot(
            task,
            replace(
                task.allotment or NO_ALLOTMENT,
                claims=plan.claim_allocations,
                extended_claim=plan.extended_claim,
            ),
        )

    def evicted(self, task: Task, node: Node) -> None:
        """The pod gives them up."""
        del node
        self._log.append((self.ledger.mark(), task, task.allotment))
        demand = self._demand(task) if self.concerns(task.cls) else None
        if demand is not None:
            self.ledger.release(demand)

    def may_stay(self, task: Task, node: Node) -> bool:
        """Whether its devices were promised to nobody else."""
        demand = self._demand(task) if self.concerns(task.cls) else None
        return demand is None or self.ledger.keeps(demand, node.name)

    def stays(self, task: Task, node: Node) -> None:
        """The pod keeps them after all."""
        self.placed(task, node)

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Go back."""
        while len(self._log) > mark:
            ledger_mark, task, allotted = self._log.pop()
            self.ledger.undo(ledger_mark)
            self._handle.allot(task, allotted)
        # Marks are lengths of a log: later the same one may stand for another state.
        self._plan = None

    def objects_after(self, gone: set[str]) -> list[dict[str, Any]]:
        """All claims as they are once these pods (uids) are gone."""
        found: list[dict[str, Any]] = []
        for claim, allocation, reserved in self.ledger.claims():
            obj = msgspec.to_builtins(claim)
            users = sorted(reserved - gone)
            obj["status"] = {}
            if users:
                obj["status"]["reservedFor"] = [
                    {"resource": "pods", "name": uid, "uid": uid} for uid in users
                ]
                if allocation is not None:
                    obj["status"]["allocation"] = msgspec.to_builtins(allocation)
            found.append(obj)
        return found


#: Who is in one of these states uses no devices any more.
_ENDED: Final = frozenset({Status.SUCCEEDED, Status.FAILED})

#: The devices of the cluster, while slices, classes and nodes stay as they are.
_INVENTORY: Final = Kept[Inventory](lent=as_it_is)
#: Whether any class has claims, while there is no new class.
_CLAIMED: Final = Kept[bool]()


def opened(handle: Handle) -> Iterator[Plugin]:
    """It is needed where somebody who waits, or may be moved, has claims or what claims serve."""
    if handle.waiting and _needed(handle):
        yield ResourceClaims(handle)


def _needed(handle: Handle) -> bool:
    if handle.moves and _CLAIMED.get(
        handle.kept, handle.classes.made, lambda: any(cls.claims for cls in handle.classes)
    ):
        return True
    if any(cls.claims for cls in handle.waiting):
        return True
    if not handle.objects[Kind.DEVICE_CLASS]:
        return False
    backed = _inventory(handle).backed_resources
    return any(not backed.isdisjoint(resources_of(cls.pod)) for cls in handle.waiting)


def _inventory(handle: Handle) -> Inventory:
    stamp = (
        handle.versions[Kind.RESOURCE_SLICE], handle.versions[Kind.DEVICE_CLASS], handle.nodes.epoch
    )  # fmt: skip
    return _INVENTORY.get(handle.kept, stamp, lambda: _read(handle))


def _read(handle: Handle) -> Inventory:
    table = handle.nodes

    def labels_of(name: str) -> dict[str, str] | None:
        node = table.by_name.get(name)
        return node.object.labels if node is not None else None

    inventory = Inventory(labels_of)
    for obj in handle.objects[Kind.RESOURCE_SLICE].values():
        inventory.put_slice(_typed(obj, dra.ResourceSlice))
    for obj in handle.objects[Kind.DEVICE_CLASS].values():
        inventory.put_class(_typed(obj, dra.DeviceClass))
    return inventory


def _pod_of(task: Task) -> Pod:
    """A pod without claims, as far as its extended resources go: pods of a class have the same containers."""
    return Pod(
        metadata=ObjectMeta(name=task.name, namespace=task.namespace, uid=task.uid),
        spec=task.cls.pod.spec,
    )


def _allocation(given: Mapping[str, Any]) -> dra.AllocationResult:
    return msgspec.convert(given["allocation"], dra.AllocationResult)


def _typed(obj: Any, cls: type[Any]) -> Any:
    return obj if isinstance(obj, cls) else msgspec.convert(obj, cls)
