"""Pods that are on nodes, or were in this cycle, found by what their labels say."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kai.engine.kernel.selections import Selection
from kai.model.ids import PodUid
from kai.snapshot.rows import Task
from kai.snapshot.table import NodeTable


class PlacedPods:
    """Those that are on nodes when somebody asks first, and all that came since; where they are they say."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._pods: dict[PodUid, Task] | None = None
        #: By the keys that selections asked for, and the values of these labels.
        self._by_label: dict[str, dict[str, list[Task]]] = {}

    def all(self) -> Collection[Task]:
        """All of them; costs time by their number when asked first."""
        return self._known().values()

    def by_label(self, selection: Selection) -> Iterable[Task] | None:
        """Those that have some value of a label that a selection wants; None if it wants none.

        Of several labels the one that the fewest have. Costs time by the number of placed pods for each key
        of a label that nobody asked for before.
        """
        if selection.demands is None:
            return ()
        found: list[list[list[Task]]] = []
        for key, values in selection.demands.within.items():
            having = self._having(key)
            found.append([having[value] for value in values if value in having])
        if not found:
            return None
        fewest = min(found, key=lambda lists: sum(map(len, lists)))
        return [task for tasks in fewest for task in tasks]

    def came(self, task: Task) -> None:
        """A pod is on a node now."""
        if self._pods is None or task.uid in self._pods:
            return
        self._pods[task.uid] = task
        for key, having in self._by_label.items():
            _enter(having, key, task)

    def _known(self) -> dict[PodUid, Task]:
        if self._pods is None:
            self._pods = {task.uid: task for node in self._nodes.nodes for task in node.tasks.values()}
        return self._pods

    def _having(self, key: str) -> dict[str, list[Task]]:
        having = self._by_label.get(key)
        if having is None:
            having = self._by_label[key] = {}
            for task in self.all():
                _enter(having, key, task)
        return having


def _enter(having: dict[str, list[Task]], key: str, task: Task) -> None:
    value = task.labels.get(key) if task.labels else None
    if value is not None:
        having.setdefault(value, []).append(task)
