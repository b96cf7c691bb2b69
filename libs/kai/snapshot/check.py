"""The invariants of the state, as code: every sum is recomputed from the rows and compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kai.snapshot.amounts import SharedDevice, Totals
from kai.snapshot.cluster import Cluster
from kai.snapshot.core import Holdings
from kai.snapshot.resources import GPU, PODS
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, ACTIVE_USED, ALIVE, Status


def check_state(state: Cluster) -> None:
    """Assert that nodes, pod groups and queues are charged for exactly what their tasks hold."""
    for node in state.nodes.nodes:
        _check_node(state, node)
    assert {name for name, node in state.nodes.by_name.items() if node.groups} == set(state.nodes.sharing)
    for job in state.jobs.values():
        _check_job(job)
    _check_queues(state)
    _check_elsewhere(state)
    pending = {key for key, job in state.jobs.items() if job.pending}
    waiting = {
        key for key, job in state.jobs.items() if any(each.pipelined for each in job.pod_sets.values())
    }
    assert pending <= set(state.pending_jobs) <= pending | waiting, "jobs with pending tasks"


def _check_elsewhere(state: Cluster) -> None:
    for key in state.elsewhere.keys() - state.unsettled.keys():
        here = any(task.node is not None for task in state.members.get(key, {}).values())
        assert here is (key in state.jobs), (key, "of another pool counts where it has pods")


def _check_node(state: Cluster, node: Node) -> None:
    table = state.nodes
    assert table.nodes[node.row] is node, node.name
    idle = table.allocatable[node.row].copy()
    releasing = np.zeros_like(idle)
    devices: dict[str, SharedDevice] = {}
    for task in node.tasks.values():
        size = task.cls.part_mib(node.gpu_memory_mib)
        for key, gpus in task.claims:
            assert task.bare or node.claims[key].gpus == gpus, (node.name, key, "charged as it was")
        if task.node is node:
            idle -= _vector(state, node, task)
            releasing += _vector(state, node, task) * bool(task.releasing)
            if task.facts is not None and task.facts.reservation:
                for group in task.facts.group_ids:
                    devices.setdefault(group, SharedDevice()).reservation_pods += 1
            for group in task.groups:
                device = devices.setdefault(group, SharedDevice())
                device.held_mib += size
                device.releasing_mib += size * bool(task.releasing)
        if task.pipelined_node is node:
            releasing -= _vector(state, node, task)
            for group in task.pipelined_groups:
                devices.setdefault(group, SharedDevice()).pipelined_mib += size
    for device in devices.values():
        taken, waits = device.held_mib > 0 or device.reservation_pods > 0, device.pipelined_mib > 0
        leaves = device.held_mib == device.releasing_mib
        idle[GPU] -= taken
        releasing[GPU] += (taken and leaves and not waits) - (not taken and waits)
        if table.allocatable[node.row, PODS] > 0 and not device.reservation_pods:
            idle[PODS] -= taken
            releasing[PODS] += (taken and leaves and not waits) - (not taken and waits)
    for claim in node.claims.values():
        taken, waits = claim.users > 0, claim.pipelined_users > 0
        leaves = claim.users == claim.releasing_users
        idle[GPU] -= claim.gpus * taken
        releasing[GPU] += claim.gpus * ((taken and leaves and not waits) - (not taken and waits))
    assert devices == node.groups, (node.name, devices, node.groups)
    assert (idle == table.idle[node.row]).all(), (node.name, "idle", idle, table.idle[node.row])
    assert (releasing == table.releasing[node.row]).all(), (
        node.name,
        "releasing",
        releasing,
        table.releasing[node.row],
    )


def _vector(state: Cluster, node: Node, task: Task) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    vector = np.zeros(state.nodes.allocatable.shape[1], dtype=np.int64)
    for column, amount in task.cls.items:
        reservation = column == GPU and task.facts is not None and task.facts.reservation
        if state.nodes.allocatable[node.row, column] > 0 and not reservation:
            vector[column] = amount
    return vector


def _check_job(job: Job) -> None:
    total = 0
    for pod_set in job.pod_sets.values():
        statuses = [task.status for task in pod_set.tasks.values()]
        assert pod_set.pending == statuses.count(Status.PENDING), job.key
        assert pod_set.gated == statuses.count(Status.GATED), job.key
        assert pod_set.pipelined == statuses.count(Status.PIPELINED), job.key
        assert pod_set.active_allocated == sum(ACTIVE_ALLOCATED[status] for status in statuses), job.key
        assert pod_set.active_used == sum(ACTIVE_USED[status] for status in statuses), job.key
        assert pod_set.alive == sum(ALIVE[status] for status in statuses), job.key
        total += pod_set.pending
    assert job.pending == total, job.key


class _Sums(NamedTuple):
    """What a queue holds, what of that nobody may take, and what is asked for, by what the rows say."""

    held: Totals
    fixed: Totals
    asked: Totals


def _check_queues(state: Cluster) -> None:
    sums = {queue.name: _Sums(Totals(), Totals(), Totals()) for queue in state.queue_rows}
    for job in state.jobs.values():
        core = {task.uid for task in Holdings(job).core()} if job.semi_preemptible else None
        for pod_set in job.pod_sets.values():
            for task in pod_set.tasks.values():
                kept = not job.preemptible if core is None else task.uid in core
                _add_up(state, job, task, sums, kept=kept)
    for queue in state.queue_rows:
        held, fixed, asked = sums[queue.name]
        assert queue.allocated == held, (queue.name, "allocated", queue.allocated, held)
        assert queue.non_preemptible == fixed, (queue.name, "non-preemptible", queue.non_preemptible, fixed)
        assert queue.pending == asked, (queue.name, "pending", queue.pending, asked)
        mirror = state.ledger.charges.allocated[queue.row].tolist()
        assert mirror == [float(each) for each in held.vector()], (queue.name, mirror, held)
        mirror = state.ledger.charges.non_preemptible[queue.row].tolist()
        assert mirror == [float(each) for each in fixed.vector()], (queue.name, mirror, fixed)


def _add_up(state: Cluster, job: Job, task: Task, sums: Mapping[str, _Sums], *, kept: bool) -> None:
    assert (task.charged is not None) == ACTIVE_ALLOCATED[task.status], (task.key, task.status, task.charged)
    assert (task.lingering is not None) == (task.status is Status.LINGERING), (task.key, task.status)
    asked = task.cls.charge(state.min_gpu_memory_mib)
    evicting = task.facts is not None and task.facts.evicting
    waits = task.status is Status.PENDING or (task.status is Status.PIPELINED and not evicting)
    for queue in job.queue.path:
        found = sums[queue.name]
        if task.charged is not None:
            found.held.add(task.charged)
            found.fixed.add(task.charged, times=kept)
        if task.lingering is not None:
            found.held.add(task.lingering)
            found.fixed.add(task.lingering, times=kept)
        if waits:
            found.asked.add(asked)
