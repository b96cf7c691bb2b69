"""What a plugin can be to a cycle: a filter or score that looks at single tasks rather than classes.

Everything that depends only on a scheduling class and a node's amounts is in :mod:`kai.engine.kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kai.engine.kernel.labels import Floats, Mask
from kai.model.objects import TopologyConstraint
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Node, PodSet, SubGroupSet, Task


class Plugin:
    """One plugin in one cycle; a subclass overrides what it has an opinion on."""

    #: Whether it wants to hear of every placement, and keeps a log that can be undone.
    tracks = False

    def concerns(self, cls: TaskClass) -> bool:
        """Whether it has anything to say about pods of a class; nothing else is asked if not."""
        del cls
        return True

    def refuse(self, task: Task, job: Job) -> str:
        """Why no node at all can take the task, whoever is evicted; empty if one may."""
        del task, job
        return ""

    def mask(self, task: Task) -> tuple[Mask | None, str]:
        """Nodes that may take the task (None: all), and the short reason of the others."""
        del task
        return None, ""

    def score(self, task: Task, able: Mask) -> Floats | None:
        """An addition to the node order; ``able`` are the nodes that can take the task by all filters."""
        del task, able
        return None

    def check(self, task: Task, node: Node) -> str:
        """Why this node cannot take the task; empty if it can."""
        del task, node
        return ""

    def waits(self, task: Task, node: Node) -> bool:
        """Whether the task has to wait for pods on their way out of a node that passed :meth:`check`."""
        del task, node
        return False

    # --- for plugins that track -------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """The task takes a place on a node, perhaps virtually; it was checked just before."""

    def evicted(self, task: Task, node: Node) -> None:
        """The task is being evicted from a node, perhaps virtually."""

    def stays(self, task: Task, node: Node) -> None:
        """An eviction is taken back by a later step."""

    def mark(self) -> int:
        """A point of the log to go back to."""
        return 0

    def undo(self, mark: int) -> None:
        """Go back."""


class Topologies(Protocol):
    """Which sets of nodes a topology constraint allows."""

    def subsets(
        self,
        job: Job,
        member: PodSet | SubGroupSet,
        tasks: Sequence[Task],
        nodes: Mask | None,
        extra: Floats | None,
        *,
        record: bool,
    ) -> Sequence[tuple[Mask | None, Floats | None]]:
        """Node sets to try, best first, each with an addition to the node order."""

    def required(self, constraint: TopologyConstraint) -> NDArray[np.int64] | None:
        """Domain numbers of nodes at the required level (-1 outside); None if there is none."""
