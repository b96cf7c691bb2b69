"""Who used how much: what pods held, times how long they held it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kai.history.databases import Database, Value
from kai.history.questions import Selection
from kai.history.records import Run, means

_HOUR: Final = 3600.0
_GIB: Final = float(2**30)


class By(StrEnum):
    """What a report has a row for."""

    QUEUE = "queue"
    NAMESPACE = "namespace"
    USER = "user"
    WORKLOAD = "workload"

    @property
    def columns(self) -> tuple[str, ...]:
        """Where a run says it. Workloads are told apart by their namespaces."""
        return {
            By.QUEUE: ("queue",),
            By.NAMESPACE: ("namespace",),
            By.USER: ("user_name",),
            By.WORKLOAD: ("namespace", "workload"),
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one of them used."""

    name: str = field(
        metadata=means("Whose: of a workload namespace/Kind/name; empty for runs that say nothing of it.")
    )
    gpu_hours: float = field(metadata=means("Hours of GPUs, of parts of them as parts."))
    cpu_hours: float = field(metadata=means("Hours of CPUs."))
    memory_gib_hours: float = field(metadata=means("Hours of GiB of memory."))
    pods: int = field(metadata=means("Pods that it was."))


def usage(
    database: Database,
    *,
    by: By,
    since: float,
    until: float,
    now: float,
    namespaces: Collection[str] | None = None,
) -> list[Usage]:
    """Who used how much between two moments, the most GPUs first; what still runs counts until the second.

    Args:
        now: nothing counts after it, however late ``until`` is.
        namespaces: only what ran there; None for all.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    until = min(until, now)
    if until <= since:
        return []
    condition, values = Selection(since=since, until=until, namespaces=namespaces).condition(Run)
    named = ", ".join(by.columns)
    # How long a run lasted of that time; written without functions that databases call by different names.
    over = "CASE WHEN ended IS NULL OR ended > ? THEN ? ELSE ended END"
    span = f"({over}) - (CASE WHEN began < ? THEN ? ELSE began END)"
    bounds: list[Value] = [float(until), float(until), float(since), float(since)]
    rows = database.read(
        lambda transaction: transaction.rows(
            f"SELECT {named}, SUM(gpus * span), SUM(cpu_millis * span), SUM(memory_bytes * span), "  # noqa: S608
            "COUNT(DISTINCT pod_uid) "
            f"FROM (SELECT {named}, gpus, cpu_millis, memory_bytes, pod_uid, {span} AS span "
            f"FROM kai_runs WHERE {condition}) AS lasting GROUP BY {named}",
            [*bounds, *values],
        )
    )
    found = [_usage(by, row) for row in rows]
    return sorted(found, key=lambda each: (-each.gpu_hours, -each.cpu_hours, each.name))


def _usage(by: By, row: tuple[object, ...]) -> Usage:
    parts, amounts = row[: len(by.columns)], row[len(by.columns) :]
    gpus, cpu, memory, pods = (float(str(amount)) for amount in amounts)
    return Usage(
        name="/".join(str(part) for part in parts) if parts[-1] else "",
        gpu_hours=gpus / _HOUR,
        cpu_hours=cpu / 1000 / _HOUR,
        memory_gib_hours=memory / _GIB / _HOUR,
        pods=int(pods),
    )
