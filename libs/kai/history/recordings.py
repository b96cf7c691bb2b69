"""Recorded cycles in the store: bases and the cycles after them (:mod:`kai.replay.cycles`), as bytes.

Terms are in order of time. Their epochs are versions of the API server's store, and go back with it where
that is restored from a backup.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kai.history.databases import Database, Transaction

#: Best by far for so little work: most of a record is JSON.
_LEVEL: Final = 1
_COLUMNS: Final = "shard, epoch, number, version, at, base, data"
#: Later than anything; a database has no infinite time.
_END: Final = 1e300
#: So many rows are read at once.
_READ_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A base, or a cycle; ``at`` is in Unix seconds.

    ``number`` counts the cycles of a term, and a base has that of the cycle before it. ``version`` is the
    last session that the scheduler had published then.
    """

    shard: str
    epoch: int
    number: int
    version: int
    at: float
    base: bool
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which cycles are to be replayed: the one of a session, or, with ``version`` 0, all of a time."""

    shard: str
    version: int = 0
    #: The term; 0: the last that has it.
    epoch: int = 0
    since: float = 0.0
    until: float = float("inf")


def add(database: Database, entries: Sequence[Entry]) -> None:
    """Keep entries; one that is there already stays as it is.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    packed = [
        (each.shard, each.epoch, each.number, each.version, each.at, int(each.base), _packed(each.data))
        for each in entries
    ]

    def work(transaction: Transaction) -> None:
        for values in packed:
            transaction.execute(
                f"INSERT INTO kai_recordings ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
                "ON CONFLICT (shard, epoch, number, base) DO NOTHING",
                values,
            )

    database.write(work)


def forget(database: Database, *, before: float, most_bytes: int) -> int:
    """Remove the oldest stretches, each a base with its cycles; how many rows.

    Those go whose last cycle was before a moment, and as many more as are beyond ``most_bytes``; the last
    stretch of a shard stays. Raises as :func:`add`.
    """
    removed = 0
    for shard, epoch, first, end in _obsolete(database, before=before, most_bytes=most_bytes):
        removed += database.write(
            lambda transaction, found=(shard, epoch, first, end): transaction.execute(  # type: ignore[misc]
                "DELETE FROM kai_recordings WHERE shard = ? AND epoch = ? "
                "AND (number > ? OR (number = ? AND base = 1)) "
                "AND (number < ? OR (number = ? AND base = 0))",
                (found[0], found[1], found[2], found[2], found[3], found[3]),
            )
        )
    return removed


def clear(database: Database) -> None:
    """Remove everything; raises as :func:`add`."""
    database.write(lambda transaction: transaction.execute("DELETE FROM kai_recordings"))


def size(database: Database) -> int:
    """Bytes of what is kept; raises as :func:`add`."""
    ((found,),) = database.read(
        lambda transaction: transaction.rows("SELECT COALESCE(SUM(LENGTH(data)), 0) FROM kai_recordings")
    )
    return int(found)


