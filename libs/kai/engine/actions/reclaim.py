"""Take back from other queues what a queue is entitled to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, gcd

from kai.engine.actions import eviction
from kai.engine.fairness.order import fits
from kai.engine.fairness.reclaim import Reclamation
from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.victims import VictimRules
from kai.engine.queueing.batches import Batch, by_job
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.victims import VictimSource
from kai.engine.reasons import Unschedulable
from kai.engine.reasons.amounts import amount_text
from kai.engine.search.bounds import free_centi
from kai.engine.search.signatures import Representatives
from kai.engine.search.solver import Validator
from kai.model.decisions import ResourceVector
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED

ACTION = "reclaim"
_NEAR = 1e-6


def run(session: Session) -> None:
    """Serve all jobs that wait."""
    eviction.run(session, _Reclaim(session), session.allocatable_jobs())


class _Reclaim:
    action = ACTION
    moves_only = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self._representatives: dict[str, Representatives] = {}
        self._requests: dict[int, dict[ResourceVector, list[Job]]] | None = None
        #: What each queue is entitled to, in words: GPUs, CPU, memory.
        self._entitled: dict[int, tuple[str, ...]] = {}
        self._on = session.config.plugin("proportion") is not None

    def representatives(self, job: Job) -> Representatives:
        known = self._representatives.get(job.queue.name)
        if known is None:
            enabled = self.session.config.params.use_scheduling_signatures
            known = self._representatives[job.queue.name] = Representatives(enabled=enabled)
        return known

    def admits(self, job: Job) -> bool:
        if not self._on:
            return False
        return self.session.rules.can_reclaim(job.queue.row, self._request(job), preemptible=job.preemptible)

    def _request(self, job: Job, tasks: list[Task] | None = None) -> ResourceVector:
        return self.session.requested(tasks if tasks is not None else tasks_to_allocate(job, simulation=True))

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        del job, tasks
        return None

    def _losers(self, job: Job, tasks: list[Task]) -> Callable[[Queue], bool]:
        request, rules, mine = self._request(job, tasks), self.session.rules, job.queue
        return lambda queue: queue is not mine and rules.may_be_victim(mine.row, request, queue.row)

    def victims(self, job: Job, tasks: list[Task], rules: VictimRules) -> VictimSource:
        return self.session.victim_source(job, self._losers(job, tasks), rules.accepts)

    def may_suffice(self, job: Job, tasks: list[Task]) -> bool:
        """Whether what is free and what may be taken from each queue could cover the request's GPUs.

        Pods that find another place are not taken, so the rest must be: nothing is gained by moving.
        """
        session = self.session
        needed: float = sum(task.cls.centi_gpus for task in tasks)
        if not needed or any(task.cls.gpu_memory_mib for task in tasks):
            return True
        needed -= free_centi(session)
        of_queue = self._losers(job, tasks)
        by_row: dict[int, list[Queue]] = {}
        for queue in session.state.queue_order:
            if queue.leaf and queue.jobs and of_queue(queue):
                by_row.setdefault(session.forest.leveled(job.queue.row, queue.row)[1], []).append(queue)
        for row, queues in by_row.items():
            if needed <= 0:
                break
            needed -= self._takeable(job, tasks, row, queues, needed)
        return needed <= 0

    def _takeable(self, job: Job, tasks: list[Task], row: int, queues: list[Queue], needed: float) -> float:
        """An upper bound on hundredths of GPUs that may be taken below a queue, chunk by chunk.

        A smaller bound is enough where it reaches what is needed.
        """
        session = self.session
        everything = sum(queue.allocated[2] for queue in queues)
        bounds = [session.shares.allocatable[row]]
        mine = session.forest.leveled(job.queue.row, queues[0].row)[0]
        if session.rules.within_deserved(mine, self._request(job, tasks)):
            bounds.append(session.shares.deserved[row])
        held = session.columns.allocated[row].tolist()
        if any(0 <= bound[r] < held[r] for bound in bounds for r in (0, 1)):
            return everything
        limits = [bound[2] for bound in bounds if bound[2] >= 0]
        if not limits or held[2] <= min(limits):
            return 0.0
        above = (held[2] - min(limits)) * GPU_CENTI
        if needed <= min(everything, above):
            return needed
        chunks = [session.pools.of(queue).chunks_centi() for queue in queues]
        grain, largest = gcd(*(each for each, _ in chunks)), max(each for _, each in chunks)
        before_last = (ceil(above / grain - _NEAR) - 1) * grain if grain else 0
        return min(everything, before_last + largest)

    def validator(self, job: Job, tasks: list[Task]) -> Validator:
        session = self.session
        ledger = session.rules.open(job.queue.row, self._request(job, tasks), preemptible=job.preemptible)
        moving = session.config.params.allow_consolidating_reclaim
        memory = session.state.min_gpu_memory
        leveled = session.forest.leveled

        def fair(victims: Sequence[Batch]) -> bool:
            mark = ledger.mark()
            lost = _Lost(memory, lambda row: leveled(job.queue.row, row)[1])
            for batches in by_job(victims).values():
                tasks = batches[0].tasks if len(batches) == 1 else [t for each in batches for t in each.tasks]
                if moving:
                    tasks = [task for task in tasks if not ACTIVE_ALLOCATED[task.status]]
                if tasks:
                    lost.add(batches[0].job.queue.row, tasks)
            accepted = lost.judged(ledger) and not self._taken_back(job, ledger, lost.rows)
            ledger.undo(mark)
            return accepted

        return fair

    def _taken_back(self, job: Job, ledger: Reclamation, rows: Iterable[int]) -> bool:
        """Whether a queue that loses would at once take from what is gained: such exchanges never end.

        It is left with less than it deserves, one of its jobs that wait fits into that, and the one that
        takes now would hold more than it deserves.
        """
        session = self.session
        deserved = session.shares.deserved
        for row in rows:
            mine, theirs = session.forest.leveled(job.queue.row, row)
            surplus, left = ledger.surplus(mine), ledger.held(theirs)
            if not any(surplus) or not _less(left, deserved[theirs]):
                continue
            for asked, jobs in self._waiting(theirs).items():
                contested = any(wanted and over for wanted, over in zip(asked, surplus, strict=True))
                then = (left[0] + asked[0], left[1] + asked[1], left[2] + asked[2])
                if contested and fits(then, deserved[theirs]) and any(other.pending for other in jobs):
                    return True
        return False

    def _waiting(self, row: int) -> dict[ResourceVector, list[Job]]:
        """Jobs below a queue that waited when this was first asked, by what their next chunk asks for."""
        if self._requests is None:
            self._requests = {}
            for job in self.session.allocatable_jobs():
                asked = self._request(job)
                for each in job.queue.path:
                    self._requests.setdefault(each.row, {}).setdefault(asked, []).append(job)
        return self._requests.get(row, {})

    def message(self, job: Job) -> Message:
        rows = self.session.state.queue_order
        held = [tuple(queue.allocated) for queue in rows]
        leveled = self.session.forest.leveled
        known: dict[int, str] = {}

        def text(task: Task, taker: str) -> str:
            assert task.job is not None
            row = task.job.queue.row
            lines = known.get(row)
            if lines is None:
                mine, theirs = leveled(job.queue.row, row)
                giver, gets = self._line(rows[theirs], held[theirs]), self._line(rows[mine], held[mine])
                lines = known[row] = f"from {giver}.\nfor {gets}."
            return f"pod {task.key} was reclaimed by workload {taker}.\n{lines}"

        return text

    def _line(self, queue: Queue, held: tuple[int, ...]) -> str:
        known = self._entitled.get(queue.row)
        if known is None:
            fair = self.session.shares.fair[queue.row]
            known = self._entitled[queue.row] = tuple(
                f"of fair share {amount_text(column, fair[i])} "
                f"(quota {amount_text(column, queue.deserved[i])})"
                for i, column in ((2, GPU), (0, CPU), (1, MEMORY))
            )
        gpus, cpu, memory = known
        return (
            f"queue {queue.display_name!r} (priority {queue.priority}): "
            f"{amount_text(GPU, held[2] / GPU_CENTI)} {gpus}, "
            f"{amount_text(CPU, held[0])} {cpu}, {amount_text(MEMORY, held[1])} {memory}"
        )


def _less(held: ResourceVector, bound: ResourceVector) -> bool:
    """Whether a queue holds less of something than it deserves."""
    return any(most >= 0 and amount < most - _NEAR for amount, most in zip(held, bound, strict=True))


class _Lost:
    """What queues lose to a job, chunk by chunk.

    A queue may lose a chunk as long as it holds too much, so of all that is taken where two lines part only
    the last chunk needs to be judged: before each of the others it held more.
    """

    def __init__(self, gpu_memory: int, parted: Callable[[int], int]) -> None:
        """``parted`` says of a queue where its line and the taker's part."""
        self._gpu_memory = gpu_memory
        self._parted = parted
        #: CPU, memory and hundredths of GPUs that each queue lost, its last chunk included.
        self._lost: dict[int, list[int]] = {}
        #: By the ancestor where the lines part: the queue and the tasks of the job taken last.
        self._last: dict[int, tuple[int, Sequence[Task]]] = {}

    def add(self, row: int, tasks: Sequence[Task]) -> None:
        """Tasks of one job of a queue are gone."""
        lost = self._lost.get(row)
        if lost is None:
            lost = self._lost[row] = [0, 0, 0]
        for task in tasks:
            node = task.node
            cpu, memory, centi = task.cls.charge(node.gpu_memory if node is not None else self._gpu_memory)
            lost[0] += cpu
            lost[1] += memory
            lost[2] += centi
        self._last[self._parted(row)] = (row, tasks)

    @property
    def rows(self) -> list[int]:
        """Queues that lose something, one for each ancestor where lines part."""
        return [row for row, _ in self._last.values()]

    def judged(self, ledger: Reclamation) -> bool:
        """Whether all of it may be taken."""
        lost = self._lost
        last: list[tuple[int, int, int, int]] = []
        for row, tasks in self._last.values():
            cpu, memory, centi = self._held(_chunks(tasks)[-1] if len(tasks) > 1 else tasks)
            last.append((row, cpu, memory, centi))
            before = lost[row]
            rest = [before[0] - cpu, before[1] - memory, before[2] - centi]
            if any(rest):
                lost[row] = rest
            else:
                del lost[row]
        for row, (cpu, memory, centi) in lost.items():
            ledger.take(row, float(cpu), float(memory), centi / GPU_CENTI)
        for row, cpu, memory, centi in last:
            ledger.add(row, float(cpu), float(memory), centi / GPU_CENTI)
        return ledger.accepts()

    def _held(self, tasks: Sequence[Task]) -> Amounts:
        cpu = memory = centi = 0
        for task in tasks:
            node = task.node
            more = task.cls.charge(node.gpu_memory if node is not None else self._gpu_memory)
            cpu, memory, centi = cpu + more[0], memory + more[1], centi + more[2]
        return Amounts(cpu, memory, centi)


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
