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
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from kai.engine.fairness.order import NO_RESOURCES, QueueKey
from kai.engine.framework.handle import Handle
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.queueing.queue_order import Columns
from kai.engine.reasons import Unschedulable
from kai.model.arrays import Floats, Ints, Mask
from kai.model.decisions import ResourceVector
from kai.model.ids import NOBODY, PodUid
from kai.model.objects import TopologyConstraint
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Node, PodSet, SubGroupSet, Task


class OfClasses(ABC):
    """A plugin that has something to say about the pods of some classes."""

    @abstractmethod
    def concerns(self, cls: TaskClass) -> bool:
        """Whether it has anything to say about pods of a class; about others it is never asked.

        Called once for each class in a cycle. Pods of a class have equal specs, but for volumes and names.
        A yes costs more than the answer: pods of the class are placed one at a time then.
        """

    def depends_on(self, task: Task) -> Hashable:
        """What of a pod its answers about nodes depend on, beside the demands of the spec; None: nothing.

        A search for victims that failed for one pod is not made for another that demands the same and asks
        for no less, unless this differs: say a namespace, or labels as far as they matter. Called for each
        pod that waits, some times in each action in which a search failed, so it should be a look-up.
        """
        del task
        return None


class PreFilter(OfClasses):
    """Finds pods that no node can take, whoever gives up its place."""

    @abstractmethod
    def refuse(self, task: Task, job: Job) -> str | None:
        """Why no node can take the pod, as a sentence for its user; None if some node may.

        Called once for each attempt to place the pod, before any node is looked at, and before victims are
        searched: nobody is evicted for a pod that is refused. Simulations are attempts, too, so it should do
        no more than look something up.
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
        reason. Pods that are being released count as gone: see :class:`Readiness`. In attempts and
        simulations alike it is mostly called once, but for a pod that no node takes once for each node that
        passed the filters. So what is common to all nodes belongs into one of those, or is to be kept.
        """


class Readiness(OfClasses):
    """Makes a pod wait for what others on their way out still hold, or for others that are to come."""

    @abstractmethod
    def waits(self, task: Task, node: Node) -> bool:
        """Whether the pod can take the node, but not begin yet.

        Called once at most for each attempt to place a pod, of the node that it takes, after all filters let
        it pass and if what it asks for is idle there. Never in simulations, where everything waits. So it
        may look through the pods of a node, or of its domain.
        """


class Scorer(OfClasses):
    """Has a say in which of the nodes that can take a pod is the best."""

    @abstractmethod
    def score(self, task: Task, able: Mask) -> Floats | None:
        """``[nodes]`` an addition to the order of nodes, the higher the better; None: no difference.

        Called once for each attempt, simulations included, after all filters; ``able`` are the nodes that
        passed them. Should take time by the number of nodes, in few steps over arrays. How much counts
        against what else: :class:`~kai.config.plugin_table.Weight`.
        """


class Tie(NamedTuple):
    """What keeps pods of a chunk together."""

    #: ``[nodes]`` numbers of domains: all of them are in one.
    domains: Ints
    #: Those that go where the first one went.
    others: Sequence[Task]


class Ties(ABC):
    """Knows which pods of a chunk have to follow the first of them, so that it may have another place."""

    @abstractmethod
    def tie(self, first: Task, tasks: Sequence[Task]) -> Tie | None:
        """How others of a chunk are tied to one that is placed before them; None: they are not.

        Called where an attempt to place ``tasks`` failed after ``first`` had a place, with none of them
        placed. Should take time by the number of tasks and of nodes.
        """


