"""The division of the cluster among queues, at the start of a cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from kai.config import SchedulerConfig
from kai.config.plugin_table import ProportionArguments
from kai.engine.fairness.division import divide_forest
from kai.engine.fairness.queues import QueueColumns, QueueForest, QueueShares
from kai.model.arrays import Floats
from kai.model.decisions import ResourceVector
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.state import ClusterState, Kind

_Queues: TypeAlias = tuple[QueueForest, QueueColumns, frozenset[str]]
#: What depends on the queues alone: their tree, their columns, and those that no limit binds.
_QUEUES: Final = Kept[_Queues]()
#: CPU, memory and GPUs that ready nodes offer.
_OFFERED: Final = Kept[Floats](lent=as_it_is)

#: Past use by queue, as fractions of the cluster: CPU, memory, GPU.
Usage: TypeAlias = Mapping[str, ResourceVector]
_UNUSED: Final = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Who may have how much, of what; amounts held are read live."""

    forest: QueueForest
    columns: QueueColumns
    shares: QueueShares
    #: CPU, memory and GPUs that are divided.
    total: Floats
    #: Queues that no limit binds, neither their own nor an ancestor's.
    unlimited: frozenset[str]


def divide_cluster(state: ClusterState, config: SchedulerConfig, *, usage: Usage) -> Division:
    """Divide what ready nodes offer among the queues, less what pods of other schedulers hold.

    Before: the state is settled. After: shares are fixed for the cycle, while ``columns.allocated`` is a
    view of the ledger's and follows every placement. The tree is kept until a queue changes; the division is
    made anew each time.

    Args:
        state: its nodes, queues and what they hold and ask for.
        config: the arguments of ``proportion``.
        usage: past use by queue, as fractions of the cluster; who is missing used nothing.
    """
    forest, columns, unlimited = _QUEUES.get(state.kept, state.versions[Kind.QUEUE], lambda: _queues(state))
    count = len(state.queue_rows)
    columns.allocated = state.ledger.charges.allocated[:count]
    columns.allocated_non_preemptible = state.ledger.charges.non_preemptible[:count]
    if count:
        columns.request[:] = [row.requested for row in state.queue_rows]
        columns.usage[:] = [usage.get(row.name, _UNUSED) for row in state.queue_rows] if usage else 0.0
    total = _total(state)
    columns.fair_share[:] = 0  # that of the cycle before
    arguments = config.arguments(ProportionArguments)
    divide_forest(forest, columns, total, k=arguments.k_value)
    shares = QueueShares.of(columns)
    return Division(
        forest=forest,
        columns=columns,
        shares=shares,
        total=total,
        unlimited=unlimited,
    )


def _queues(state: ClusterState) -> _Queues:
    rows = state.queue_rows
    parent = [row.parent.row if row.parent is not None else -1 for row in rows]
    by_age = sorted(range(len(rows)), key=lambda i: (rows[i].created, rows[i].name))
    rank = [0] * len(rows)
    for age, row_number in enumerate(by_age):
        rank[row_number] = age
    forest = QueueForest(parent, priority=[row.priority for row in rows], rank=rank)
    columns = QueueColumns.zeros(len(rows))
    for number, row in enumerate(rows):
        columns.deserved[number] = row.deserved
        columns.limit[number] = row.limit
        columns.weight[number] = row.weight
    unlimited = frozenset(
        row.name for row in rows if all(bound < 0 for each in row.path for bound in each.limit)
    )
    return forest, columns, unlimited


def _total(state: ClusterState) -> Floats:
    """CPU, memory and GPUs of ready nodes, less what pods of other schedulers hold."""
    offered = _OFFERED.get(state.kept, state.nodes.epoch, lambda: _offered(state))
    now: Floats = offered - np.array(state.foreign.vector())
    return np.maximum(now, 0.0)


def _offered(state: ClusterState) -> Floats:
    table = state.nodes
    ready = np.fromiter((node.ready for node in table.nodes), dtype=bool, count=len(table.nodes))
    offered = table.allocatable[ready]
    gpus = offered[:, GPU].astype(np.float64)
    if state.params.restrict_node_scheduling:
        gpus *= np.fromiter((n.gpu_worker for n in table.nodes if n.ready), dtype=bool, count=len(offered))
    total = gpus.sum()
    for column, worth in state.resources.mig:
        total += worth * float(offered[:, column].sum())
    return np.array([float(offered[:, CPU].sum()), float(offered[:, MEMORY].sum()), total])
