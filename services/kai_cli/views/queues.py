"""The queue tree with quota, fair share and what is allocated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from kai.model import access, resource_lists
from kai.model.decisions import QueueShare
from kai.model.objects import Queue, QueueResource, QueueResources, QueueStatus
from kai.model.rules import queue_amounts
from kai.model.rules.gpus import gpus_of_quota
from kai_cli.output import Column
from kai_cli.views import amounts

#: Amounts by resource name.
Held: TypeAlias = Mapping[str, Decimal]
_NOTHING: Final = Decimal(0)
COLUMNS = (
    Column("QUEUE"), Column("GPU QUOTA", True), Column("GPU LIMIT", True), Column("FAIR SHARE", True),
    Column("ALLOCATED", True), Column("BORROWED", True, wide=True), Column("REQUESTED", True),
    Column("GPU PAST USE", True, wide=True),
    Column("GPU WEIGHT", True, wide=True),
    Column("PRIORITY", True, wide=True), Column("CPU ALLOCATED", True, wide=True),
    Column("MEMORY ALLOCATED", True, wide=True), Column("OPEN TO", wide=True, prose=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """One resource of a queue in base units (GPU devices, cores, bytes); -1 is unlimited."""

    quota: float
    limit: float
    over_quota_weight: float
    allocated: float
    #: What of it is beyond the quota: others may take it back.
    borrowed: float
    requested: float
    #: None where the scheduler could not be asked.
    fair_share: float | None
    #: The part of the cluster that it used in the past, 0 to 1, where that counts; None as above.
    past_use: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue; depth 0 is a top queue."""

    name: str
    parent: str
    depth: int
    #: The parent is named but does not exist: nothing here is ever scheduled.
    orphan: bool
    priority: int
    #: Who may use it, by its own word; each queue above has to admit a user as well.
    open_to: str
    gpu: Amounts
    cpu: Amounts
    memory: Amounts

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        share = self.gpu.fair_share
        return (
            "  " * self.depth
            + self.name
            + (f"  (parent {self.parent} does not exist)" if self.orphan else ""),
            amounts.gpus(self.gpu.quota),
            amounts.gpus(self.gpu.limit),
            "?" if share is None else amounts.gpus(share),
            amounts.gpus(self.gpu.allocated),
            amounts.gpus(self.gpu.borrowed),
            amounts.gpus(self.gpu.requested),
            "?" if self.gpu.past_use is None else f"{100 * self.gpu.past_use:.1f} %",
            amounts.number(self.gpu.over_quota_weight),
            str(self.priority),
            amounts.cores(self.cpu.allocated * 1000),
            amounts.gibibytes(self.memory.allocated),
            self.open_to,
        )


def tree(queues: Iterable[Queue], shares: Mapping[str, QueueShare]) -> list[QueueRow]:
    """Queues in tree order, siblings by name. A cycle of parents is listed flat, as orphans are."""
    by_name = {queue.metadata.name: queue for queue in queues}
    children: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(by_name):
        children[by_name[name].spec.parent_queue].append(name)
    rows: list[QueueRow] = []
    seen: set[str] = set()

    def visit(name: str, depth: int, *, orphan: bool) -> None:
        if name in seen:
            return
        seen.add(name)
        rows.append(_row(by_name[name], shares.get(name), depth=depth, orphan=orphan))
        for child in children[name]:
            visit(child, depth + 1, orphan=False)

    for top in children[""]:
        visit(top, 0, orphan=False)
    for name in sorted(by_name):
        if by_name[name].spec.parent_queue not in by_name:
            visit(name, 0, orphan=True)
    for name in sorted(by_name.keys() - seen):
        visit(name, 0, orphan=True)
    return rows


#: Index in a share's triples, and what one of its units is in base units.
_IN_SHARES = {"cpu": (0, 1e-3), "memory": (1, 1.0), "gpu": (2, 1.0)}


def _row(queue: Queue, share: QueueShare | None, *, depth: int, orphan: bool) -> QueueRow:
    resources = queue.spec.resources or QueueResources()
    status = queue.status or QueueStatus()
    held, wanted = resource_lists.amounts(status.allocated), resource_lists.amounts(status.requested)

    def amounts_of(resource: str, spec: QueueResource, total: Callable[[Held], Decimal]) -> Amounts:
        index, share_unit = _IN_SHARES[resource]
        if share is None:
            allocated, requested = float(total(held)), float(total(wanted))
        else:
            allocated, requested = (share.allocated[index] * share_unit, share.requested[index] * share_unit)
        quota = queue_amounts.shown(resource, spec.quota)
        return Amounts(
            quota=quota,
            limit=queue_amounts.shown(resource, spec.limit),
            over_quota_weight=spec.over_quota_weight,
            allocated=allocated,
            borrowed=queue_amounts.borrowed(allocated, quota),
            requested=requested,
            fair_share=None if share is None else _scaled(share.fair_share[index], share_unit),
            past_use=None if share is None else share.usage[index],
        )

    return QueueRow(
        name=queue.metadata.name,
        parent=queue.spec.parent_queue,
        depth=depth,
        orphan=orphan,
        priority=queue_amounts.priority(queue.spec.priority),
        open_to=access.admitted(queue.spec.access),
        gpu=amounts_of("gpu", resources.gpu, gpus_of_quota),
        cpu=amounts_of("cpu", resources.cpu, lambda found: found.get("cpu", _NOTHING)),
        memory=amounts_of("memory", resources.memory, lambda found: found.get("memory", _NOTHING)),
    )


def _scaled(value: float, unit: float) -> float:
    return value if value == amounts.UNLIMITED else value * unit
