"""The tables, and how a store of an older version becomes one of this.

What stands here for a version is never edited: stores were made by it. A change is one more version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.history.databases import Database, Transaction
from kai.history.errors import SchemaTooNew

Steps = Sequence[str]

_FIRST: Final[Steps] = (
    """
    CREATE TABLE kai_runs (
        pod_uid TEXT NOT NULL,
        began DOUBLE PRECISION NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        namespace TEXT NOT NULL,
        pod TEXT NOT NULL,
        pod_group TEXT NOT NULL,
        queue TEXT NOT NULL,
        user_name TEXT NOT NULL,
        workload TEXT NOT NULL,
        node TEXT NOT NULL,
        cpu_millis BIGINT NOT NULL,
        memory_bytes BIGINT NOT NULL,
        gpus DOUBLE PRECISION NOT NULL,
        ended DOUBLE PRECISION,
        ending TEXT NOT NULL,
        PRIMARY KEY (pod_uid, began)
    )
    """,
    "CREATE INDEX kai_runs_by_end ON kai_runs (ended)",
    "CREATE INDEX kai_runs_by_namespace ON kai_runs (namespace, began)",
    "CREATE INDEX kai_runs_by_queue ON kai_runs (queue, began)",
    """
    CREATE TABLE kai_evictions (
        pod_uid TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        shard TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        cycle BIGINT NOT NULL,
        namespace TEXT NOT NULL,
        pod TEXT NOT NULL,
        pod_group TEXT NOT NULL,
        queue TEXT NOT NULL,
        action TEXT NOT NULL,
        gpus DOUBLE PRECISION NOT NULL,
        for_namespace TEXT NOT NULL,
        for_pod_group TEXT NOT NULL,
        for_queue TEXT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (pod_uid, at)
    )
    """,
    "CREATE INDEX kai_evictions_by_time ON kai_evictions (at)",
    """
    CREATE TABLE kai_cycles (
        shard TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        cycle BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        binds BIGINT NOT NULL,
        evictions BIGINT NOT NULL,
        nominations BIGINT NOT NULL,
        outcomes BIGINT NOT NULL,
        waiting BIGINT NOT NULL,
        PRIMARY KEY (shard, epoch, cycle)
    )
    """,
    "CREATE INDEX kai_cycles_by_time ON kai_cycles (at)",
    """
    CREATE TABLE kai_decisions (
        namespace TEXT NOT NULL,
        pod_group TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        shard TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        cycle BIGINT NOT NULL,
        queue TEXT NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (namespace, pod_group, at)
    )
    """,
    "CREATE INDEX kai_decisions_by_time ON kai_decisions (at)",
    """
    CREATE TABLE kai_queue_states (
        queue TEXT NOT NULL,
        shard TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        parent TEXT NOT NULL,
        quota_gpus DOUBLE PRECISION NOT NULL,
        limit_gpus DOUBLE PRECISION NOT NULL,
        fair_share_gpus DOUBLE PRECISION NOT NULL,
        allocated_gpus DOUBLE PRECISION NOT NULL,
        requested_gpus DOUBLE PRECISION NOT NULL,
        allocated_cpu_millis DOUBLE PRECISION NOT NULL,
        allocated_memory_bytes DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (queue, shard, at)
    )
    """,
    "CREATE INDEX kai_queue_states_by_time ON kai_queue_states (at)",
)

_RECORDINGS: Final[Steps] = (
    """
    CREATE TABLE kai_recordings (
        shard TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        number BIGINT NOT NULL,
        version BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        base BIGINT NOT NULL,
        data BYTEA NOT NULL,
        PRIMARY KEY (shard, epoch, number, base)
    )
    """,
    "CREATE INDEX kai_recordings_by_session ON kai_recordings (shard, version)",
    "CREATE INDEX kai_recordings_by_time ON kai_recordings (shard, at)",
)

#: Version 1 is the first.
MIGRATIONS: Final[Sequence[Steps]] = (_FIRST, _RECORDINGS)


def migrate(database: Database, migrations: Sequence[Steps] = MIGRATIONS) -> int:
    """Make the store one of the newest version, all steps or none; the version that it had (0: it was empty).

    Raises:
        SchemaTooNew: it is of a newer version.
        StoreUnavailable: the database does not answer.
    """

    def work(transaction: Transaction) -> int:
        transaction.execute(
            "CREATE TABLE IF NOT EXISTS kai_notes (name TEXT PRIMARY KEY, said TEXT NOT NULL)"
        )
        found = transaction.rows("SELECT said FROM kai_notes WHERE name = 'version'")
        version = int(found[0][0]) if found else 0
        if version > len(migrations):
            raise SchemaTooNew(
                f"history in {database.shown} has version {version}, and this kai knows {len(migrations)}; "
                "run the newer one, or give it an empty store"
            )
        for steps in migrations[version:]:
            for step in steps:
                transaction.execute(step)
        if version < len(migrations):
            note(transaction, "version", str(len(migrations)))
        return version

    return database.write(work)


def note(transaction: Transaction, name: str, said: str) -> None:
    """Keep a single value."""
    transaction.execute(
        "INSERT INTO kai_notes (name, said) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET said = excluded.said",
        (name, said),
    )
