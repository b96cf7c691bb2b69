"""Which queue may take from which others, and how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, gcd
from typing import Final, TypeAlias

from kai.config.plugin_table import ProportionArguments
from kai.engine.fairness.order import added, fits
from kai.engine.fairness.reclaim import ReclaimRules, Reclamation
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Entitlement, VictimPolicy
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.queueing.batches import Batch, by_job
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.requests import firm_request_of, request_of
from kai.model.decisions import CPU, GPU, MEMORY, ResourceVector
from kai.snapshot.amounts import GPU_CENTI, Amounts, Totals
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED

_NEAR: Final = 1e-6
#: Tasks of jobs, each with the row of its queue.
_Losses: TypeAlias = Sequence[tuple[int, Sequence[Task]]]


class FairReclaim(Entitlement, VictimPolicy):
    """A queue takes within its share, from those that hold more than theirs."""

    def __init__(self, handle: Handle) -> None:
        division = handle.division
        self._forest, self._columns, self._shares = division.forest, division.columns, division.shares
        multiplier = handle.arguments(ProportionArguments).saturation_multiplier
        self._rules = ReclaimRules(division.forest, division.columns, division.shares, multiplier)
        self._queues = handle.queues
        self._allocatable = handle.allocatable
        self._gpu_memory_mib = handle.min_gpu_memory_mib
        self._moving = handle.flags.allow_consolidating_reclaim
        self._requests: dict[int, dict[ResourceVector, list[Job]]] | None = None

    def may_reclaim(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Within the fair share of its queue, and if it cannot be preempted within what that deserves."""
        return self._rules.can_reclaim(job.queue.row, self._request(tasks), firm=self._firm(job, tasks))

    def _request(self, tasks: Sequence[Task]) -> ResourceVector:
        return request_of(tasks, gpu_memory_mib=self._gpu_memory_mib)

    def _firm(self, job: Job, tasks: Sequence[Task]) -> ResourceVector | None:
        return firm_request_of(job, tasks, gpu_memory_mib=self._gpu_memory_mib)

    def rules(self, search: VictimSearch) -> VictimRules | None:
        """What may be taken is judged by what queues hold now, before anything is evicted."""
        if search.action != "reclaim":
            return None
        mine, request, rules = search.job.queue, self._request(search.tasks), self._rules
        firm = self._firm(search.job, search.tasks)

        def loses(queue: Queue) -> bool:
            return rules.may_be_victim(mine.row, request, victim=queue.row)

        return VictimRules(
            of_queue=loses,
            suffices=lambda gpu_centi: self._suffices(search, request, loses, gpu_centi),
            takes=lambda: self._takes(search.job, request, firm),
            allows=self._fair(search.job, request, firm),
            entitled=lambda: all(rules.within_deserved(each.row, request) for each in mine.path),
        )

    def _takes(self, job: Job, request: ResourceVector, firm: ResourceVector | None) -> bool:
        """Whether any queue may lose a first chunk; with each that is taken it may lose less."""
        ledger = self._rules.open(job.queue.row, request, firm=firm)
        return any(ledger.allows(queue.row) for queue in self._others(job))

    def _others(self, job: Job) -> Iterable[Queue]:
        """Queues whose jobs could be victims of a job, whatever they hold."""
        return (each for each in self._queues if each.yields and each.jobs and each is not job.queue)

    def _suffices(
        self, search: VictimSearch, request: ResourceVector, loses: Callable[[Queue], bool], needed: float
    ) -> bool:
        by_row: dict[int, list[Queue]] = {}
        for queue in self._others(search.job):
            if loses(queue):
                row = self._forest.leveled(search.job.queue.row, queue.row)[1]
                by_row.setdefault(row, []).append(queue)
        for row, queues in by_row.items():
            if needed <= 0:
                break
            needed -= self._takeable(search, request, row, queues, needed)
        return needed <= 0

    def _takeable(
        self, search: VictimSearch, request: ResourceVector, row: int, queues: list[Queue], needed: float
    ) -> float:
        """An upper bound on hundredths of GPUs that may be taken below a queue, chunk by chunk.

        A smaller bound is enough where it reaches what is needed.
        """
        everything = sum(queue.allocated.gpu_centi for queue in queues)
        bounds = [self._shares.allocatable[row]]
        mine = self._forest.leveled(search.job.queue.row, queues[0].row)[0]
        if self._rules.within_deserved(mine, request):
            bounds.append(self._shares.deserved[row])
        cpu, memory, gpus = self._columns.allocated[row].tolist()
        # Too much CPU or memory is enough for a chunk to be taken, whatever its GPUs.
        if any(0 <= most[CPU] < cpu or 0 <= most[MEMORY] < memory for most in bounds):
            return everything
        limits = [most[GPU] for most in bounds if most[GPU] >= 0]
        if not limits or gpus <= min(limits):
            return 0.0
        above = (gpus - min(limits)) * GPU_CENTI
        if needed <= min(everything, above):
            return needed
        # A chunk may go while the queue is above its bound without those before it. So all but the last make
        # up less than what is above, in steps of the grain, and the last is as large as any.
        chunks = [search.chunks(queue) for queue in queues]
        grain = gcd(*(each.grain_centi for each in chunks))
        before_last = (ceil(above / grain - _NEAR) - 1) * grain if grain else 0
        return min(everything, before_last + max(each.largest_centi for each in chunks))

    def _fair(
        self, job: Job, request: ResourceVector, firm: ResourceVector | None
    ) -> Callable[[Sequence[Batch]], bool]:
        ledger = self._rules.open(job.queue.row, request, firm=firm)
        moving, memory, leveled = self._moving, self._gpu_memory_mib, self._forest.leveled

        def fair(victims: Sequence[Batch]) -> bool:
            mark = ledger.mark()
            lost = _Lost(memory, lambda row: leveled(job.queue.row, row)[1])
            losses = _losses(victims, moving=moving)
            lost.add(losses)
            accepted = (
                lost.judged(ledger)
                and not self._taken_back(job, ledger, lost.rows)
                and not (len(losses) > 1 and self._returns(job, ledger, request, losses))
            )
            ledger.undo(mark)
            return accepted

        return fair

    def _taken_back(self, job: Job, ledger: Reclamation, rows: Iterable[int]) -> bool:
        """Whether a queue that loses would at once take from what is gained: such exchanges never end.

        It is left with less than it deserves, one of its jobs that wait fits into that, and the one that
        takes now would hold more than it deserves.
        """
        deserved = self._shares.deserved
        for row in rows:
            mine, theirs = self._forest.leveled(job.queue.row, row)
            surplus = ledger.surplus(mine)
            if not any(surplus):
                continue
            left = ledger.held(theirs)
            if not _less(left, deserved[theirs]):
                continue
            for asked, jobs in self._waiting(theirs).items():
                contested = any(wanted and over for wanted, over in zip(asked, surplus, strict=True))
                if (
                    contested
                    and fits(added(left, asked), bound=deserved[theirs])
                    and any(other.pending for other in jobs)
                ):
                    return True
        return False

    def _returns(
        self,
        job: Job,
        ledger: Reclamation,
        request: ResourceVector,
        losses: _Losses,
    ) -> bool:
        """Whether one of several victims would at once take its place back, as its queue deserves.

        It may be taken since its queue holds too much, but that is what others of them hold.
        """
        returning: dict[int, Callable[[ResourceVector], bool]] = {}
        for row in dict.fromkeys([row for row, _ in losses]):
            returns = self._returning(job, ledger, request, row)
            if returns is not None:
                returning[row] = returns
        return bool(returning) and any(
            row in returning and returning[row](self._request(tasks)) for row, tasks in losses
        )

    def _returning(
        self, job: Job, ledger: Reclamation, request: ResourceVector, row: int
    ) -> Callable[[ResourceVector], bool] | None:
        """Of a queue that loses: says of an amount whether that would come back; None if nothing would."""
        mine, theirs = self._forest.leveled(job.queue.row, row)
        gained = added(ledger.held(mine), request)
        return self._rules.returning(left=ledger.held(theirs), queue=theirs, gained=gained, taker=mine)

    def _waiting(self, row: int) -> dict[ResourceVector, list[Job]]:
        """Jobs below a queue that waited when this was first asked, by what their next chunk asks for."""
        if self._requests is None:
            self._requests = {}
            for job in self._allocatable():
                asked = self._request(tasks_to_allocate(job, simulation=True))
                for each in job.queue.path:
                    self._requests.setdefault(each.row, {}).setdefault(asked, []).append(job)
        return self._requests.get(row, {})


