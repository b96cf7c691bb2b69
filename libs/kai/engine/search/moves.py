"""Which few pods to move so that others fit, where an action may look at only so many jobs.

What waits is placed pod by pod as things are. For a pod without room the node that lacks least is cleared by
moving as few pods as possible to where they fit. All of it is tried in a statement and taken back: what is
left is a list of jobs, among which the search then finds its victims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from kai.engine import devices
from kai.engine.kernel.labels import Mask
from kai.engine.kernel.view import NEVER
from kai.engine.search.bounds import free_and_needed, required_domains
from kai.engine.search.victims import Reversed, reversed_key
from kai.engine.session import Session
from kai.engine.tree import tasks_to_evict
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED

#: Nodes looked at for one class, those that lack least; domains tried for a job that must stay within one.
_NODES: Final = 256
_DOMAINS: Final = 8
#: Pods, priority, hundredths of GPUs, and the order of victims.
_Order: TypeAlias = tuple[int, int, int, Reversed]


def fewest_moves(session: Session, job: Job, tasks: Sequence[Task], most: int) -> list[Job]:
    """Jobs to move so that a chunk fits, at most ``most``; none if nobody has to move, or no move helps."""
    best: _Attempt | None = None
    for inside in _node_sets(session, job, tasks):
        attempt = _Attempt(session, job, inside, most)
        if attempt.run(tasks) and (best is None or attempt.pods < best.pods):
            best = attempt
    return list(best.moved.values()) if best is not None else []


def _node_sets(session: Session, job: Job, tasks: Sequence[Task]) -> Iterator[Mask | None]:
    """The whole cluster; or domains of a level that the job must not leave, those with most room first."""
    domains = required_domains(session, job, tasks)
    if domains is None:
        yield None
        return
    free, needed = free_and_needed(session, tasks[0].cls)
    inside = domains >= 0
    if not inside.any():
        return
    room = np.clip(free / needed, 0.0, None).min(axis=1, initial=np.inf)
    of_domain = np.bincount(domains[inside], weights=room[inside])
    for number in np.argsort(-of_domain, kind="stable")[:_DOMAINS].tolist():
        yield domains == number


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What a job gives up at once, and how much of it is on the node in question."""

    job: Job
    tasks: tuple[Task, ...]
    here: tuple[Task, ...]

    def order(self, session: Session) -> _Order:
        """Cheapest first."""
        job_key = reversed_key(session.victim_key(self.job))
        return (len(self.tasks), self.job.priority, _centi(self.tasks), job_key)


def _centi(tasks: Sequence[Task]) -> int:
    return sum(task.charged[2] for task in tasks if task.charged is not None)


@dataclass(frozen=True, slots=True)
class _Offer:
    """The fewest chunks without which one more pod fits on a node."""

    chunks: tuple[_Chunk, ...]
    pods: int
    order: tuple[_Order, ...]


