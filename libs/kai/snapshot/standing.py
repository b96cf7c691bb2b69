"""What of a state is in no object and no pod, so that a trial which goes on for a while can put it back."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai.model.faults import Fault
from kai.model.ids import PodGroupKey
from kai.snapshot.cluster import Cluster
from kai.snapshot.eviction_refusals import EvictionRefusals
from kai.snapshot.kept import KeptValues
from kai.snapshot.kinds import Kind
from kai.snapshot.refusals import Refusals
from kai.snapshot.rows import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was known and kept beside objects and pods."""

    #: Unix seconds, when time was last looked at.
    now: float
    version: int
    epoch: int
    rows: Mapping[str, Node]
    touched: tuple[PodGroupKey, ...]
    gone: Mapping[PodGroupKey, str]
    faults: Mapping[tuple[Kind, str], Fault]
    refusals: Refusals
    eviction_refusals: EvictionRefusals
    kept: KeptValues


def lend(cluster: Cluster) -> Standing:
    """Note how a cluster stands, and leave it of what is kept only what a trial may have."""
    standing = Standing(
        now=cluster.now,
        version=cluster.version,
        epoch=cluster.nodes.epoch,
        rows=dict(cluster.nodes.by_name),
        touched=tuple(cluster.touched_jobs),
        gone=dict(cluster.gone_jobs),
        faults=dict(cluster.faults),
        refusals=copy.deepcopy(cluster.refusals),
        eviction_refusals=copy.deepcopy(cluster.eviction_refusals),
        kept=cluster.kept,
    )
    cluster.kept = cluster.kept.lent()
    return standing


def take_back(cluster: Cluster, standing: Standing) -> None:
    """Let it stand like that again; objects and pods are as they were by then."""
    cluster.faults.clear()
    cluster.faults.update(standing.faults)
    cluster.refusals = standing.refusals
    cluster.eviction_refusals = standing.eviction_refusals
    touch_only(cluster, standing.touched)
    cluster.gone_jobs = dict(standing.gone)
    cluster.kept = standing.kept
    cluster.version = standing.version
    if cluster.nodes.by_name == standing.rows:  # else what was derived from the nodes is about other rows
        cluster.nodes.epoch = standing.epoch


def touch_only(cluster: Cluster, keys: Iterable[PodGroupKey]) -> None:
    """Just these jobs changed since a cycle looked, as far as they are there."""
    jobs = {key: cluster.jobs[key] for key in keys if key in cluster.jobs}
    cluster.touched_jobs.clear()
    cluster.touched_jobs.update(jobs)
