"""What a pod refers to must exist, and no pod may ask for more than any node of the pool has."""

from __future__ import annotations

from typing import Final

import numpy as np

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import NodeFilter, PreFilter, Readiness
from kai.engine.plugins.predicates.leaving import others_on
from kai.engine.reasons.amounts import amount_text
from kai.model.words import listed
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.state import Kind

#: ``[resources]`` the most that any node has.
_LARGEST: Final = Kept[list[int]](lent=as_it_is)


class LargestNode(PreFilter):
    """A request above the pool's largest node in some resource cannot ever fit."""

    def __init__(self, handle: Handle) -> None:
        table = handle.nodes
        self._pool = handle.params.pool_name
        self._resources = handle.resources
        stamp = (table.epoch, table.allocatable.shape[1])
        self._most = _LARGEST.get(
            handle.kept, stamp, lambda: np.maximum.reduce(table.allocatable, axis=0, initial=0).tolist()
        )

    def concerns(self, cls: TaskClass) -> bool:
        """Only classes that exceed something, and not for what claims may serve."""
        return any(amount > self._most[column] for column, amount in cls.items)

    def refuse(self, task: Task, job: Job) -> str | None:
        """Name the first resource in excess: GPU, CPU, memory, others."""
        del job
        amounts = dict(task.cls.items)
        rest = sorted(column for column in amounts if column > PODS)
        for column in (GPU, CPU, MEMORY, *rest):
            amount = amounts.get(column, 0)
            if amount > self._most[column]:
                most = self._most[column]
                name, amount = next(
                    iter(self._resources.named_amounts(column, amount=amount, unoffered=task.cls.unoffered))
                )
                unit = self._resources.unit(name)
                has = (
                    f"the largest node has {amount_text(column, most, name=name, unit=unit)}"
                    if most
                    else "no node has any"
                )
                asked = amount_text(column, amount, name=name, unit=unit)
                return f"the pod asks for {asked}, but {has} in node pool {self._pool!r}"
        return None


class ConfigMaps(PreFilter):
    """Config maps that the pod cannot start without."""

    def __init__(self, handle: Handle) -> None:
        self._known = handle.objects[Kind.CONFIG_MAP]

    def concerns(self, cls: TaskClass) -> bool:
        """Classes that refer to config maps."""
        return bool(cls.constraints.config_maps)

    def refuse(self, task: Task, job: Job) -> str | None:
        """Name those that do not exist."""
        del job
        missing = [
            name for name in task.cls.constraints.config_maps if f"{task.namespace}/{name}" not in self._known
        ]
        return (
            f"config map {listed(missing)} does not exist in namespace {task.namespace!r}"
            if missing
            else None
        )


class HostPorts(NodeFilter, Readiness):
    """Two pods of a node cannot listen on the same port of it."""

    def concerns(self, cls: TaskClass) -> bool:
        """Classes with host ports."""
        return bool(cls.constraints.host_ports)

    def check(self, task: Task, node: Node) -> str | None:
        """Pods that are on their way out count as gone: :meth:`waits` sees to them."""
        return None if self._are_free(task, node, leaving=False) else "node has no free host port for the pod"

    def waits(self, task: Task, node: Node) -> bool:
        """Whether a pod that is leaving still listens."""
        return not self._are_free(task, node, leaving=True)

    def _are_free(self, task: Task, node: Node, *, leaving: bool) -> bool:
        wanted = task.cls.ports
        return not any(wanted.collide(other.cls.ports) for other in others_on(node, task, leaving=leaving))
