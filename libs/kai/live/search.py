"""Nodes, workloads and queues by parts of their names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kai.live.board import Board
from kai.live.groups import workload_of
from kai.live.holders import Holder
from kai.live.told import Findings, Found
from kai.live.views import Sight
from kai.snapshot.state import ClusterState


def search(state: ClusterState, board: Board, text: str, sight: Sight, *, limit: int) -> Findings:
    """What has this text in its name, in any case: queues, then nodes, then workloads that one may see.

    Costs time by the number of all of them.
    """
    found = list(islice(_found(state, board, text.casefold(), sight), limit + 1))
    return Findings(items=found[:limit], more=len(found) > limit)


def _found(state: ClusterState, board: Board, text: str, sight: Sight) -> Iterator[Found]:
    structure = board.structure
    assert structure is not None
    for name, shown, _, _ in structure.queues:
        if text in name.casefold() or text in shown.casefold():
            yield _item("queue", "", name)
    for index, name in enumerate(structure.name):
        if text in name.casefold():
            yield _item("node", "", name, node=index)
    for job in state.jobs.values():
        if sight is not None and job.namespace not in sight:
            continue
        if text in job.key.casefold() or text in workload_of(state.group_objects.get(job.key)).casefold():
            number = board.numbers.known(Holder(job.namespace, job.name))
            held = number if number in board.holders else None
            yield _item("group", job.namespace, job.name, key=held)


def _item(kind: str, namespace: str, name: str, *, node: int | None = None, key: int | None = None) -> Found:
    return Found(kind=kind, namespace=namespace, name=name, node=node, key=key)
