"""Who is on a node, and who is on its way out of it."""

from __future__ import annotations

from collections.abc import Iterator

from kai.snapshot.rows import Node, Task


def others_on(node: Node, task: Task, *, leaving: bool) -> Iterator[Task]:
    """Other pods of a node than ``task``: those with a place there, and ``leaving`` ones only if so said."""
    for other in node.tasks.values():
        if other is not task and (leaving or not _leaves(other, node)):
            yield other


def _leaves(task: Task, node: Node) -> bool:
    return task.node is node and bool(task.releasing) and task.pipelined_node is not node