class Tracker(ABC):
    """Hears of every placement of every pod, virtual ones included, and can go back.

    While there is one, no pods are placed many at a time. Each step of a cycle and of its simulations is told
    to all trackers, and each that is taken back is undone by them, so none of the methods should cost more
    than a few changes of what is counted.
    """

    @abstractmethod
    def placed(self, task: Task, node: Node) -> None:
        """The pod takes a place on a node, or is promised one; it passed the filters just before."""

    @abstractmethod
    def evicted(self, task: Task, node: Node) -> None:
        """The pod is being evicted from a node, or gives up its promise."""

    def may_stay(self, task: Task, node: Node) -> bool:
        """Whether a pod that is being evicted from a node, virtually, could go on there with what it had.

        Called when it is to be on that node after all; filters let it pass just before. Where one says no, it
        is evicted and begins anew on the node, of which :meth:`placed` tells, else :meth:`stays`.
        """
        del task, node
        return True

    @abstractmethod
    def stays(self, task: Task, node: Node) -> None:
        """An eviction is taken back by a later step: the pod is where it was, with what it had."""

    @abstractmethod
    def mark(self) -> int:
        """A point of its log to go back to. Called before each of the above."""

    @abstractmethod
    def undo(self, mark: int) -> None:
        """Be as at a mark; later marks are void. Marks come back in the opposite order, none twice."""


class NodeSets(ABC):
    """Places the pods of a group in one of several sets of nodes.

    A configuration has one such plugin at most, and is refused with two, so its ``PluginSpec`` says
    ``node_sets``.
    """

    @abstractmethod
    def subsets(
        self,
        job: Job,
        member: PodSet | SubGroupSet,
        tasks: Sequence[Task],
        *,
        nodes: Mask | None,
        extra: Floats | None,
    ) -> Sequence[tuple[Mask | None, Floats | None]] | Unschedulable:
        """Node sets to try, best first, each with an addition to the order of nodes; or why there is none.

        Called for each part of a group that has a constraint, from the top down, in each attempt to place it,
        simulations included; of a part below another one once for each set that is tried of the one above.
        May take time by the number of nodes and of domains. ``nodes`` and ``extra`` are those of the set
        above; a set must lie within ``nodes``.
        """

    @abstractmethod
    def required(self, constraint: TopologyConstraint) -> Ints | None:
        """``[nodes]`` domain numbers at the required level (-1 outside); None if nothing is required.

        Bounds of searches go by it, so no two nodes of a set of :meth:`subsets` may have different ones. They
        ask several times in a search, so the numbers should be kept for the cycle.
        """


class JobRanking(ABC):
    """Says which job of a queue is served before which; the last to be served is the first victim."""

    #: Whether a rank changes only with ``Job.version``, or when the job is read anew. Then the order of those
    #: that run is kept over cycles; else it is found anew in each cycle that searches for victims.
    lasting: ClassVar[bool] = False
    #: What it goes by, in a word, for who asks why one job is served before another.
    goes_by: ClassVar[str] = "a plugin"

    @abstractmethod
    def rank(self, job: Job, gone: frozenset[PodUid], /) -> float:
        """The lower the sooner. Where ranks are equal the next plugin's counts, in the end age and name.

        Called for every job that waits, every job that might lose its place, and again for those that were
        served or lost something: some thousand times in a cycle, so it should do no more than read a few
        attributes. Pods whose uids are in ``gone`` count as gone; there are some only where a victim gives
        up one chunk after the other. Must not change while neither the job nor ``gone`` does.
        """

    def ranks(self, jobs: Sequence[Job], /) -> list[float]:
        """:meth:`rank` of each job, nobody gone.

        Called wherever many are sorted. Worth writing only for speed.
        """
        return [self.rank(job, NOBODY) for job in jobs]


class VictimRanking(ABC):
    """Says which of the jobs that all job rankings hold equal gives up its place first.

    It has no say in which job is served first.
    """

    @abstractmethod
    def rank(self, job: Job, /) -> float:
        """The higher the sooner. Where ranks are equal the next plugin's counts, in the end age and name.

        Called for every job that might lose its place, in each cycle that searches for victims, and again
        for those that lost something, so it should do no more than read a few attributes. Must not change
        while the job does not.
        """


