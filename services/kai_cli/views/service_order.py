"""What waits in a queue, in the order in which it is served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kai.model import names
from kai.model.decisions import QueuedGroup
from kai.model.objects import Pod, PodGroup, Queue
from kai_cli.output import Column
from kai_cli.views import amounts, nodes
from kai_cli.views.claims import NOTHING_CLAIMED, ClaimedGpus
from kai_cli.views.pod_groups import PodGroupRow, table_of
from kai_cli.views.pods import waits

COLUMNS: Final = (
    Column("PLACE", True), Column("NAMESPACE"), Column("NAME"), Column("PRIORITY", True),
    Column("RUNNING", True), Column("MIN", True), Column("GPUS", True), Column("WAITING", True),
    Column("AHEAD BY"), Column("QUEUE", wide=True), Column("OVERALL", True, wide=True),
    Column("CLASS", wide=True), Column("REASON"), Column("MESSAGE", wide=True, prose=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """One pod group that waits."""

    group: PodGroupRow
    #: Among those that were asked for and among all, 1 for the next; None if its turn does not come.
    place: int | None
    overall: int | None
    priority: int | None
    #: GPUs that its waiting pods ask for, also by claims; parts counted as such, but not those by memory.
    gpus: float

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.group.key

    def document(self) -> dict[str, Any]:
        """As JSON."""
        own = {"place": self.place, "overall": self.overall, "priority": self.priority, "gpus": self.gpus}
        return own | self.group.document()

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        group = self.group
        since = group.waiting_since
        return (
            "-" if self.place is None else str(self.place),
            group.namespace,
            group.name,
            "-" if self.priority is None else str(self.priority),
            f"{group.running}/{group.pods}",
            group.minimum,
            amounts.number(self.gpus),
            "-" if since is None else amounts.lasting(max(0.0, group.at - since)),
            (group.position.ahead_by if group.position else "") or "-",
            group.queue,
            "-" if self.overall is None else str(self.overall),
            group.priority_class or "-",
            group.reason or "-",
            group.message.partition("\n")[0],
        )


def waiting_in(
    queues: Iterable[str],
    groups: Iterable[PodGroup],
    pods: Sequence[Pod],
    *,
    at: float,
    line: Sequence[QueuedGroup],
    claimed: ClaimedGpus = NOTHING_CLAIMED,
) -> list[WaitingRow]:
    """What waits in these queues: first whose turn comes, in order, then the rest, those first that wait
    longest.
    """
    asked = frozenset(queues)
    overall = {each.pod_group: place for place, each in enumerate(line, start=1)}
    priority = {each.pod_group: each.priority for each in line}
    gpus = _asked_gpus(pods, claimed)
    rows = [row for row in table_of(groups, pods, at=at, line=line) if row.queue in asked and row.waits]
    rows.sort(key=lambda row: (overall.get(row.key, len(line) + 1), row.waiting_since or at))
    return [
        WaitingRow(
            group=row,
            place=place if row.key in overall else None,
            overall=overall.get(row.key),
            priority=priority.get(row.key),
            gpus=gpus.get(row.key, 0.0),
        )
        for place, row in enumerate(rows, start=1)
    ]


def below(name: str, queues: Iterable[Queue]) -> set[str]:
    """A queue, and all that are below it."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for queue in queues:
        children[queue.spec.parent_queue].append(queue.metadata.name)
    found, waiting = {name}, [name]
    while waiting:
        for child in children[waiting.pop()]:
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _asked_gpus(pods: Iterable[Pod], claimed: ClaimedGpus) -> Mapping[str, float]:
    """By pod group, what those of its pods ask for that wait."""
    waiting: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        group = pod.annotations.get(names.POD_GROUP_ANNOTATION)
        if group and waits(pod):
            waiting[f"{pod.metadata.namespace}/{group}"].append(pod)
    return {
        group: sum(map(nodes.asked_gpus, members)) + claimed.gpus(members)
        for group, members in waiting.items()
    }
