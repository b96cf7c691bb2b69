"""A board as one may see it, as JSON: all of it once, then what changes.

Who may see the same namespaces shares a view, so that what they see is written once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from kai.live.board import Board, News, QueueSums
from kai.live.devices import FREE, Cell
from kai.live.groups import Held, Standing
from kai.live.holders import HIDDEN
from kai.live.structure import NOWHERE, Structure
from kai.live.told import (
    AmountColumns,
    Change,
    DomainColumns,
    Frame,
    GroupColumns,
    Hidden,
    Lacks,
    NodeColumns,
    QueueColumns,
    Slot,
)
from kai.model.decisions import CPU, GPU, MEMORY
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState

#: Namespaces that somebody may see; None: all.
Sight: TypeAlias = frozenset[str] | None
#: Nobody has a device, or there is no queue, or a holder that somebody may not see has a part.
NOBODY: Final = -1
#: A shared device k of a frame is written as this less k.
_SHARED: Final = -2
#: Changes that are kept for those who are behind, and bytes of them together.
MOST_CHANGES: Final = 240
MOST_BYTES: Final = 2 << 20
#: A change that is longer is none: whoever looks gets all of it again, which is packed. Without queues, which
#: would be told again with all of it.
LONGEST_CHANGE: Final = 256 << 10
#: Groups that hold nothing any more and keep their indices, before those begin anew.
_MOST_GONE: Final = 2000

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a view, as JSON: the one that leads to ``serial``."""

    serial: int
    data: bytes


def hidden_namespaces(state: ClusterState, board: Board, sight: Sight) -> frozenset[str]:
    """Namespaces that somebody may not see: of those without pod groups nobody was asked whether he may."""
    if sight is None:
        return frozenset()
    return frozenset((state.objects[Kind.NAMESPACE].keys() | board.namespaces.keys()) - sight)