class QueueRanking(ABC):
    """Says which of the queues below the same parent is served before which; victims are taken from the last.

    Amounts are CPU millicores, memory bytes, GPU devices. Queues are named by their rows, see
    ``Handle.queues``.
    """

    @abstractmethod
    def key(
        self, queue: int, *, job: ResourceVector = NO_RESOURCES, victims: ResourceVector = NO_RESOURCES
    ) -> QueueKey:
        """Numbers, compared in turn, smaller first; where all are equal the next plugin's count, then age.

        Called each time that a queue is compared anew, after it or one below it got or lost something: with
        what the next ``job`` below it asks for, or with what all ``victims`` so far and the next one hold,
        which count as gone. What the queue holds is read as of now. Some thousand times in a cycle, so it
        should take microseconds. All keys must be of the same length.
        """

    def columns(self, queues: Ints, *, held: Ints, jobs: Ints) -> Columns | None:
        """The same for many keys at once, one array for each number; None: that cannot be told.

        ``queues`` are rows; ``held`` and ``jobs`` are ``[keys, 3]``, what the queue would hold then and what
        its next job asks for, with GPUs in hundredths. With it the order of many jobs is found in one step,
        as long as all of them find places; without, they are taken one by one.
        """
        del queues, held, jobs
        return None


class Quota(ABC):
    """Keeps jobs from being placed by what their queues hold, whatever the nodes say."""

    @abstractmethod
    def unbounded(self, job: Job) -> bool:
        """Whether it never refuses a job, whatever that asks for; of others pods are placed one at a time.

        Called for each job that is looked at, perhaps twice, so it should do no more than look something up.
        """

    @abstractmethod
    def refuse(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """Why a chunk may not be placed now; None if it may.

        Called before each attempt to place one of a job that is bounded, in simulations, too: what queues
        hold is then less what victims held. May look at each pod of the chunk and each queue above the job.
        """

    @abstractmethod
    def refuse_on(self, job: Job, task: Task, node: Node) -> Unschedulable | None:
        """Why a pod may not be placed on a node; None if it may.

        Called only for pods that ask for an amount of GPU memory: which part of a GPU that is, and so what
        their queue is charged, depends on the node. It was not refused as part of its chunk. Called for the
        best node, and for the next one while there is a reason, so for each node at worst.
        """

    @abstractmethod
    def refuse_for_good(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """Why a chunk could not be placed whichever preemptible jobs gave up their places; None if it could.

        Called before victims are searched, once at most for each job that waits and action.
        """


class Entitlement(ABC):
    """Says which jobs may take from other queues at all. Without any such plugin nothing is reclaimed."""

    @abstractmethod
    def may_reclaim(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Whether a job may have its next chunk at the cost of others; of several plugins all must agree.

        Called once at most for each job that waits, before a search: the state is as it was decided so far.
        May look at each pod of the chunk and at the queues; looking through nodes or jobs would make up most
        of a cycle in which thousands wait.
        """


class VictimPolicy(ABC):
    """Has a say in who gives up a place for a job that waits."""

    @abstractmethod
    def rules(self, search: VictimSearch) -> VictimRules | None:
        """What it says to one search; None: nothing.

        Called once for each search, before anything is evicted, so what is read here is the state to which
        all of it is compared. It may look through the queues. What takes longer belongs into the functions
        that it returns, of which those that are not asked cost nothing; when they are called is said in
        :class:`VictimRules`.
        """


Plugin: TypeAlias = (
    PreFilter
    | Filter
    | NodeFilter
    | Readiness
    | Scorer
    | Ties
    | Tracker
    | NodeSets
    | QueueRanking
    | JobRanking
    | VictimRanking
    | Quota
    | Entitlement
    | VictimPolicy
)

#: Makes the plugins that a name of the configuration stands for, none where the cluster gives them nothing
#: to do. Called when a cycle begins, in the order in which the configuration has the names. Whether one is
#: needed is worth a look at who waits (``Handle.waiting``): those that are made are asked about every pod.
Opener: TypeAlias = Callable[[Handle], Iterable[Plugin]]
