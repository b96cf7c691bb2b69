"""What insight tells beside the picture of a cluster, in the form that it has as JSON."""

from __future__ import annotations

from kai.live.told import Told


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
