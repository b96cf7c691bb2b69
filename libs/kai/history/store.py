"""Writing what happened, forgetting what is old, and how large it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from kai.history import recordings
from kai.history.databases import Database, Transaction, Value
from kai.history.records import RECORDS, AnyRecord, Ending, Run, columns, values
from kai.history.schema import migrate, note

#: What is forgotten at once: others write between two such parts.
_FORGOTTEN_SECONDS: Final = 6 * 3600.0
_SEEN: Final = "seen"


@dataclass(frozen=True, slots=True)
class Size:
    """How much a store holds."""

    size_bytes: int
    #: Rows by table.
    rows: dict[str, int]
    #: The time of the oldest cycle, and of the newest; None without any.
    oldest: float | None
    newest: float | None
    #: Of all these bytes those of recorded cycles, which are kept for hours only.
    recorded_bytes: int = 0

    @property
    def bytes_per_day(self) -> float | None:
        """What a day takes, by what there is; None before there is an hour of it."""
        if self.oldest is None or self.newest is None or self.newest - self.oldest < 3600.0:
            return None
        return (self.size_bytes - self.recorded_bytes) / ((self.newest - self.oldest) / 86400.0)


class Store:
    """A store of this version; see :func:`open_store`. All that it does raises ``StoreUnavailable``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def prepare(self) -> bool:
        """Make the tables, or bring them to this version, where they are not; whether there were none.

        Raises:
            SchemaTooNew: they are of a newer version.
        """
        return migrate(self.database) == 0

    def add(self, records: Iterable[AnyRecord], *, seen: float | None = None) -> None:
        """Write records, all or none; one that is there already is replaced.

        Args:
            records: of one key the last one counts.
            seen: until when what goes on was looked at.
        """
        newest = {(type(each), _key(each)): each for each in records}
        by_kind = sorted(newest.values(), key=lambda each: each.table)

        def work(transaction: Transaction) -> None:
            for _, group in groupby(by_kind, key=lambda each: each.table):
                _upsert(transaction, list(group), most=self.database.most_values)
            if seen is not None:
                note(transaction, _SEEN, repr(seen))

        self.database.write(work)

    def seen(self) -> float | None:
        """Until when what goes on was looked at; None if it never was."""

        def work(transaction: Transaction) -> float | None:
            found = transaction.rows("SELECT said FROM kai_notes WHERE name = ?", (_SEEN,))
            return float(found[0][0]) if found else None

        return self.database.read(work)

    def open_runs(self) -> list[Run]:
        """Runs that had not ended when they were last written."""
        names = ", ".join(columns(Run))
        found = self.database.read(
            lambda transaction: transaction.rows(f"SELECT {names} FROM kai_runs WHERE ended IS NULL")  # noqa: S608
        )
        return [Run(**dict(zip(columns(Run), row, strict=True))) for row in found]

    def forget(self, *, before: float) -> int:
        """Remove what was over before a moment; how many rows. What lasts stays, however old it is."""
        removed = 0
        for kind in RECORDS:
            time = "ended" if kind is Run else "at"
            for until in self._parts(kind.table, time, before):
                removed += self._remove(kind.table, time, until)
        if removed:
            self.database.reclaim()
        return removed

    def _remove(self, table: str, time: str, until: float) -> int:
        return self.database.write(
            lambda transaction: transaction.execute(f"DELETE FROM {table} WHERE {time} < ?", (until,))  # noqa: S608
        )

    def _parts(self, table: str, time: str, before: float) -> Iterator[float]:
        ((oldest,),) = self.database.read(
            lambda transaction: transaction.rows(f"SELECT MIN({time}) FROM {table}")  # noqa: S608
        )
        if oldest is None:
            return
        until = float(oldest) + _FORGOTTEN_SECONDS
        while until < before:
            yield until
            until += _FORGOTTEN_SECONDS
        if oldest < before:
            yield before

    def size(self) -> Size:
        """How large it is."""

        def work(transaction: Transaction) -> tuple[dict[str, int], float | None, float | None]:
            counted = {
                kind.table: int(transaction.rows(f"SELECT COUNT(*) FROM {kind.table}")[0][0])  # noqa: S608
                for kind in RECORDS
            }
            ((oldest, newest),) = transaction.rows("SELECT MIN(at), MAX(at) FROM kai_cycles")
            return counted, oldest, newest

        counted, oldest, newest = self.database.read(work)
        return Size(
            size_bytes=self.database.size(),
            rows=counted,
            oldest=oldest,
            newest=newest,
            recorded_bytes=recordings.size(self.database),
        )

    def close(self) -> None:
        """End all connections."""
        self.database.close()


def open_store(database: Database) -> Store:
    """The store in a database, made or brought to this version.

    Raises:
        SchemaTooNew: it is of a newer version.
        StoreUnavailable: the database does not answer.
    """
    store = Store(database)
    store.prepare()
    return store


def ended(run: Run, *, at: float, ending: str = Ending.DELETED) -> Run:
    """A run that is over: not before it began."""
    return replace(run, ended=max(at, run.began), ending=ending)


def _key(record: AnyRecord) -> tuple[Value, ...]:
    return tuple(getattr(record, name) for name in record.key)


def _upsert(transaction: Transaction, records: Sequence[AnyRecord], *, most: int) -> None:
    kind = type(records[0])
    names = columns(kind)
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in kind.key)
    one = f"({', '.join('?' * len(names))})"
    at_once = most // len(names)
    for start in range(0, len(records), at_once):
        part = records[start : start + at_once]
        transaction.execute(
            f"INSERT INTO {kind.table} ({', '.join(names)}) VALUES {', '.join([one] * len(part))} "  # noqa: S608
            f"ON CONFLICT ({', '.join(kind.key)}) DO UPDATE SET {updates}",
            [value for record in part for value in values(record)],
        )
