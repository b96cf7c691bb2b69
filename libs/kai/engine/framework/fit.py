"""How many nodes reject a pod, and why."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from kai.engine.framework.session import Session
from kai.model.arrays import Ints, Mask
from kai.snapshot.kept import Kept
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS
from kai.snapshot.rows import Task

_SHORT: Final = "Insufficient "
_KINDS = {CPU: "CPU cores", MEMORY: "memory", GPU: "GPUs"}
#: What is told of nodes beside the domain of a topology that is looked at.
OUTSIDE_DOMAIN: Final = "node is outside the topology domain"
#: Alerts and the end-to-end tests of the KAI Scheduler look for these words in the event of a pod.
_NO_SLOT: Final = "node(s) pod number exceeded"
#: The one that uses it, and the one that reserves it.
_PODS_OF_A_NEW_DEVICE: Final = 2
Counts = tuple[tuple[str, int], ...]
#: By class, while no node changes.
_COUNTS: Final = Kept[dict[int, Counts]]()


def fit_counts(session: Session, task: Task, *, nodes: Mask | None, masks: list[tuple[Mask, str]]) -> Counts:
    """Nodes by the first reason that rejects them, sorted by reason.

    Every node counts under static reasons first, then resources, then ``masks``; one short of several
    resources counts for each of them. Without ``nodes`` and ``masks`` the answer is kept by class until a
    node changes.

    Args:
        session: whose nodes.
        task: the pod that found no place.
        nodes: ``[nodes]`` those that its topology allows; None for all.
        masks: ``[nodes]`` those that passed a filter, each with the reason for the others.
    """
    plain = nodes is None and not masks
    known = _COUNTS.get(session.memo, session.nodes.log_end, dict)
    if plain and task.cls.id in known:
        return known[task.cls.id]
    verdict = node_verdicts(session, task, nodes=nodes, masks=masks)
    counts: Counter[str] = Counter()
    for reasons in verdict:
        counts.update(reasons)
    found = tuple(sorted(counts.items()))
    if plain:
        known[task.cls.id] = found
    return found


def node_verdicts(
    session: Session, task: Task, *, nodes: Mask | None, masks: list[tuple[Mask, str]]
) -> list[tuple[str, ...]]:
    """For each node, in the order of rows, why it rejects the task; empty where it does not.

    Arguments as of :func:`fit_counts`. Costs time by the number of nodes; nothing is kept.
    """
    count = len(session.nodes)
    reasons: list[tuple[str, ...]] = [()] * count
    open_rows = np.ones(count, dtype=bool)

    def reject(passed: Mask, why: str) -> None:
        for row in np.flatnonzero(open_rows & ~passed).tolist():
            reasons[row] = (why,)
        np.logical_and(open_rows, passed, out=open_rows)

    if nodes is not None:
        reject(nodes, OUTSIDE_DOMAIN)
    for why, passed in session.static.verdicts(task.cls):
        reject(passed, why)
    free = session.nodes.idle + session.nodes.releasing
    for row in np.flatnonzero(open_rows).tolist():
        short = [
            _NO_SLOT if column == PODS else f"{_SHORT}{_KINDS.get(column, name)}"
            for column, amount in task.cls.items
            if free[row, column] < amount
            for name, _ in session.state.resources.named_amounts(
                column, amount=amount, unoffered=task.cls.unoffered
            )
        ]
        if not short and task.cls.shared and session.view(task.cls).score_of(row) == -np.inf:
            short = [_shared_shortage(task, free[row])]
        if short:
            reasons[row] = tuple(short)
            open_rows[row] = False
    for passed, why in masks:
        reject(passed, why)
    return reasons


def is_shortage(reason: str) -> bool:
    """Whether a node's reason, as told by :func:`node_verdicts`, is that it has too little of something."""
    return reason == _NO_SLOT or reason.startswith(_SHORT)


def _shared_shortage(task: Task, free: Ints) -> str:
    """What a part of a GPU lacks where there is enough of each resource by itself."""
    if free[GPU] >= 1 and free[PODS] < _PODS_OF_A_NEW_DEVICE:
        return _NO_SLOT
    return f"{_SHORT}GPU memory" if task.cls.gpu_memory_mib else f"{_SHORT}{_KINDS[GPU]}"