class _Attempt:
    """Places a chunk in one set of nodes, moving others where that is needed."""

    def __init__(self, session: Session, job: Job, inside: Mask | None, most: int) -> None:
        self.moved: dict[str, Job] = {}
        self.pods = 0
        self._session = session
        self._statement = session.statement()
        self._job = job
        self._inside = inside
        self._most = most
        self._rows: dict[int, list[int]] = {}
        #: By class and row; None where no move helps.
        self._known: dict[int, dict[int, _Offer | None]] = {}

    def run(self, tasks: Sequence[Task]) -> bool:
        """Whether all pods find room; the state is as it was before."""
        try:
            return all(self._put(task, self._mask(task)) or self._clear_for(task) for task in tasks)
        finally:
            self._statement.rollback()

    def _mask(self, task: Task) -> Mask | None:
        mask = self._inside
        for plugin in self._session.concerned(task.cls):
            allowed, _ = plugin.mask(task)
            if allowed is not None:
                mask = allowed if mask is None else mask & allowed
        return mask

    def _put(self, task: Task, mask: Mask | None) -> bool:
        """Promise a task the best place there is."""
        view = self._session.view(task.cls)
        row = view.best()
        if row >= 0 and mask is not None:
            score = np.where(mask, view.score, NEVER)
            row = int(score.argmax())
            row = row if score[row] != NEVER else -1
        return row >= 0 and self._put_on(task, self._session.nodes.nodes[row])

    def _put_on(self, task: Task, node: Node) -> bool:
        groups: tuple[str, ...] = ()
        if task.cls.shared:
            choice = devices.choose(self._session.nodes, node, task, self._session.options, wait=True)
            if choice is None:
                return False
            groups = choice[0]
        self._statement.pipeline(task, node, groups)
        self._forget(node.row)
        return True

    def _clear_for(self, task: Task) -> bool:
        """Move pods off the node where the fewest have to go, and take their place."""
        mask = self._mask(task)
        known = self._known.setdefault(task.cls.id, {})
        vain: set[int] = set()
        while (row := self._cheapest(task.cls, mask, known, vain)) >= 0:
            offer = known[row]
            assert offer is not None
            if self._move(offer, task, row):
                for chunk in offer.chunks:
                    self._note(chunk)
                return True
            vain.add(row)
        return False

    def _note(self, chunk: _Chunk) -> None:
        self.moved[chunk.job.key] = chunk.job
        self.pods += len(chunk.tasks)
        for task in chunk.tasks:
            if task.node is not None:
                self._forget(task.node.row)

    def _forget(self, row: int) -> None:
        for known in self._known.values():
            known.pop(row, None)

    def _cheapest(
        self, cls: TaskClass, mask: Mask | None, known: dict[int, _Offer | None], vain: set[int]
    ) -> int:
        """The row to clear, -1 if there is none: for the fewest pods, of equals those moved first."""
        best: _Offer | None = None
        cheapest = -1
        left = self._most - len(self.moved)
        for row in self._rows_by_lack(cls):
            if row in vain or (mask is not None and not mask[row]):
                continue
            if row not in known:
                known[row] = self._offer(cls, row)
            offer = known[row]
            if offer is None or len(offer.chunks) > left:
                continue
            if best is None or (offer.pods, offer.order) < (best.pods, best.order):
                best, cheapest = offer, row
        return cheapest

    def _rows_by_lack(self, cls: TaskClass) -> list[int]:
        rows = self._rows.get(cls.id)
        if rows is None:
            session = self._session
            allowed = session.view(cls).allowed
            if self._inside is not None:
                allowed = allowed & self._inside
            free, needed = free_and_needed(session, cls)
            missing = np.clip(1.0 - free / needed, 0.0, None).max(axis=1, initial=0.0)
            candidates = np.flatnonzero(allowed)
            order = np.argsort(missing[candidates], kind="stable")
            rows = self._rows[cls.id] = candidates[order][:_NODES].tolist()
        return rows

    def _offer(self, cls: TaskClass, row: int) -> _Offer | None:
        """What has to go from a node: the cheapest single chunk that suffices, else the largest ones."""
        session = self._session
        chunks = list(self._chunks_on(session.nodes.nodes[row]))
        lack = self._lack(cls, row)
        sufficient = [chunk for chunk in chunks if self._suffice((chunk,), cls, row, lack)]
        if sufficient:
            return self._made(min(sufficient, key=lambda chunk: chunk.order(session)))
        chunks.sort(key=lambda chunk: (-_centi(chunk.here), chunk.order(session)))
        for count in range(2, min(len(chunks), self._most) + 1):
            if self._suffice(chunks[:count], cls, row, lack):
                return self._made(*chunks[:count])
        return None

    def _made(self, *chunks: _Chunk) -> _Offer:
        orders = tuple(chunk.order(self._session) for chunk in chunks)
        return _Offer(chunks, sum(len(chunk.tasks) for chunk in chunks), orders)

    def _lack(self, cls: TaskClass, row: int) -> list[tuple[int, int]] | None:
        """What a node lacks for one more pod, by column; None where amounts do not tell."""
        if cls.shared or cls.kind is GpuKind.MIG:
            return None
        idle, releasing = self._session.nodes.cells_idle, self._session.nodes.cells_releasing
        missing = [
            (column, amount - idle[row, column] - releasing[row, column]) for column, amount in cls.items
        ]
        return [each for each in missing if each[1] > 0]

    def _suffice(
        self, chunks: Sequence[_Chunk], cls: TaskClass, row: int, lack: list[tuple[int, int]] | None
    ) -> bool:
        """Whether one more pod fits on a node without these."""
        leaving = [task.cls for chunk in chunks for task in chunk.here]
        if lack is not None and not any(each.shared or each.dra_gpus for each in leaving):
            freed: Counter[int] = Counter()
            for each in leaving:
                for column, amount in each.items:
                    freed[column] += amount
            return all(freed[column] >= amount for column, amount in lack)
        checkpoint = self._statement.checkpoint()
        for chunk in chunks:
            self._evict(chunk)
        fits = self._session.view(cls).score_of(row) != NEVER
        self._statement.rollback(checkpoint)
        return fits

    def _chunks_on(self, node: Node) -> Iterator[_Chunk]:
        """What the jobs on a node would give up, as far as it is there."""
        found: set[str] = set()
        for task in node.tasks.values():
            job = task.job
            if (
                job is None
                or job is self._job
                or not job.preemptible
                or not ACTIVE_ALLOCATED[task.status]
                or job.key in self.moved
                or job.key in found
            ):
                continue
            found.add(job.key)
            tasks = tuple(tasks_to_evict(job)[0])
            here = tuple(each for each in tasks if each.node is node)
            if here:
                yield _Chunk(job, tasks, here)

    def _evict(self, chunk: _Chunk) -> None:
        for task in chunk.tasks:
            self._statement.evict(task)

    def _move(self, offer: _Offer, task: Task, row: int) -> bool:
        """Give a task the place of others, and these new ones; nothing happens if one finds none."""
        checkpoint = self._statement.checkpoint()
        for chunk in offer.chunks:
            self._evict(chunk)
        moved = [each for chunk in offer.chunks for each in chunk.tasks]
        if self._put_on(task, self._session.nodes.nodes[row]) and all(
            self._put(each, None) for each in moved
        ):
            return True
        self._statement.rollback(checkpoint)
        return False
