"""Reading what happened. Answers are the newest first, and bounded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kai.history.databases import Database, Transaction, Value
from kai.history.records import AnyRecord, Cycle, Decision, QueueState, Run, Taking, columns

Found = TypeVar("Found", Run, Taking, Cycle, Decision, QueueState)

#: Most rows that are told at once.
MOST_ROWS: Final = 10_000
#: By which column the rows of a table stand in order, and lie in a span of time.
_TIME: Final[dict[type[AnyRecord], str]] = {
    Run: "began",
    Taking: "at",
    Cycle: "at",
    Decision: "at",
    QueueState: "at",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows are wanted. What is None or empty does not matter."""

    #: A row counts if any of its time lies between these; the first is in, the second is not.
    since: float | None = None
    until: float | None = None
    #: Only these namespaces; an empty collection is none at all.
    namespaces: Collection[str] | None = None
    #: Column -> what it has to say.
    equal: dict[str, str] = field(default_factory=dict)

    def condition(self, kind: type[AnyRecord]) -> tuple[str, list[Value]]:
        """The condition of a table, and its values."""
        parts: list[str] = []
        values: list[Value] = []
        if self.since is not None:
            parts.append("(ended IS NULL OR ended > ?)" if kind is Run else f"{_TIME[kind]} >= ?")
            values.append(float(self.since))
        if self.until is not None:
            parts.append(f"{_TIME[kind]} < ?")
            values.append(float(self.until))
        if self.namespaces is not None:
            parts.append(_one_of("namespace", self.namespaces))
            values += sorted(self.namespaces)
        for column, said in sorted(self.equal.items()):
            assert column in columns(kind), column
            parts.append(f"{column} = ?")
            values.append(said)
        return " AND ".join(parts) or "1 = 1", values


def find(
    database: Database, kind: type[Found], selection: Selection, *, most: int = MOST_ROWS
) -> list[Found]:
    """The newest rows of a table that are wanted.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    condition, values = selection.condition(kind)
    names = columns(kind)
    order = f"{_TIME[kind]} DESC, {', '.join(name for name in kind.key if name != _TIME[kind])}"
    rows = database.read(
        lambda transaction: transaction.rows(
            f"SELECT {', '.join(names)} FROM {kind.table} "  # noqa: S608
            f"WHERE {condition} ORDER BY {order} LIMIT {int(most)}",
            values,
        )
    )
    return [kind(**dict(zip(names, row, strict=True))) for row in rows]


def count(database: Database, kind: type[AnyRecord], selection: Selection) -> int:
    """How many rows of a table are wanted; raises as :func:`find`."""
    condition, values = selection.condition(kind)
    ((found,),) = database.read(
        lambda transaction: transaction.rows(
            f"SELECT COUNT(*) FROM {kind.table} WHERE {condition}",  # noqa: S608
            values,
        )
    )
    return int(found)


def namespaces(
    database: Database, kind: type[AnyRecord], selection: Selection, *, most: int = MOST_ROWS
) -> list[str]:
    """The first namespaces of the rows that are wanted, in order; raises as :func:`find`."""
    condition, values = selection.condition(kind)

    def work(transaction: Transaction) -> Sequence[tuple[str, ...]]:
        return transaction.rows(
            f"SELECT DISTINCT namespace FROM {kind.table} "  # noqa: S608
            f"WHERE {condition} ORDER BY namespace LIMIT {int(most)}",
            values,
        )

    return [row[0] for row in database.read(work)]


def known_namespaces(database: Database, names: Collection[str]) -> frozenset[str]:
    """Those of these namespaces that have runs or decisions; raises as :func:`find`.

    However much history there is, no more of it is read than one row of each.
    """

    def has_rows(transaction: Transaction, kind: type[AnyRecord], name: str) -> bool:
        statement = f"SELECT 1 FROM {kind.table} WHERE namespace = ? LIMIT 1"  # noqa: S608
        return bool(transaction.rows(statement, (name,)))

    return database.read(
        lambda transaction: frozenset(
            name for name in names if any(has_rows(transaction, kind, name) for kind in (Decision, Run))
        )
    )


def _one_of(column: str, wanted: Collection[str]) -> str:
    return f"{column} IN ({', '.join('?' * len(wanted))})" if wanted else "1 = 0"
