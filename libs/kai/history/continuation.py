"""What somebody who records, and was away, has to know of what is recorded already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.history.databases import Database, Transaction
from kai.history.records import Decision, columns

#: Names of pods in one question.
_AT_ONCE: Final = 1000
_DECISION: Final = columns(Decision)


def position(database: Database, shard: str) -> tuple[int, int] | None:
    """Epoch and number of the newest cycle of a shard, of the term that was last; None if none is known.

    Epochs are versions of the API server's store: where that was restored from a backup the last term does
    not have the greatest.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    found = database.read(
        lambda transaction: transaction.rows(
            "SELECT epoch, MAX(cycle) FROM kai_cycles WHERE shard = ? AND epoch = ("
            "SELECT epoch FROM kai_cycles WHERE shard = ? ORDER BY at DESC, epoch DESC LIMIT 1"
            ") GROUP BY epoch",
            (shard, shard),
        )
    )
    return (int(found[0][0]), int(found[0][1])) if found else None


def standing(database: Database, shard: str, *, gone: str) -> list[Decision]:
    """The last word on each pod group of a shard, but for those whose last outcome is ``gone``.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    named = ", ".join(f"d.{name}" for name in _DECISION)
    rows = database.read(
        lambda transaction: transaction.rows(
            f"SELECT {named} FROM kai_decisions d JOIN ("  # noqa: S608
            "SELECT namespace, pod_group, MAX(at) AS newest FROM kai_decisions GROUP BY namespace, pod_group"
            ") AS last ON d.namespace = last.namespace AND d.pod_group = last.pod_group "
            "AND d.at = last.newest WHERE d.shard = ? AND d.outcome <> ?",
            (shard, gone),
        )
    )
    return [Decision(**dict(zip(_DECISION, row, strict=True))) for row in rows]


def recorded(database: Database, pods: Sequence[str]) -> set[str]:
    """Which of these pods (uids) have any run.

    Raises:
        StoreUnavailable: the database does not answer.
    """

    def work(transaction: Transaction) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(pods), _AT_ONCE):
            part = pods[start : start + _AT_ONCE]
            signs = ", ".join("?" * len(part))
            rows = transaction.rows(f"SELECT DISTINCT pod_uid FROM kai_runs WHERE pod_uid IN ({signs})", part)  # noqa: S608
            found.update(row[0] for row in rows)
        return found

    return database.read(work)
