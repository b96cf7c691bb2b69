"""Cycles that insight recorded, decided again: one of them in full, or how all of a time came out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kai.history.recordings import Entry, Wanted
from kai.replay.cycles import Again, Replay, read_cycle
from kai.snapshot.times import rfc3339
from kai_cli.connection import Target
from kai_cli.output import Column

#: How a stretch of cycles came out.
COLUMNS: Final = (
    Column("SHARD"),
    Column("TERM", number=True),
    Column("FROM"),
    Column("CYCLES", number=True),
    Column("DECIDED", number=True),
    Column("SAME", number=True),
    Column("DIFFERENCE", prose=True),
)


@dataclass(slots=True, kw_only=True)
class Stretch:
    """A base, and the cycles after it as far as they follow each other."""

    shard: str
    epoch: int
    #: Unix seconds of the base; of the first cycle, where there is none.
    at: float
    #: Cycles that are recorded, those among them that bound or evicted, and those that came out the same.
    cycles: int = 0
    decided: int = 0
    same: int = 0
    #: Of the first cycle that came out otherwise: its number, and lines.
    differing: int | None = None
    differences: tuple[str, ...] = ()

    def row(self) -> list[str]:
        """For people, in the order of :data:`COLUMNS`."""
        shown = self.differences[0] if self.differences else "-"
        told = shown if self.differing is None else f"cycle {self.differing}: {shown}"
        numbers = [str(each) for each in (self.cycles, self.decided, self.same)]
        return [self.shard, str(self.epoch), rfc3339(self.at), *numbers, told]

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "shard": self.shard,
            "term": self.epoch,
            "from": rfc3339(self.at),
            "cycles": self.cycles,
            "decided": self.decided,
            "same": self.same,
            "differing": self.differing,
            "differences": list(self.differences),
        }


class Course:
    """Entries that are decided again as they come, and the stretches that they make up."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._replay: Replay | None = None
        self._last = 0

    def take(self, entry: Entry) -> Again | None:
        """Decide an entry again; None for a base, and for what does not follow a base that is known.

        Raises:
            RecordingError: it cannot be read by this release.
        """
        if entry.base:
            self._replay, self._last = Replay(entry.data), entry.number
            self._begin(entry)
            return None
        if not self.stretches or (self._replay is not None and entry.number != self._last + 1):
            self._replay = None
            self._begin(entry)
        here = self.stretches[-1]
        here.cycles += 1
        record = read_cycle(entry.data)
        here.decided += bool(record.decided.binds or record.decided.evictions)
        if self._replay is None:
            return None
        again = self._replay.decide(record)
        self._last = entry.number
        if again.same:
            here.same += 1
        else:
            self._replay = None
            here.differing, here.differences = entry.version, tuple(again.differences())
        return again

    def _begin(self, entry: Entry) -> None:
        self.stretches.append(Stretch(shard=entry.shard, epoch=entry.epoch, at=entry.at))


async def entries(target: Target, wanted: Wanted) -> AsyncIterator[Entry]:
    """What insight has of the cycles that are wanted."""
    async with target.cluster() as client, target.history(client) as history:
        async for entry in history.recordings(wanted):
            yield entry


def sums(stretches: Sequence[Stretch]) -> Iterator[str]:
    """How all of it came out, in lines."""
    cycles, same = sum(each.cycles for each in stretches), sum(each.same for each in stretches)
    differing = sum(each.differing is not None for each in stretches)
    left = cycles - same - differing
    yield f"{cycles} cycles: {same} decided as then, {differing} otherwise, {left} not decided again"
    if left:
        yield "Not decided again is what no base is kept for, or what follows one that came out otherwise."