class View:
    """Of one board for one sight. ``name`` is like that of no other view, also none of another process."""

    def __init__(self, board: Board, sight: Sight, *, name: str) -> None:
        self._board = board
        self.sight = sight
        self._name = name
        self._serial = 0
        #: Indices of holders by number; HIDDEN stands for all who may not be seen.
        self._indices: dict[int, int] = {}
        self._order: list[int] = []
        #: Another tuple after each change, so that it can be read from any thread.
        self._steps: tuple[Step, ...] = ()
        #: Nothing more is told here: who looks has to begin anew.
        self.ended = False
        self._frame: tuple[int, bytes] | None = None
        self._queue_index = {name: index for index, (name, *_) in enumerate(_structure(board).queues)}

    @property
    def version(self) -> str:
        """Of what it shows now."""
        return f"{self._name}/{self._serial}"

    @property
    def worn(self) -> bool:
        """Whether it is better to begin another one: most of its indices are of those who hold nothing."""
        gone = len(self._order) - len(self._board.holders)
        return gone > _MOST_GONE and gone > len(self._board.holders)

    def serial_of(self, version: str) -> int | None:
        """Which state of this view a version is; None where it is none, or too old to go on from it."""
        name, _, number = version.rpartition("/")
        if name != self._name or not number.isdecimal() or len(number) > 18:
            return None
        serial = int(number)
        oldest = self._steps[0].serial - 1 if self._steps else self._serial
        return serial if oldest <= serial <= self._serial else None

    def after(self, serial: int) -> list[Step] | None:
        """The changes since a state of this view; None where it is too old. May be asked in any thread."""
        steps = self._steps
        if self.ended or (steps and steps[0].serial > serial + 1):
            return None
        return [step for step in steps if step.serial > serial]

    # --- all of it ---------------------------------------------------------------------------------
    def frame(self, shard: str) -> bytes:
        """All that is seen, as ``live/cluster`` answers it. Written once for each state of the view."""
        if self._frame is None or self._frame[0] != self._serial:
            self._frame = self._serial, _encode(self._document(shard))
        return self._frame[1]

    def _document(self, shard: str) -> Frame:
        board, structure = self._board, _structure(self._board)
        shared: list[list[list[int]]] = []
        slots = list(self._slots(shared))
        # Who holds nothing any more, but is known from before, keeps his index.
        rows = [self._group(number) for number in self._order]
        domains = structure.domains
        return Frame(
            shard=shard,
            version=self.version,
            numbering=board.numbers.name,
            at=board.at,
            models=structure.models,
            domains=DomainColumns(level=domains.level, name=domains.name, parent=domains.parent),
            nodes=NodeColumns(
                name=structure.name,
                domain=structure.domain,
                model=structure.model,
                gpus=structure.gpus,
                state=board.states,
            ),
            slots=slots,
            shared=shared,
            groups=GroupColumns(
                queue=[queue for queue, _, _ in rows],
                state=[standing for _, standing, _ in rows],
                key=[key for _, _, key in rows],
            ),
            queues=self._queues(),
            waiting=self._lacking(),
            hidden=self._hidden(),
        )

    def _slots(self, shared: list[list[list[int]]]) -> Iterator[int]:
        for seats in self._board.seats:
            for cell in seats.cells:
                if isinstance(cell, int):
                    yield NOBODY if cell == FREE else self._index(cell)
                else:
                    shared.append(self._parts(cell))
                    yield _SHARED - len(shared) + 1

    def _queues(self) -> QueueColumns:
        told, sums = _structure(self._board).queues, self._board.queues
        return QueueColumns(
            name=[name for name, _, _, _ in told],
            display_name=[shown for _, shown, _, _ in told],
            parent=[self._queue_index.get(parent, NOWHERE) for _, _, parent, _ in told],
            priority=[priority for _, _, _, priority in told],
            gpu=_amounts(sums, GPU),
            cpu=_amounts(sums, CPU),
            memory=_amounts(sums, MEMORY),
            waiting_groups=[each.waiting_groups for each in sums],
            waiting_gpus=[each.waiting_gpus for each in sums],
        )

    def _lacking(self) -> Lacks:
        board = self._board
        return Lacks(groups=len(board.waiting), gpus=board.waiting_centi / GPU_CENTI)

    def _hidden(self) -> Hidden:
        if self.sight is None:
            return Hidden(groups=0, namespaces=0)
        there = [count for name, count in self._board.namespaces.items() if name not in self.sight]
        return Hidden(groups=sum(there), namespaces=len(there))

    # --- what changes ------------------------------------------------------------------------------
    def take(self, news: News) -> bool:
        """Note what changed on the board; false where this view cannot go on, and another has to begin.

        Costs time by what changed.
        """
        known = len(self._order)
        nodes = [self._node(index) for index in sorted(news.nodes)]
        changed = {self._indices[number] for number in news.holders if number in self._indices}
        groups = [
            (index, *self._group(self._order[index]))
            for index in sorted(changed | set(range(known, len(self._order))))
            if self._order[index] != HIDDEN or index >= known
        ]
        hides = news.counts and self.sight is not None
        if not (nodes or groups or news.sums or hides):
            return True
        self._serial += 1
        queues = self._queues() if news.sums else None
        data = _encode(
            Change(
                version=self.version,
                at=self._board.at,
                nodes=nodes,
                groups=groups,
                queues=queues,
                waiting=self._lacking(),
                hidden=self._hidden(),
            )
        )
        if self.worn or (len(data) > LONGEST_CHANGE and len(data) - len(_encode(queues)) > LONGEST_CHANGE):
            return False
        self._steps = _latest((*self._steps, Step(self._serial, data)))
        return True

    def _node(self, index: int) -> tuple[int, int, list[Slot]]:
        cells = self._board.seats[index].cells
        return index, self._board.states[index], [self._changed(cell) for cell in cells]

    def _changed(self, cell: Cell) -> Slot:
        if isinstance(cell, int):
            return NOBODY if cell == FREE else self._index(cell)
        return self._parts(cell)

    # --- who is seen -------------------------------------------------------------------------------
    def _sees(self, number: int) -> bool:
        holder = self._board.numbers.holder(number)
        return self.sight is None or (holder is not None and holder.namespace in self.sight)

    def _index(self, number: int) -> int:
        """The index of a holder; all who may not be seen have one together."""
        index = self._indices.get(number)
        if index is not None:
            return index
        told = number if self._sees(number) else HIDDEN
        index = self._indices.get(told)
        if index is None:
            index = self._indices[told] = len(self._order)
            self._order.append(told)
        if told is HIDDEN:
            self._indices[number] = index
        return index

    def _parts(self, cell: Iterable[tuple[int, int]]) -> list[list[int]]:
        """Parts of a device; those who may not be seen have one part together."""
        found: list[list[int]] = []
        hidden = 0
        for number, percent in cell:
            if self._sees(number):
                found.append([self._index(number), percent])
            else:
                hidden += percent
        return [*found, [NOBODY, hidden]] if hidden else found

    def _group(self, number: int) -> tuple[int, int, int]:
        """Queue, state and key of a holder."""
        if number == HIDDEN:
            return NOBODY, Standing.RUNNING, HIDDEN
        held = self._board.holders.get(number, _GONE)
        return self._queue_index.get(held.queue, NOBODY), int(held.standing), number


_GONE: Final = Held("", Standing.RUNNING)


def _latest(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Those that are kept: the last one in any case."""
    size, kept = 0, 0
    for step in reversed(steps):
        size += len(step.data)
        if kept and (size > MOST_BYTES or kept == MOST_CHANGES):
            break
        kept += 1
    return steps[len(steps) - kept :]


def _structure(board: Board) -> Structure:
    assert board.structure is not None
    return board.structure


def _amounts(sums: Sequence[QueueSums], at: int) -> AmountColumns:
    """Of the resource that stands there in vectors."""
    return AmountColumns(
        quota=[each.quota[at] for each in sums],
        limit=[each.limit[at] for each in sums],
        fair_share=[round(each.fair_share[at], 3) for each in sums],
        allocated=[each.allocated[at] for each in sums],
        requested=[each.requested[at] for each in sums],
    )
