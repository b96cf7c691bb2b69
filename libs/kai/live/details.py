"""One node, the pods of one workload, and names of those who hold something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kai.live.board import READY, SET_ASIDE, Board, why_not
from kai.live.devices import Seats, places_of, share_percent
from kai.live.groups import tasks_of, user_of, workload_of
from kai.live.told import NamedGroup, NamedGroups, NodeTold, Offer, PodOfGroup, PodOnNode
from kai.live.views import Sight
from kai.model.ids import PodGroupKey
from kai.model.objects import Taint
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.resources import CPU, MEMORY
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import ACTIVE_USED
from kai.snapshot.times import rfc3339

#: Pods that are told of one workload.
MOST_PODS: Final = 2000
_PERCENT: Final = 100


def node(state: ClusterState, board: Board, name: str, sight: Sight) -> NodeTold | None:
    """A node and who is on it; None if there is none of this name."""
    index, row = board.index.get(name), state.nodes.by_name.get(name)
    if index is None or row is None:
        return None
    structure = board.structure
    assert structure is not None
    seats = board.seats[index]
    tasks = [task for task in row.tasks.values() if task.node is row]
    seen = [task for task in tasks if sight is None or task.namespace in sight]
    return NodeTold(
        name=name,
        state=board.states[index],
        why=_why(state, row, board.states[index]),
        domain=structure.domains.path(structure.domain[index]),
        model=structure.models[structure.model[index]],
        gpus=structure.gpus[index],
        gpus_used=seats.used_centi / GPU_CENTI,
        taints=[_taint(each) for each in row.object.spec.taints or ()],
        cpu=_offer(state, row, CPU),
        memory=_offer(state, row, MEMORY),
        hidden=len(tasks) - len(seen),
        pods=[
            _on_node(task, row, seats)
            for task in sorted(seen, key=lambda task: (places_of(seats, task) or [len(seats.ids)], task.key))
        ],
    )


def _offer(state: ClusterState, row: Node, column: int) -> Offer:
    table = state.nodes
    offered = int(table.allocatable[row.row, column])
    return Offer(offered=offered, allocated=offered - int(table.idle[row.row, column]))


def _why(state: ClusterState, row: Node, condition: int) -> str:
    if condition == READY:
        return ""
    if condition == SET_ASIDE:
        until = state.refusals.closed(state.now).get("", {}).get(row.name)
        when = f" until {rfc3339(until)}" if until is not None else ""
        return f"it refused the last pods that it was given, and gets none{when}"
    return why_not(row)


def _on_node(task: Task, row: Node, seats: Seats) -> PodOnNode:
    job = task.job
    return PodOnNode(
        namespace=task.namespace,
        name=task.name,
        pod_group=job.name if job is not None else "",
        queue=job.facts.queue if job is not None else "",
        gpus=gpus_of(task),
        devices=places_of(seats, task),
        portion=share_percent(task, row) / _PERCENT if task.cls.shared else None,
        state=task.status.label,
        since=task.created,
        preemptible=job is not None and job.preemptible,
    )


def gpus_of(task: Task) -> float:
    """GPUs that a pod has, or asks for where it has none yet."""
    where = task.node or task.pipelined_node
    return (
        task.cls.charge(where.gpu_memory_mib).gpu_centi / GPU_CENTI
        if where
        else task.cls.gpu_centi / GPU_CENTI
    )


def pods(board: Board, job: Job) -> tuple[list[PodOfGroup], bool]:
    """The pods of a workload in order, and whether there are more than are told."""
    found = sorted(tasks_of(job), key=lambda task: task.order)
    return [_of_group(board, task) for task in found[:MOST_PODS]], len(found) > MOST_PODS


def _of_group(board: Board, task: Task) -> PodOfGroup:
    here = task.node if ACTIVE_USED[task.status] else None
    index = board.index.get(here.name) if here is not None else None
    return PodOfGroup(
        name=task.name,
        state=task.status.label,
        node=here.name if here is not None else "",
        devices=places_of(board.seats[index], task) if index is not None else [],
        gpus=gpus_of(task),
        since=task.created,
        sub_group=task.facts.sub_group if task.facts is not None else "",
    )


def groups(state: ClusterState, board: Board, numbers: Iterable[int], sight: Sight) -> NamedGroups:
    """Who the holders of these numbers are; those that are gone are left out."""
    items: list[NamedGroup] = []
    hidden = 0
    for number in numbers:
        holder = board.numbers.holder(number)
        if holder is None:
            continue
        if sight is not None and holder.namespace not in sight:
            hidden += 1
            continue
        key = PodGroupKey(holder.key)
        job = state.jobs.get(key) if holder.is_group else None
        group = state.group_objects.get(key) if holder.is_group else None
        items.append(
            NamedGroup(
                key=number,
                namespace=holder.namespace,
                name=holder.name,
                workload=workload_of(group) if holder.is_group else f"Pod/{holder.name}",
                user=user_of(group),
                queue=job.facts.queue if job is not None else "",
            )
        )
    return NamedGroups(numbering=board.numbers.name, items=items, hidden=hidden)


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
