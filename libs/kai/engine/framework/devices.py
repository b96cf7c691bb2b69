"""Which devices of a node a shared-GPU pod gets."""

from __future__ import annotations

from typing import Final

from kai.engine.kernel.view import ScoreOptions
from kai.engine.packing.columns import ClassHeadroom
from kai.model.ids import GpuGroup, derived_uuid
from kai.snapshot.resources import GPU, PODS
from kai.snapshot.rows import Node, Task
from kai.snapshot.table import NodeTable

#: Of a whole device, which has no group yet.
_ANOTHER: Final = GpuGroup("")


def choose(
    table: NodeTable, node: Node, task: Task, *, options: ScoreOptions, wait: bool
) -> tuple[tuple[GpuGroup, ...], bool] | None:
    """Group ids for all devices of a pod, and whether it can start now; None if they do not suffice.

    Before: the pod asks for parts of devices, and the node passed all other filters. Nothing changes. Devices
    in use come in the order of the configured strategy; equal ones by what has room now, then by id. Of whole
    ones, those that a reservation pod still holds for nobody come first. Those that have room only when pods
    of another queue have left come last of all: how long these take is for others to say. With ``wait``
    nothing can start now.
    """
    cls = task.cls
    memory = node.gpu_memory_mib
    size = cls.part_mib(memory)
    candidates: list[tuple[bool, float, int, GpuGroup]] = []
    spare = []
    for group, device in node.groups.items():
        if device.unused:
            spare.append(group)
        elif device.joinable(memory, size):
            used = device.held_mib + device.pipelined_mib
            late = 0 if device.room_now(memory, size) else 1
            held_up = late == 1 and not wait and leaves(node, to=task, device=group)
            candidates.append((held_up, -_weight(used, memory, options), late, group))
    idle = table.cells_idle[node.row, GPU]
    whole = max(idle + table.cells_releasing[node.row, GPU], 0) if size <= memory else 0
    idle = max(idle, 0) + len(spare)
    fresh = -1.0 if options.gpu_order_spread else 0.0
    held_up = whole > idle and not wait and leaves(node, to=task)
    for number in range(min(whole, cls.devices)):
        late = 0 if number < idle else 1
        candidates.append((held_up and late == 1, fresh, late, _ANOTHER))
    if len(candidates) < cls.devices:
        return None
    best = None
    if options.gpu_headroom and options.headroom is not None and cls.devices == 1:
        best = ClassHeadroom(options.headroom, cls).device(node)
    candidates.sort(
        key=lambda each: (each[0], each[3] != best, each[1], each[2], each[3] == _ANOTHER, each[3])
    )
    chosen = candidates[: cls.devices]
    reserved = 0
    if options.pod_slots:  # each device taken into sharing has a reservation pod, which comes first
        reserved = max(sum(group == _ANOTHER for *_, group in chosen) - len(spare), 0)
    now = (
        not wait
        and not any(late for _, _, late, _ in chosen)
        and _others_fit_now(table, node, task, reserved=reserved)
    )
    spare.sort(reverse=True)
    groups: list[GpuGroup] = []
    for *_, group in chosen:
        groups.append(group or (spare.pop() if spare else new_group(node, task, taken=groups)))
    return tuple(groups), now


def leaves(node: Node, *, to: Task, device: GpuGroup | None = None) -> bool:
    """Whether a pod is leaving the node that is of another queue than the task that may wait for its place.

    ``device``: only of those that have a part of this one.
    """
    queue = to.job.queue if to.job is not None else None
    return any(
        each.releasing and (each.job is None or each.job.queue is not queue)
        for each in node.tasks.values()
        if device is None or device in each.groups
    )


def new_group(node: Node, task: Task, *, taken: list[GpuGroup]) -> GpuGroup:
    """An id for a device taken into sharing: the same for the same inputs, and used by no device alive.

    It follows from the node, the pod and the position among its devices, and from a generation that skips
    what the node still has.
    """
    generation = 0
    while True:
        group = GpuGroup(str(derived_uuid(f"{node.name}/{task.uid}/{len(taken)}/{generation}")))
        if group not in node.groups and group not in taken:
            return group
        generation += 1


def _weight(used: int, memory: int, options: ScoreOptions) -> float:
    if options.gpu_order_spread:
        return 1.0 - used / memory
    return used / memory if options.gpu_pack else 0.0


def _others_fit_now(table: NodeTable, node: Node, task: Task, *, reserved: int) -> bool:
    """Whether all else that the pod asks for is idle; ``reserved`` of the pod slots are not for it."""
    idle, row = table.cells_idle, node.row
    return idle[row, PODS] > reserved and all(
        idle[row, column] >= amount for column, amount in task.cls.items
    )
