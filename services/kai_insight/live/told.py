"""What insight tells beside the picture of a cluster, in the form that it has as JSON."""

from __future__ import annotations

from typing import Any

from kai.live.told import GroupRow, PodOfGroup, Told


class Sees(Told, frozen=True, kw_only=True):
    """What who asks may list everywhere."""

    nodes: bool
    queues: bool
    all_namespaces: bool


class ShardTold(Told, frozen=True, kw_only=True):
    """A shard; without version nothing is known of it, and ``reason`` says why."""

    name: str
    version: str
    reason: str
    at: float
    nodes: int
    gpus: int
    gpus_used: float
    pods: int
    waiting: int


class Overview(Told, frozen=True, kw_only=True):
    """Who asks, whom (``insight`` or ``kubeconfig``), and about what."""

    release: str
    source: str
    user: str
    history: bool
    sees: Sees
    shards: list[ShardTold]


class WorkloadTold(Told, frozen=True, kw_only=True):
    """One pod group and its pods; ``answer`` is that of ``kai explain -o json``, or why there is none."""

    answer: dict[str, Any] | None
    reason: str
    group: GroupRow
    pods: list[PodOfGroup]
    more: bool


class ForecastTold(Told, frozen=True, kw_only=True):
    """When it starts, as in the answer of ``kai explain -o json``; or why that is not said."""

    forecast: dict[str, Any] | None
    reason: str


class WhatIfTold(Told, frozen=True, kw_only=True):
    """What would follow, as ``kai what-if -o json`` prints it."""

    now: str
    changes: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    workloads: list[dict[str, Any]]
    events: list[dict[str, Any]]
    evicted: list[str]
    started: list[str]
    deleted: list[str]
    more_after: float | None


class ProcessTold(Told, frozen=True, kw_only=True):
    """Who holds a Lease of ours; ``late``: it should have been renewed by now."""

    name: str
    holder: str
    since: float
    renewed: float
    late: bool
    release: str


class CycleTimes(Told, frozen=True, kw_only=True):
    """Of the cycles of the last minutes: how many, and how long it took to decide them again."""

    per_minute: float
    p50_seconds: float
    p99_seconds: float


class SetAside(Told, frozen=True, kw_only=True):
    """An object that the scheduler goes on without."""

    kind: str
    key: str
    reason: str


class ShardHealth(Told, frozen=True, kw_only=True):
    """How well a shard is followed; ``lag`` is from a cycle to when it had been decided again, in seconds."""

    name: str
    version: str
    reason: str
    at: float
    lag: float
    cycles: CycleTimes | None
    replayed: int
    differing: int
    set_aside: list[SetAside]


class Coverage(Told, frozen=True, kw_only=True):
    """Of so many forecasts that are decided, how many held."""

    held: int
    of: int


class Forecasts(Told, frozen=True, kw_only=True):
    """By quantile."""

    p50: Coverage
    p90: Coverage


class StoreTold(Told, frozen=True, kw_only=True):
    """That the store does not answer, as its log says why; empty while it does."""

    trouble: str


class Health(Told, frozen=True, kw_only=True):
    """Processes, shards, forecasts and the store; what is not known here is null."""

    processes: list[ProcessTold]
    shards: list[ShardHealth]
    forecasts: Forecasts | None
    store: StoreTold | None
