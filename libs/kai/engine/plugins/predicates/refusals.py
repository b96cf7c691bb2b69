"""Nodes that refused the last pods that they were given get no more for a while."""

from __future__ import annotations

from typing import Final

import numpy as np

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter
from kai.model.arrays import Mask
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Task

REASON: Final = "node refused the last pods that it was given, and is left alone for a while"


class RefusingNodes(Filter):
    """Keeps pods away from nodes that are closed to their namespace, or to all."""

    def __init__(self, handle: Handle) -> None:
        self._closed = handle.refusals.closed(handle.now)
        self._nodes = handle.nodes
        self._masks: dict[str, Mask] = {}
        #: Some node is closed to all; else to these classes, also of pods that run and may be moved.
        self._everybody = "" in self._closed
        jobs = handle.jobs if handle.moves else handle.pending_jobs
        self._concerned = {
            task.cls.id
            for job in (jobs.values() if not self._everybody else ())
            if job.namespace in self._closed
            for pod_set in job.pod_sets.values()
            for task in pod_set.tasks.values()
        }
        for nodes in self._closed.values():
            for until in nodes.values():
                handle.due(until)

    def concerns(self, cls: TaskClass) -> bool:
        """Classes of pods in a namespace to which some node is closed; all where one is closed to all."""
        return self._everybody or cls.id in self._concerned

    def depends_on(self, task: Task) -> str:
        """The namespace, where nodes are closed to it alone."""
        return task.namespace if task.namespace in self._closed else ""

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """All nodes but those that are closed."""
        known = self._masks.get(task.namespace)
        if known is None:
            known = self._masks[task.namespace] = self._open_to(task.namespace)
        return known, REASON

    def _open_to(self, namespace: str) -> Mask:
        mask = np.ones(len(self._nodes.nodes), dtype=bool)
        for name in {*self._closed.get("", ()), *self._closed.get(namespace, ())}:
            node = self._nodes.by_name.get(name)
            if node is not None:
                mask[node.row] = False
        return mask
