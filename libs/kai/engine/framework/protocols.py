"""What a plugin can be to a cycle. It fulfils one or several of these protocols, as a subclass of each.

A plugin lives for one cycle, or for one question in between: it is made when that begins, and whatever it
remembers ends with it. It is asked in one thread, so it needs no lock. What depends only on a class of pods
and a node's amounts is in :mod:`kai.engine.kernel`, for all nodes at once; a plugin looks at single pods.

Most pods are of classes that no plugin has anything to say about, and those are placed many at a time. So
the most useful thing that a plugin can do for speed is to answer :meth:`OfClasses.concerns` narrowly.

None of the methods may change the state, decide by the time of day, by chance or by the order of sets: the
same cycle may be run again, on another machine and from a file. One that raises fails the cycle, which is
then run without the pod or object that it was asked about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kai.engine.framework.handle import Handle
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.kernel.labels import Floats, Mask
from kai.engine.reasons import Unschedulable
from kai.model.objects import TopologyConstraint
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Node, PodSet, SubGroupSet, Task


class OfClasses(ABC):
    """A plugin that has something to say about the pods of some classes."""

    @abstractmethod
    def concerns(self, cls: TaskClass) -> bool:
        """Whether it has anything to say about pods of a class; about others it is never asked.

        Called once for each class in a cycle. Pods of a class have equal specs, but for volumes and names.
        """


class PreFilter(OfClasses):
    """Finds pods that no node can take, whoever gives up its place."""

    @abstractmethod
    def refuse(self, task: Task, job: Job) -> str | None:
        """Why no node can take the pod, as a sentence for its user; None if some node may.

        Called once for each attempt to place the pod, before any node is looked at, and before victims are
        searched: nobody is evicted for a pod that is refused.
        """


class Filter(OfClasses):
    """Keeps a pod from nodes, all nodes at once."""

    @abstractmethod
    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """``[nodes]`` those that may take the pod, and the short reason of the others; None: all may.

        Called once for each attempt to place the pod, and in searches; what is placed virtually counts. The
        mask is not kept, and may be changed by nobody, so the same one may be returned again. Should take
        time by the number of nodes, not by that of pods.
        """


class NodeFilter(OfClasses):
    """Keeps a pod from single nodes, where that takes too long to be found for all at once."""

    @abstractmethod
    def check(self, task: Task, node: Node) -> str | None:
        """The short reason why this node cannot take the pod; None if it can.

        Called for the best node that passed everything else, and for the next one as long as there is a
        reason. Pods that are being released count as gone: see :class:`Readiness`.
        """


class Readiness(OfClasses):
    """Makes a pod wait for what others on their way out still hold."""

    @abstractmethod
    def waits(self, task: Task, node: Node) -> bool:
        """Whether the pod can take the node, but not begin yet. Called after all filters let it pass."""


class Scorer(OfClasses):
    """Has a say in which of the nodes that can take a pod is the best."""

    @abstractmethod
    def score(self, task: Task, able: Mask) -> Floats | None:
        """``[nodes]`` an addition to the order of nodes, the higher the better; None: no difference.

        Called once for each attempt, after all filters; ``able`` are the nodes that passed them. How much
        counts against what else: :mod:`kai.engine.kernel.scores`.
        """


class Tracker(ABC):
    """Hears of every placement of every pod, virtual ones included, and can go back.

    While there is one, no pods are placed many at a time.
    """

    @abstractmethod
    def placed(self, task: Task, node: Node) -> None:
        """The pod takes a place on a node, or is promised one; it passed the filters just before."""

    @abstractmethod
    def evicted(self, task: Task, node: Node) -> None:
        """The pod is being evicted from a node, or gives up its promise."""

    @abstractmethod
    def stays(self, task: Task, node: Node) -> None:
        """An eviction is taken back by a later step: the pod is where it was."""

    @abstractmethod
    def mark(self) -> int:
        """A point of its log to go back to. Called before each of the above."""

    @abstractmethod
    def undo(self, mark: int) -> None:
        """Be as at a mark; later marks are void. Marks come back in the opposite order, none twice."""


class NodeSets(ABC):
    """Places the pods of a group in one of several sets of nodes. One plugin at most is asked."""

    @abstractmethod
    def subsets(
        self,
        job: Job,
        member: PodSet | SubGroupSet,
        tasks: Sequence[Task],
        nodes: Mask | None,
        extra: Floats | None,
    ) -> Sequence[tuple[Mask | None, Floats | None]] | Unschedulable:
        """Node sets to try, best first, each with an addition to the order of nodes; or why there is none.

        Called for each part of a group that has a constraint, from the top down. ``nodes`` and ``extra``
        are those of the set above; a set must lie within ``nodes``.
        """

    @abstractmethod
    def required(self, constraint: TopologyConstraint) -> NDArray[np.int64] | None:
        """``[nodes]`` domain numbers at the required level (-1 outside); None if nothing is required.

        Bounds of searches go by it, so no two nodes of a set of :meth:`subsets` may have different ones.
        """


class VictimPolicy(ABC):
    """Has a say in who gives up a place for a job that waits."""

    @abstractmethod
    def rules(self, search: VictimSearch) -> VictimRules | None:
        """What it says to one search; None: nothing.

        Called once for each search, before anything is evicted, so what is read here is the state to which
        all of it is compared. When the functions that it returns are called: :class:`VictimRules`.
        """


Plugin: TypeAlias = PreFilter | Filter | NodeFilter | Readiness | Scorer | Tracker | NodeSets | VictimPolicy

#: Makes the plugins that a name of the configuration stands for, none where the cluster gives them nothing
#: to do. Called when a cycle begins, in the order in which the configuration has the names. Whether one is
#: needed is worth a look at who waits (``Handle.waiting``): those that are made are asked about every pod.
Opener: TypeAlias = Callable[[Handle], Iterable[Plugin]]
