"""What fragmentation leaves: how many pods of one size find room, in all and by topology domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kai.model.objects import Node, Topology
from kai.model.rules.free_slots import SIZES, free_slots
from kai_cli.output import Column
from kai_cli.views import amounts
from kai_cli.views.nodes import NodeRow

COLUMNS: Final = (
    Column("TOPOLOGY"), Column("LEVEL"), Column("DOMAIN"), Column("NODES", True), Column("GPUS", True),
    Column("FREE", True), *(Column(f"{size} GPU" if size == 1 else f"{size} GPUS", True) for size in SIZES),
)  # fmt: skip
_EVERYWHERE: Final = "all nodes"
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRow:
    """Nodes that are together. The first row of a list is about all, and names no topology.

    ``domain`` has the labels from the coarsest level on. ``free`` are GPUs on nodes that take pods, with what
    is left of shared ones; ``slots`` says by size how many pods of so many whole GPUs find room.
    """

    topology: str
    level: str
    domain: str
    nodes: int
    gpus: int
    free: float
    slots: Mapping[int, int]

    @property
    def key(self) -> str:
        """Its topology, level and name."""
        return _SEPARATOR.join((self.topology, self.level, self.domain))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        slots = (str(self.slots[size]) for size in SIZES)
        return (
            self.topology, self.level, self.domain, str(self.nodes), str(self.gpus),
            amounts.number(self.free), *slots,
        )  # fmt: skip


def table_of(
    topologies: Iterable[Topology], nodes: Iterable[Node], rows: Sequence[NodeRow]
) -> list[DomainRow]:
    """All nodes, then each domain of each topology, coarse ones before those in them.

    Args:
        topologies: by which nodes are told apart.
        nodes: with their labels; those without the label of a level are in none of its domains.
        rows: what is known of each of the nodes.
    """
    by_name = {row.name: row for row in rows}
    found = [_row("", "", _EVERYWHERE, rows)]
    labelled = [(node.labels, by_name[node.metadata.name]) for node in nodes if node.metadata.name in by_name]
    for topology in sorted(topologies, key=lambda each: each.metadata.name):
        keys = [level.node_label for level in topology.spec.levels]
        domains: dict[tuple[str, ...], list[NodeRow]] = {}
        for labels, row in labelled:
            place: tuple[str, ...] = ()
            for key in keys:
                if key not in labels:
                    break
                place = (*place, labels[key])
                domains.setdefault(place, []).append(row)
        found += [
            _row(topology.metadata.name, keys[len(place) - 1], _SEPARATOR.join(place), domains[place])
            for place in sorted(domains)
        ]
    return found


def summary(rows: Iterable[NodeRow]) -> str:
    """The room that there is, in a line."""
    slots = _row("", "", "", list(rows)).slots
    told = [f"{slots[size]} of {amounts.count(size, 'GPU')}" for size in SIZES]
    return f"room for pods: {', '.join(told)}"


def _row(topology: str, level: str, domain: str, rows: Sequence[NodeRow]) -> DomainRow:
    free = Counter(row.placeable for row in rows)
    by_free = [free[devices] for devices in range(max(free, default=0) + 1)]
    return DomainRow(
        topology=topology,
        level=level,
        domain=domain,
        nodes=len(rows),
        gpus=sum(row.gpus for row in rows),
        free=round(sum(row.free for row in rows if row.open), 4),
        slots={size: free_slots(by_free, size) for size in SIZES},
    )
