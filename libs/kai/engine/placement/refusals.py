"""Nodes that refused the last pods that they were given get no more for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kai.engine.kernel.labels import Mask
from kai.engine.plugins import Plugin
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Task

if TYPE_CHECKING:
    from kai.engine.session import Session

REASON: Final = "node refused the last pods that it was given, and is left alone for a while"


class RefusingNodes(Plugin):
    """Keeps pods away from nodes that are closed to their namespace, or to all."""

    def __init__(self, session: Session) -> None:
        self._closed = session.state.refusals.closed(session.now)
        self._nodes = session.nodes
        self._masks: dict[str, Mask] = {}
        self._concerned = {
            task.cls.id
            for job in session.state.pending_jobs.values()
            if "" in self._closed or job.namespace in self._closed
            for pod_set in job.pod_sets.values()
            for task in pod_set.tasks.values()
        }
        for nodes in self._closed.values():
            for until in nodes.values():
                session.due(until)

    def concerns(self, cls: TaskClass) -> bool:
        """Classes of pods that wait in a namespace to which some node is closed."""
        return cls.id in self._concerned

    def mask(self, task: Task) -> tuple[Mask | None, str]:
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
