"""Which few pods to move so that others fit, where an action may look at only so many jobs.

What waits is placed pod by pod as things are. For a pod without room the node that lacks least is cleared by
moving as few pods as possible to where they fit. All of it is tried in a statement and taken back: what is
left is a list of jobs, among which the search then finds its victims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

import numpy as np

from kai.engine import devices
from kai.engine.kernel.labels import Mask
from kai.engine.kernel.view import NEVER
from kai.engine.search.bounds import free_and_needed, required_domains
from kai.engine.search.scenarios import place
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


class Moves:
    """Finds who could move, for one job after the other; keeps what it learnt of nodes."""

    def __init__(self, session: Session, most: int) -> None:
        self._session = session
        self._most = most
        self._offers = _Offers(session, most)

    def fewest(self, job: Job, tasks: Sequence[Task]) -> list[Job]:
        """Jobs to move so that a chunk fits, ``most`` at most; none if nobody has to, or no move helps."""
        best: _Attempt | None = None
        for inside in _node_sets(self._session, job, tasks):
            attempt = _Attempt(self._session, self._offers, job, inside, self._most)
            if attempt.run(tasks) and (best is None or attempt.pods < best.pods):
                best = attempt
        return list(best.moved.values()) if best is not None else []

    def check(self) -> None:
        """Assert that what is known of nodes is what one would find now."""
        self._offers.check()


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

    row: int
    chunks: tuple[_Chunk, ...]
    #: How many pods that are, then the order of the chunks: the least is taken first.
    cost: tuple[int, tuple[_Order, ...]]


class _Offers:
    """What each node would have to give up for one more pod of a class."""

    def __init__(self, session: Session, most: int) -> None:
        self._session = session
        self._most = most
        #: By class and row; None where no move helps.
        self._known: dict[TaskClass, dict[int, _Offer | None]] = {}
        #: Rows whose offers were forgotten, one after the other.
        self._forgotten: list[int] = []
        #: How much of the log of changed rows was seen.
        self._position = session.nodes.log_end
        #: Jobs that give up nothing (more): the one that is served, and those that it moves.
        self._spared: set[str] = set()

    def spare(self, job: Job) -> None:
        """Ask no more of a job for now."""
        self._spared.add(job.key)
        self._forget(_rows_of(job))

    def spare_nobody(self, spared: Iterable[Job]) -> None:
        """Ask all jobs again."""
        self._spared.clear()
        for job in spared:
            self._forget(_rows_of(job))
        self._forgotten.clear()

    def of(self, cls: TaskClass, row: int) -> _Offer | None:
        """What a node would give up; asked right after a refresh."""
        known = self._known.setdefault(cls, {})
        if row not in known:
            known[row] = self._offer(cls, row)
            # What was tried meanwhile was taken back.
            self._position = self._session.nodes.log_end
        return known[row]

    def stands(self, cls: TaskClass, offer: _Offer) -> bool:
        """Whether an offer was not forgotten."""
        return self._known[cls].get(offer.row) is offer

    def refresh(self) -> list[int]:
        """Forget rows that changed, and all where their jobs are; returns what was forgotten so far."""
        table = self._session.nodes
        if self._position < table.log_start:
            self._forget(range(len(table)))
        elif self._position != table.log_end:
            changed = set(table.touched[self._position - table.log_start :])
            jobs = {
                task.job.key: task.job
                for row in changed
                for task in table.nodes[row].tasks.values()
                if task.job is not None
            }
            self._forget(changed.union(*map(_rows_of, jobs.values())))
        self._position = table.log_end
        return self._forgotten

    def check(self) -> None:
        """Assert that every offer that was not forgotten is what would be found now."""
        self.refresh()
        for cls, offers in self._known.items():
            for row, offer in offers.items():
                assert offer == self._offer(cls, row), (cls, row)

    def _forget(self, rows: Iterable[int]) -> None:
        for known in self._known.values():
            for row in rows:
                known.pop(row, None)
        self._forgotten += rows

    def _offer(self, cls: TaskClass, row: int) -> _Offer | None:
        """What has to go from a node: the cheapest single chunk that suffices, else the largest ones."""
        session = self._session
        chunks = list(self._chunks_on(session.nodes.nodes[row]))
        lack = self._lack(cls, row)
        sufficient = [chunk for chunk in chunks if self._suffice((chunk,), cls, row, lack)]
        if sufficient:
            return self._made(row, min(sufficient, key=lambda chunk: chunk.order(session)))
        chunks.sort(key=lambda chunk: (-_centi(chunk.here), chunk.order(session)))
        for some in range(2, min(len(chunks), self._most) + 1):
            if self._suffice(chunks[:some], cls, row, lack):
                return self._made(row, *chunks[:some])
        return None

    def _made(self, row: int, *chunks: _Chunk) -> _Offer:
        pods = sum(len(chunk.tasks) for chunk in chunks)
        return _Offer(row, chunks, (pods, tuple(chunk.order(self._session) for chunk in chunks)))

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
        statement = self._session.statement()
        for chunk in chunks:
            for task in chunk.tasks:
                statement.evict(task)
        fits = self._session.view(cls).score_of(row) != NEVER
        statement.rollback()
        return fits

    def _chunks_on(self, node: Node) -> Iterator[_Chunk]:
        """What the jobs on a node would give up, as far as it is there."""
        found = set(self._spared)
        for task in node.tasks.values():
            job = task.job
            if job is None or not job.preemptible or not ACTIVE_ALLOCATED[task.status] or job.key in found:
                continue
            found.add(job.key)
            tasks = tuple(tasks_to_evict(job)[0])
            here = tuple(each for each in tasks if place(each) is node)
            if here:
                yield _Chunk(job, tasks, here)


def _rows_of(job: Job) -> set[int]:
    """Rows of the nodes where a job holds something, or waits for it."""
    tasks = (task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values())
    return {node.row for task in tasks for node in (task.node, task.pipelined_node) if node is not None}


#: Cost, place among the candidates, a number, and what they are of.
_Entry: TypeAlias = tuple[tuple[int, tuple[_Order, ...]], int, int, _Offer]


@dataclass(slots=True)
class _Candidates:
    """Nodes that an attempt looks at for one class."""

    #: By row, those that lack least first.
    places: dict[int, int]
    #: A heap.
    offers: list[_Entry] = field(default_factory=list)
    #: How many of the rows that were forgotten are looked at again.
    seen: int = 0


class _Attempt:
    """Places a chunk in one set of nodes, moving others where that is needed."""

    def __init__(self, session: Session, offers: _Offers, job: Job, inside: Mask | None, most: int) -> None:
        self.moved: dict[str, Job] = {}
        self.pods = 0
        self._session = session
        self._statement = session.statement()
        self._offers = offers
        self._job = job
        self._inside = inside
        self._most = most
        self._candidates: dict[TaskClass, _Candidates] = {}
        self._serial = count()

    def run(self, tasks: Sequence[Task]) -> bool:
        """Whether all pods find room; the state is as it was before."""
        self._offers.spare(self._job)
        try:
            return all(self._put(task, self._mask(task)) or self._clear_for(task) for task in tasks)
        finally:
            self._statement.rollback()
            self._offers.spare_nobody((self._job, *self.moved.values()))

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
        return True

    def _clear_for(self, task: Task) -> bool:
        """Move pods off the node where the fewest have to go, and take their place."""
        cls, mask = task.cls, self._mask(task)
        offers = self._cheapest_first(cls)
        elsewhere: list[_Entry] = []
        found = False
        while offers and not found:
            entry = heappop(offers)
            offer = entry[-1]
            if not self._offers.stands(cls, offer) or len(offer.chunks) > self._most - len(self.moved):
                continue
            if mask is not None and not mask[offer.row]:
                elsewhere.append(entry)
            else:
                found = self._move(offer, task)
        for entry in elsewhere:
            heappush(offers, entry)
        return found

    def _cheapest_first(self, cls: TaskClass) -> list[_Entry]:
        """A heap of what nodes can give up, which may hold offers that stand no longer."""
        forgotten = self._offers.refresh()
        candidates = self._candidates.get(cls)
        if candidates is None:
            places = {row: place for place, row in enumerate(self._rows_by_lack(cls))}
            candidates = self._candidates[cls] = _Candidates(places)
            rows = set(places)
        else:
            rows = candidates.places.keys() & forgotten[candidates.seen :]
        candidates.seen = len(forgotten)
        for row in rows:
            offer = self._offers.of(cls, row)
            if offer is not None:
                entry = (offer.cost, candidates.places[row], next(self._serial), offer)
                heappush(candidates.offers, entry)
        return candidates.offers

    def _rows_by_lack(self, cls: TaskClass) -> list[int]:
        session = self._session
        allowed = session.view(cls).allowed
        if self._inside is not None:
            allowed = allowed & self._inside
        free, needed = free_and_needed(session, cls)
        missing = np.clip(1.0 - free / needed, 0.0, None).max(axis=1, initial=0.0)
        candidates = np.flatnonzero(allowed)
        order = np.argsort(missing[candidates], kind="stable")
        rows: list[int] = candidates[order][:_NODES].tolist()
        return rows

    def _move(self, offer: _Offer, task: Task) -> bool:
        """Give a task the place of others, and these new ones; nothing happens if one finds none."""
        checkpoint = self._statement.checkpoint()
        moved = [each for chunk in offer.chunks for each in chunk.tasks]
        for each in moved:
            self._statement.evict(each)
        if self._put_on(task, self._session.nodes.nodes[offer.row]) and all(
            self._put(each, None) for each in moved
        ):
            for chunk in offer.chunks:
                self.moved[chunk.job.key] = chunk.job
                self._offers.spare(chunk.job)
            self.pods += len(moved)
            return True
        self._statement.rollback(checkpoint)
        return False
