"""What one queue may take from another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kai.engine.fairness.order import added, fits
from kai.engine.fairness.queues import TOLERANCE, QueueColumns, QueueForest, QueueShares
from kai.model.arrays import Floats
from kai.model.decisions import CPU, GPU, MEMORY, ResourceVector

#: What remains, in the order of a vector, and a bit for each resource that was taken from.
_Remaining: TypeAlias = tuple[float, float, float, int]
_TAKEN: Final = 3
_RESOURCES: Final = (CPU, MEMORY, GPU)

_SAME_RATIO = 1e-9


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """The rules over one cycle's shares; amounts allocated are read from the columns at each call.

    ``multiplier`` (at least 1) makes reclaiming by a queue above its fair share the more conservative.
    """

    forest: QueueForest
    columns: QueueColumns
    shares: QueueShares
    multiplier: float = 1.0

    def can_reclaim(self, queue: int, request: ResourceVector, *, firm: ResourceVector | None) -> bool:
        """Whether a job may take from others at all.

        Within fair share, and what of it is ``firm``, as in :meth:`open`, within deserved.
        """
        if not fits(_plus(self.columns.allocated, queue, request), bound=self.shares.fair[queue]):
            return False
        held = self.columns.allocated_non_preemptible
        return firm is None or fits(_plus(held, queue, firm), bound=self.shares.deserved[queue])

    def within_deserved(self, queue: int, request: ResourceVector) -> bool:
        """Whether a queue deserves what a job would add.

        ``queue`` is a row, ``request`` what the job adds in units of the columns. What it holds is as of
        now; queues above it are not looked at.
        """
        return fits(_plus(self.columns.allocated, queue, request), bound=self.shares.deserved[queue])

    def may_be_victim(self, queue: int, request: ResourceVector, *, victim: int) -> bool:
        """Whether anything of queue ``victim`` can be of use to a job of ``queue``.

        That is decided where their lines part. A queue exactly at what it deserves passes, since its pods
        may find another place.
        """
        mine, theirs = self.forest.leveled(queue, victim)
        allocated = _row(self.columns.allocated, theirs)
        if not fits(_plus(self.columns.allocated, mine, request), bound=self.shares.deserved[mine]):
            return not fits(allocated, bound=self.shares.allocatable[theirs])
        return _useful(request, allocated, deserved=self.shares.deserved[theirs])

    def returning(
        self, *, left: ResourceVector, queue: int, gained: ResourceVector, taker: int
    ) -> Callable[[ResourceVector], bool] | None:
        """Says of what was taken from a queue whether it would be taken back at once; None if nothing would.

        Args:
            left: what the queue (a row) holds without it.
            queue: where its line parts from that of the taker, which is ``taker`` there.
            gained: what that would hold.
        """
        deserved, most = self.shares.deserved[queue], self.shares.deserved[taker]
        if fits(gained, bound=most):
            return None

        def returns(asked: ResourceVector) -> bool:
            return fits(added(left, asked), bound=deserved) and _useful(asked, gained, deserved=most)

        return returns

    def open(self, queue: int, request: ResourceVector, *, firm: ResourceVector | None) -> Reclamation:
        """Begin to collect victims for a job, judged by the queue state of this moment.

        Costs a copy of what all queues hold. ``queue`` is the row of the job's queue, ``request`` what the
        job adds, and ``firm`` what of that nobody can preempt: its queues must deserve it together with all
        that is so. None: nothing of it.
        """
        return Reclamation(self, queue, request, firm=firm)


def _useful(request: ResourceVector, held: ResourceVector, *, deserved: ResourceVector) -> bool:
    """Whether of what a job wants a queue holds more than it deserves, or nothing less."""
    below = False
    for wanted, has, most in zip(request, held, deserved, strict=True):
        if wanted <= 0 or most < 0:
            continue
        if has > most + TOLERANCE:
            return True
        below = below or has < most - TOLERANCE
    return not below


def _plus(column: Floats, queue: int, request: ResourceVector) -> ResourceVector:
    cpu, memory, gpus = column[queue].tolist()
    more_cpu, more_memory, more_gpus = request
    return (cpu + more_cpu, memory + more_memory, gpus + more_gpus)


def _row(column: Floats, queue: int) -> ResourceVector:
    return tuple(column[queue].tolist())


class Reclamation:
    """Victims for one job, chunk by chunk, with exact undo.

    A chunk is what is taken at once: one surplus pod, or the core of a gang. Chunks of a queue are judged in
    the order in which they are added, each by what its queue holds before it is taken. The queue state is
    the one of construction; what is placed or evicted meanwhile does not change it.
    """

    __slots__ = (
        "_allocated",
        "_firm",
        "_guaranteed",
        "_log",
        "_non_preemptible",
        "_queue",
        "_rejected",
        "_remaining",
        "_request",
        "_rules",
        "_taken_under",
    )

    def __init__(
        self, rules: ReclaimRules, queue: int, request: ResourceVector, *, firm: ResourceVector | None
    ) -> None:
        self._rules = rules
        self._queue = queue
        self._request = request
        self._firm = firm
        self._allocated = rules.columns.allocated.copy()
        #: Asked only about jobs that nobody may preempt.
        self._non_preemptible = None if firm is None else rules.columns.allocated_non_preemptible.copy()
        self._remaining: dict[int, _Remaining] = {}
        self._taken_under: dict[int, list[int]] = {}
        self._guaranteed: dict[int, bool] = {}
        self._log: list[tuple[int, _Remaining | None]] = []
        self._rejected = 0

    @property
    def rejected(self) -> int:
        """How many of the chunks added may not be taken."""
        return self._rejected

    def add(self, queue: int, *, cpu_millis: float, memory_bytes: float, gpus: float) -> bool:
        """Take a chunk from a queue and its ancestors; False if no rule allows to take it.

        A chunk that may not be taken is added all the same (and undone like any other): nothing is accepted
        then.
        """
        allowed = self.allows(queue)
        self.take(queue, cpu_millis=cpu_millis, memory_bytes=memory_bytes, gpus=gpus)
        self._log.append((-1 if allowed else -2, None))
        self._rejected += not allowed
        return allowed

    def take(self, queue: int, *, cpu_millis: float, memory_bytes: float, gpus: float) -> None:
        """Take chunks that are known to be allowed, all at once.

        Before: :meth:`allows` said so for each of them. After: the row of ``queue`` and those above it hold
        less by these amounts, until :meth:`undo`. Their sum is enough; a resource of which it is 0 counts as
        not taken.
        """
        mask = (cpu_millis > 0) << CPU | (memory_bytes > 0) << MEMORY | (gpus > 0) << GPU
        for row in self._rules.forest.path[queue]:
            old = self._remaining.get(row)
            self._log.append((row, old))
            if old is None:
                cpu, memory, gpu = self._allocated[row].tolist()
                self._remaining[row] = (cpu - cpu_millis, memory - memory_bytes, gpu - gpus, mask)
                self._taken_under.setdefault(self._rules.forest.parent[row], []).append(row)
            else:
                cpu, memory, gpu, taken = old
                self._remaining[row] = (cpu - cpu_millis, memory - memory_bytes, gpu - gpus, taken | mask)

    def allows(self, queue: int) -> bool:
        """Whether one more chunk may be taken from a queue, whatever its size.

        Judged where the line of the victim's queue (a row) parts from the job's, by what that holds without
        the chunks taken: it holds more than it may, or more than it deserves while the job's line deserves
        the job.
        """
        mine, theirs = self._rules.forest.leveled(self._queue, queue)
        held = self.held(theirs)
        if not fits(held, bound=self._rules.shares.allocatable[theirs]):
            return True
        return self._within_deserved(mine) and not fits(held, bound=self._rules.shares.deserved[theirs])

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Forget the chunks added since ``mark``, to the last bit."""
        log, remaining = self._log, self._remaining
        while len(log) > mark:
            row, old = log.pop()
            if row < 0:
                self._rejected -= row == -2
            elif old is None:
                del remaining[row]
                self._taken_under[self._rules.forest.parent[row]].pop()
            else:
                remaining[row] = old

    def accepts(self) -> bool:
        """Whether every chunk may be taken, and the job's queues stay less saturated than their victims."""
        if self._rejected:
            return False
        for row in self._rules.forest.path[self._queue]:  # noqa: SIM110 (asked for each job; a generator costs as much as what it asks)
            if not self._stays_fair(row):
                return False
        return True

    def _stays_fair(self, row: int) -> bool:
        cpu, memory, gpus = self.held(row)
        more_cpu, more_memory, more_gpus = self._request
        if not self._less_saturated(row, (cpu + more_cpu, memory + more_memory, gpus + more_gpus)):
            return False
        if self._non_preemptible is None or self._firm is None:
            return True
        held = _plus(self._non_preemptible, row, self._firm)
        return fits(held, bound=self._rules.shares.deserved[row])

    def _less_saturated(self, row: int, amount: ResourceVector) -> bool:
        """Compare with siblings that are taken from, where this queue exceeds its share."""
        fair = self._rules.shares.fair
        for resource in _RESOURCES:
            mine = _saturation(amount[resource], fair[row][resource])
            if mine <= 1 + _SAME_RATIO:
                continue
            bit = 1 << resource
            for sibling in self._taken_under.get(self._rules.forest.parent[row], ()):
                if sibling == row or fair[sibling][resource] <= 0:
                    continue
                remaining = self._remaining[sibling]
                # Only what is taken from the sibling or asked for by the job is compared.
                if not (remaining[_TAKEN] & bit or self._request[resource] > 0):
                    continue
                theirs = _saturation(remaining[resource], fair[sibling][resource])
                if mine * self._rules.multiplier >= theirs - _SAME_RATIO:
                    return False
        return True

    def surplus(self, row: int) -> ResourceVector:
        """What a queue of the job's line would hold with it, above what it deserves; zero where nothing."""
        cpu, memory, gpus = self.held(row)
        more_cpu, more_memory, more_gpus = self._request
        most_cpu, most_memory, most_gpus = self._rules.shares.deserved[row]
        return (
            _above(cpu + more_cpu, most=most_cpu),
            _above(memory + more_memory, most=most_memory),
            _above(gpus + more_gpus, most=most_gpus),
        )

    def held(self, row: int) -> ResourceVector:
        """What a queue holds without the chunks taken.

        By row; what is taken from queues below it is not held any more, either. Floats in units of the
        columns.
        """
        remaining = self._remaining.get(row)
        if remaining is not None:
            return remaining[:_TAKEN]
        return _row(self._allocated, row)

    def _within_deserved(self, row: int) -> bool:
        known = self._guaranteed.get(row)
        if known is None:
            amount = _plus(self._allocated, row, self._request)
            known = self._guaranteed[row] = fits(amount, bound=self._rules.shares.deserved[row])
        return known


def _above(amount: float, *, most: float) -> float:
    return max(amount - most - TOLERANCE, 0.0) if most >= 0 else 0.0


def _saturation(amount: float, fair: float) -> float:
    if fair == 0:
        return math.inf if amount > TOLERANCE else 0.0
    return 0.0 if fair < 0 else amount / fair