def _losses(victims: Sequence[Batch], *, moving: bool) -> _Losses:
    """By the row of its queue what each job loses, in order; without pods that were moved, if some may be."""
    # Mostly no job has more than one.
    keys = {batch.job.key for batch in victims} if len(victims) > 1 else ()
    if len(keys) in (0, len(victims)):
        taken = [(batch.job.queue.row, batch.tasks) for batch in victims]
    else:
        taken = [
            (batches[0].job.queue.row, tuple([task for batch in batches for task in batch.tasks]))
            for batches in by_job(victims).values()
        ]
    if not moving or not any(ACTIVE_ALLOCATED[task.status] for _, tasks in taken for task in tasks):
        return taken
    gone = [(row, [task for task in tasks if not ACTIVE_ALLOCATED[task.status]]) for row, tasks in taken]
    return [(row, tasks) for row, tasks in gone if tasks]


def _less(held: ResourceVector, bound: ResourceVector) -> bool:
    """Whether a queue holds less of something than it deserves."""
    return any(most >= 0 and amount < most - _NEAR for amount, most in zip(held, bound, strict=True))


class _Lost:
    """What queues lose to a job, chunk by chunk.

    A queue may lose a chunk as long as it holds too much, so of all that is taken where two lines part only
    the last chunk needs to be judged: before each of the others it held more.
    """

    def __init__(self, gpu_memory_mib: int, parted: Callable[[int], int]) -> None:
        """``parted`` says of a queue where its line and the taker's part."""
        self._gpu_memory_mib = gpu_memory_mib
        self._parted = parted
        #: What each queue lost, its last chunk included.
        self._lost: dict[int, Totals] = {}
        #: By the ancestor where the lines part: the queue and the tasks of the job taken last.
        self._last: dict[int, tuple[int, Sequence[Task]]] = {}

    def add(self, losses: _Losses) -> None:
        """Tasks of jobs are gone."""
        counts: dict[tuple[int, TaskClass, int], int] = {}
        parted: dict[int, int] = {}
        for row, tasks in losses:
            for task in tasks:
                node = task.node
                key = (row, task.cls, self._gpu_memory_mib if node is None else node.gpu_memory_mib)
                counts[key] = counts.get(key, 0) + 1
            where = parted.get(row)
            if where is None:
                where = parted[row] = self._parted(row)
            self._last[where] = (row, tasks)
        for (row, cls, memory), count in counts.items():
            lost = self._lost.get(row)
            if lost is None:
                lost = self._lost[row] = Totals()
            lost.add(cls.charge(memory), times=count)

    @property
    def rows(self) -> list[int]:
        """Queues that lose something, one for each ancestor where lines part."""
        return [row for row, _ in self._last.values()]

    def judged(self, ledger: Reclamation) -> bool:
        """Whether all of it may be taken."""
        lost = self._lost
        last: list[tuple[int, Amounts]] = []
        for row, tasks in self._last.values():
            chunk = self._held(_chunks(tasks)[-1] if len(tasks) > 1 else tasks)
            last.append((row, chunk))
            rest = lost[row]
            cpu_millis, memory_bytes, gpu_centi = chunk
            rest.cpu_millis -= cpu_millis
            rest.memory_bytes -= memory_bytes
            rest.gpu_centi -= gpu_centi
            if not (rest.cpu_millis or rest.memory_bytes or rest.gpu_centi):
                del lost[row]
        for row, rest in lost.items():
            ledger.take(
                row,
                cpu_millis=float(rest.cpu_millis),
                memory_bytes=float(rest.memory_bytes),
                gpus=rest.gpu_centi / GPU_CENTI,
            )
        for row, (cpu_millis, memory_bytes, gpu_centi) in last:
            ledger.add(
                row,
                cpu_millis=float(cpu_millis),
                memory_bytes=float(memory_bytes),
                gpus=gpu_centi / GPU_CENTI,
            )
        return ledger.accepts()

    def _held(self, tasks: Sequence[Task]) -> Amounts:
        cpu_millis = memory_bytes = gpu_centi = 0
        for task in tasks:
            node = task.node
            cpu, memory, gpu = task.cls.charge(
                node.gpu_memory_mib if node is not None else self._gpu_memory_mib
            )
            cpu_millis, memory_bytes, gpu_centi = cpu_millis + cpu, memory_bytes + memory, gpu_centi + gpu
        return Amounts(cpu_millis, memory_bytes, gpu_centi)


def _chunks(tasks: Sequence[Task]) -> list[list[Task]]:
    """Surplus pods one by one, then the core of the gang at once."""
    by_set: dict[str, list[Task]] = {}
    for task in tasks:
        if task.pod_set is not None:
            by_set.setdefault(task.pod_set.name, []).append(task)
    core: list[Task] = []
    chunks: list[list[Task]] = []
    for members in by_set.values():
        needed = members[0].pod_set.min_member if members[0].pod_set is not None else 0
        core += members[:needed]
        chunks += [[task] for task in members[needed:]]
    return [*chunks, core] if core else chunks
