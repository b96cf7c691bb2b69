"""Which few pods to move so that others fit, where an action may look at only so many jobs.

What waits is placed pod by pod as things are. For a pod without room the node that lacks least is cleared by
moving as few pods as possible to where they fit. All of it is tried in a statement and taken back: what is
left is a list of jobs, which the search then tries together as victims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

import numpy as np

from kai.engine.framework import devices
from kai.engine.framework.session import Session
from kai.engine.kernel.view import NEVER
from kai.engine.search.bounds import free_and_needed, required_domains
from kai.engine.search.offers import Offer, Offers, Order
from kai.model.arrays import Mask
from kai.model.ids import GpuGroup, PodGroupKey
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Node, Task

#: Nodes looked at for one class, those that lack least; domains tried for a job that must stay within one.
#: They bound the time of an attempt. Whoever is overlooked is not moved in this cycle, and nothing else.
_NODES: Final = 256
_DOMAINS: Final = 8


class Moves:
    """Finds who could move, for one job after the other; keeps what it learnt of nodes."""

    def __init__(self, session: Session, *, most: int) -> None:
        self._session = session
        self._most = most
        self._offers = Offers(session, most=most)

    def fewest(self, job: Job, tasks: Sequence[Task]) -> list[Job]:
        """Jobs to move so that a chunk fits, ``most`` at most; none if nobody has to, or no move helps.

        Nothing is moved, and the state is as it was. Of several domains the one with the fewest pods to move
        counts, of equals the one with most room.
        """
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


#: Cost, place among the candidates, a number, and what they are of. Offers cannot be compared, and two of one
#: node may cost the same, so the number is there to decide.
_Entry: TypeAlias = tuple[tuple[int, tuple[Order, ...]], int, int, Offer]


@dataclass(slots=True)
class _Candidates:
    """Nodes that an attempt looks at for one class."""

    #: By row, those that lack least first.
    ranks: dict[int, int]
    #: A heap.
    offers: list[_Entry] = field(default_factory=list)
    #: How much of what was forgotten has been looked at again.
    seen: int = 0


class _Attempt:
    """Places a chunk in one set of nodes, moving others where that is needed."""

    def __init__(self, session: Session, offers: Offers, job: Job, inside: Mask | None, most: int) -> None:
        self.moved: dict[PodGroupKey, Job] = {}
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
            self._offers.spare_nobody()

    def _mask(self, task: Task) -> Mask | None:
        """Nodes that filters allow; what is asked node by node is left to the search that follows."""
        mask = self._inside
        concerned = self._session.concerned(task.cls)
        for each in concerned.filters if concerned is not None else ():
            if (found := each.mask(task)) is not None:
                mask = found[0] if mask is None else mask & found[0]
        return mask

    def _put(self, task: Task, mask: Mask | None) -> bool:
        """Promise a task the best place there is."""
        view = self._session.view(task.cls)
        row = view.best()
        # Where no node has room the mask need not be asked.
        if row >= 0 and mask is not None:
            score = np.where(mask, view.score, NEVER)
            row = int(score.argmax())
            row = row if score[row] != NEVER else -1
        return row >= 0 and self._put_on(task, self._session.nodes.nodes[row])

    def _put_on(self, task: Task, node: Node) -> bool:
        groups: tuple[GpuGroup, ...] = ()
        if task.cls.shared:
            choice = devices.choose(self._session.nodes, node, task, options=self._session.options, wait=True)
            if choice is None:
                return False
            groups = choice[0]
        self._statement.pipeline(task, node, groups=groups)
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
            # The heap is the class's, the mask only this pod's.
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
            ranks = {row: rank for rank, row in enumerate(self._rows_by_lack(cls))}
            candidates = self._candidates[cls] = _Candidates(ranks)
            rows = set(ranks)
        else:
            rows = candidates.ranks.keys() & forgotten[candidates.seen :]
        candidates.seen = len(forgotten)
        for row in rows:
            offer = self._offers.of(cls, row)
            if offer is not None:
                entry = (offer.cost, candidates.ranks[row], next(self._serial), offer)
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

    def _move(self, offer: Offer, task: Task) -> bool:
        """Give a task the place of others, and these new ones; nothing happens if one finds none.

        The task goes first, or those that move might be given their own places back. Filters of plugins are
        not asked for them: the search that follows places them by all rules.
        """
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
