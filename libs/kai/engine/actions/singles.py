"""Placing jobs whose next chunk is one plain pod: the same rules as for all, without a transaction.

Nothing can fail half-way here, so there is nothing to take back, and pods that come in a row are entered into
sums together. Whatever is not plain is left to
:func:`~kai.engine.framework.allocation.allocate_job`: shared devices, plugins with an opinion on the class or
a log of placements, nominations, topology, pods that have to wait, and everything that finds no place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kai.engine.framework.session import Session
from kai.engine.kernel.seats import Seats
from kai.engine.queueing.chunks import only_task, tasks_to_allocate
from kai.snapshot.rows import Job, Node, Task

#: Takes jobs that come next, while each has a single task and goes on with it; returns these tasks.
Following: TypeAlias = Callable[[Callable[[Job, Task], bool]], list[Task]]


def place(session: Session, job: Job, following: Following | None) -> list[Job]:
    """Place and commit the next pod of a job, and of those after it as many as are plain and find a place.

    Returns the jobs that got their pod; none if the job is not that simple, and then nothing is decided.
    """
    if not _plain(job):
        return []
    task = only_task(job)
    alone = task is not None
    if task is None:
        tasks = tasks_to_allocate(job)
        if len(tasks) != 1:
            return []
        (task,) = tasks
    if task.nominated or session.over_capacity(job, (task,)):
        return []
    row = _Row(session)
    if not row.seat(task):
        return []
    placed = [task]
    # A job with more pods competes again before those behind it, so nobody may be taken along.
    if following is not None and alone and session.unbounded(job):
        placed += following(row.follow)
    row.leave()
    session.decisions.bind(placed, row.nodes)
    return [task.job for task in placed if task.job is not None]


class _Row:
    """Pods that take seats one after the other, at one node after the other.

    Nodes know at once of what they hold, since the next best one depends on it; all other sums wait.
    """

    __slots__ = ("_node", "_seats", "_session", "nodes")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seats: Seats | None = None
        self._node: Node | None = None
        #: Where those are that have a seat, in order.
        self.nodes: list[Node] = []

    def follow(self, job: Job, task: Task) -> bool:
        """Let the only pod of another job take a seat; whether it is that simple, and there is one."""
        if task.nominated or not (_plain(job) and self._session.unbounded(job)):
            return False
        return self.seat(task)

    def seat(self, task: Task) -> bool:
        """Take a seat at the node where pods sit already, or else at the best one; whether there is one."""
        if self._seats is None or not self._seats.take(task.cls):
            if not self._session.plain(task.cls):
                return False
            self.leave()
            self._seats = seats = self._session.seating.at_best(task.cls)
            if seats is None:
                return False
            self._node = self._session.nodes.nodes[seats.row]
        assert self._node is not None
        self.nodes.append(self._node)
        return True

    def leave(self) -> None:
        """Nobody takes a seat any more where pods sit."""
        if self._seats is not None:
            assert self._node is not None
            self._session.ledger.occupy(self._node, self._seats.taken())
            self._seats = None


def _plain(job: Job) -> bool:
    """Whether the next pod of a job stands for itself."""
    single = job.single
    return single is not None and single.min_member <= 1 and not single.pipelined and not job.has_constraint
