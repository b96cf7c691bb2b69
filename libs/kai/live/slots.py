"""How many pods of so many whole GPUs still find room: everywhere, and in each domain."""

from __future__ import annotations

from collections import Counter, defaultdict

from kai.live.board import READY, Board
from kai.live.told import DomainSlots, Slots
from kai.model.rules.free_slots import SIZES, free_slots


def slots(board: Board) -> Slots:
    """By size, on nodes that take pods. Costs time by the number of nodes."""
    structure = board.structure
    assert structure is not None
    everywhere: Counter[int] = Counter()
    domains: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for index, domain in enumerate(structure.domain):
        free = board.seats[index].free if board.states[index] == READY else 0
        everywhere[free] += 1
        for each in structure.domains.ancestors(domain):
            domains[each][free] += 1
    return Slots(
        shapes=SIZES,
        all=_of(everywhere),
        domains=[DomainSlots(index=index, slots=_of(domains[index])) for index in sorted(domains)],
    )


def _of(nodes: Counter[int]) -> list[int]:
    by_free = [nodes[free] for free in range(max(nodes, default=0) + 1)]
    return [free_slots(by_free, size) for size in SIZES]