def find(database: Database, wanted: Wanted) -> Iterator[Entry]:
    """What is wanted, in order: of each stretch the base first; nothing where it is not kept.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    for epoch, first, last in _stretches(database, wanted):
        yield from _entries(database, wanted.shard, epoch, first=first, last=last)


# --- what there is -------------------------------------------------------------------------------------
def _stretches(database: Database, wanted: Wanted) -> list[tuple[int, int, int]]:
    """Term, number of the base, and number of the last cycle."""

    def work(transaction: Transaction) -> list[tuple[int, int, int]]:
        if wanted.version:
            rows = transaction.rows(
                "SELECT epoch, MIN(number) FROM kai_recordings "
                "WHERE shard = ? AND version = ? AND base = 0 AND (? = 0 OR epoch = ?) "
                "GROUP BY epoch ORDER BY MAX(at) DESC, epoch DESC LIMIT 1",
                (wanted.shard, wanted.version, wanted.epoch, wanted.epoch),
            )
            ends = [(int(epoch), int(number)) for epoch, number in rows]
            return [
                (epoch, first, number)
                for epoch, number in ends
                if (first := _base_before(transaction, wanted.shard, epoch, number)) is not None
            ]
        rows = transaction.rows(
            "SELECT epoch, MIN(CASE WHEN base = 0 THEN number END), MIN(number), MAX(number) "
            "FROM kai_recordings WHERE shard = ? AND at >= ? AND at < ? AND (? = 0 OR epoch = ?) "
            "GROUP BY epoch ORDER BY MAX(at), epoch",
            (wanted.shard, wanted.since, min(wanted.until, _END), wanted.epoch, wanted.epoch),
        )
        found = []
        for epoch, cycle, first, last in rows:
            base = None if cycle is None else _base_before(transaction, wanted.shard, int(epoch), int(cycle))
            found.append((int(epoch), int(first) if base is None else base, int(last)))
        return found

    return database.read(work)


def _base_before(transaction: Transaction, shard: str, epoch: int, number: int) -> int | None:
    ((found,),) = transaction.rows(
        "SELECT MAX(number) FROM kai_recordings WHERE shard = ? AND epoch = ? AND base = 1 AND number < ?",
        (shard, epoch, number),
    )
    return None if found is None else int(found)


def _entries(database: Database, shard: str, epoch: int, *, first: int, last: int) -> Iterator[Entry]:
    """From a base on. A cycle comes before the base after it, which has the same number."""
    number, base = first, 1
    while True:
        place = (shard, epoch, number, number, base, last)

        def work(transaction: Transaction, place: tuple[Any, ...] = place) -> list[tuple[Any, ...]]:
            return transaction.rows(
                f"SELECT {_COLUMNS} FROM kai_recordings WHERE shard = ? AND epoch = ? "  # noqa: S608
                "AND (number > ? OR (number = ? AND base >= ?)) AND number <= ? "
                f"ORDER BY number, base LIMIT {_READ_AT_ONCE}",
                place,
            )

        rows = database.read(work)
        for row in rows:
            yield _entry(row)
        if len(rows) < _READ_AT_ONCE:
            return
        number, base = int(rows[-1][2]), int(rows[-1][5]) + 1


def _obsolete(database: Database, *, before: float, most_bytes: int) -> list[tuple[str, int, int, int]]:
    """Stretches that may go, the oldest first: shard, term, number of the base, number of the last cycle."""

    def work(transaction: Transaction) -> list[tuple[Any, ...]]:
        return transaction.rows(
            "SELECT shard, epoch, number, at, base, LENGTH(data) FROM kai_recordings "
            "ORDER BY shard, epoch, number, base"
        )

    stretches: list[_Stretch] = []
    for shard, epoch, number, at, base, length in database.read(work):
        here = stretches[-1] if stretches else None
        if here is None or base or (here.shard, here.epoch) != (shard, epoch):
            here = _Stretch(shard=shard, epoch=int(epoch), first=int(number), at=float(at))
            stretches.append(here)
        here.last, here.at, here.size = int(number), max(here.at, float(at)), here.size + int(length)
    stretches.sort(key=lambda each: each.at)
    newest = {each.shard: each for each in stretches}
    beyond = sum(each.size for each in stretches) - most_bytes
    found = []
    for each in stretches:
        if newest[each.shard] is each or not (each.at < before or beyond > 0):
            continue
        beyond -= each.size
        found.append((each.shard, each.epoch, each.first, each.last))
    return found


@dataclass(slots=True, kw_only=True)
class _Stretch:
    shard: str
    epoch: int
    first: int
    at: float
    last: int = 0
    size: int = 0


def _packed(data: bytes) -> bytes:
    return zlib.compress(data, _LEVEL)


def _entry(row: Sequence[Any]) -> Entry:
    shard, epoch, number, version, at, base, data = row
    return Entry(
        shard=str(shard),
        epoch=int(epoch),
        number=int(number),
        version=int(version),
        at=float(at),
        base=bool(base),
        data=zlib.decompress(bytes(data)),
    )
