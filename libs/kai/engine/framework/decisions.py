"""What a cycle decided so far, and the ways to decide: every decision changes the state at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace as replace_fields

from kai.engine.framework.statement import ALLOCATE, EVICT, Operation, Statement
from kai.engine.queueing.pools import Pools
from kai.model.decisions import NO_ALLOTMENT, BindDecision, Cut, Eviction, Nomination
from kai.model.ids import NO_POD_GROUP, PodGroupKey, PodUid
from kai.snapshot.classes import GpuKind
from kai.snapshot.kept import Carried, as_it_is
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

#: What to tell about a victim, for the pod group that profits.
Message: TypeAlias = Callable[[Task, PodGroupKey], str]
#: Pod groups that wait for resources being released, in the order in which they were promised.
PROMISED: Final = Carried[tuple[PodGroupKey, ...]](tuple, copied=as_it_is, lent=True)


def _silent(task: Task, taker: PodGroupKey) -> str:
    del task, taker
    return ""


class Decisions:
    """What a cycle decided so far, in order."""

    def __init__(self, state: ClusterState, *, pools: Pools, now: float) -> None:
        """Nothing is decided yet. ``pools`` are kept in step with what is; ``now`` is in Unix seconds."""
        self._state = state
        self._ledger = state.ledger
        self._pools = pools
        self._now = now
        #: Pods that wait for resources being released, by uid.
        self._pipelined: dict[PodUid, Task] = {}
        #: How each of the victims in ``evictions`` is told.
        self._messages: list[Message | None] = []
        self.binds: list[BindDecision] = []
        self.evictions: list[Eviction] = []
        self.nominations: list[Nomination] = []
        self.counters: dict[tuple[str, ...], float] = {}
        #: Seconds of searches, by action, generator and result.
        self.searches: dict[tuple[str, str, str], list[float]] = {}
        #: Where time ended searches.
        self.cuts: list[Cut] = []
        #: Jobs that got binds, and those that wait.
        self.placed: set[PodGroupKey] = set()
        self.pipelined: set[PodGroupKey] = set()
        #: Jobs that gave up all their turns, and which job has them.
        self.outbid: dict[PodGroupKey, PodGroupKey] = {}
        #: When jobs that started or lost pods in this cycle had done so before.
        self.started_before: dict[PodGroupKey, float] = {}
        self.evicted_before: dict[PodGroupKey, float] = {}
        #: Where pods (uid) that were told to wait somewhere, or no longer, had waited before.
        self.nominated_before: dict[PodUid, str] = {}

    def count(self, *name: str, by: float = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + by

    def commit(
        self,
        statement: Statement,
        *,
        action: str,
        evictor: Job | None = None,
        message: Message | None = None,
    ) -> None:
        """Make a statement's operations decisions: they outlive the session, and cannot be rolled back.

        After: each pod that was allocated is in ``binds``, each that was evicted and not put back is in
        ``evictions``, in the order of steps; those that wait are nominated, and the statement is empty.

        Args:
            statement: whose operations they are.
            action: the action that decided, by the name of the configuration.
            evictor: the job for which others are evicted; None where nobody profits.
            message: what the owner of an evicted pod is told; asked again if somebody else gets its place.
        """
        if len(statement.log) == 1 and statement.log[0].kind == ALLOCATE:
            self._commit_bind(statement.log[0])
            self._mend(statement)
            return
        steps, waiting = statement.operations(), self._pipelined
        # One that only waits for a place gives it up, and is not deleted.
        going = [step.task for step in steps if step.kind == EVICT and step.task.uid not in waiting]
        groups = [task.job.key for task in going if task.job is not None]
        sizes: Mapping[PodGroupKey, int] = dict.fromkeys(groups, 1)
        if len(sizes) < len(groups):
            sizes = Counter(groups)
        # Mostly those that go come first, and then they go at once.
        first = 0
        for step, task in zip(steps, going, strict=False):
            if step.kind != EVICT or step.task is not task:
                break
            first += 1
        self._evict(going[:first], action, evictor, message, sizes)
        for step in steps[first:]:
            if step.kind == ALLOCATE:
                self._commit_bind(step)
            elif step.kind != EVICT:
                self._commit_pipeline(step.task)
            elif step.task.uid in waiting:
                self._give_up_turn(step.task, evictor)
            else:
                self._evict([step.task], action, evictor, message, sizes)
        self._mend(statement)

    def _mend(self, statement: Statement) -> None:
        """Bring what searches keep up to date with decisions."""
        if self._pools.used:
            self._pools.mend(operation.task for operation in statement.log)
        statement.log.clear()

    def bind(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Decide to bind pods that wait, each to its node, at once, in this order.

        Before: they have taken their resources there (``Ledger.occupy``), share no devices, and no plugin
        tracks them. After: they hold them, and are in ``binds``.
        """
        self._ledger.admit(tasks, nodes)
        self._bound(tasks, nodes)
        if self._pools.used:
            self._pools.mend(tasks)

    def _commit_bind(self, operation: Operation) -> None:
        task, node = operation.task, operation.node
        assert node is not None
        self._ledger.counts.set_status(task, Status.BINDING)
        # Not before: what is only tried, or promised, still counts as asked for.
        self._ledger.charges.dequeue(task, self._state.min_gpu_memory_mib)
        self._bound((task,), (node,))

    def _bound(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        self.binds += map(self._bind_decision, tasks, nodes)
        self._state.placed(tasks, nodes)
        self.placed.update([task.job.key for task in tasks if task.job is not None])

    def _bind_decision(self, task: Task, node: Node) -> BindDecision:
        cls, allotted = task.cls, task.allotment
        # Of most pods all else is as by default.
        if allotted is None and (cls.kind is GpuKind.WHOLE or cls.kind is GpuKind.NONE):
            return BindDecision(
                pod=task.ref(),
                node=node.name,
                gpu_count=cls.devices,
                node_pool=self._state.params.node_pool,
            )
        allotted = allotted or NO_ALLOTMENT
        kind, portion = cls.received(node.gpu_memory_mib)
        return BindDecision(
            pod=task.ref(),
            node=node.name,
            resource_type=kind,
            gpu_count=cls.devices,
            gpu_portion=portion,
            gpu_groups=task.groups,
            gpu_memory_mib=cls.gpu_memory_mib,
            claim_allocations=allotted.claims,
            extended_claim=allotted.extended_claim,
            numa_zones=allotted.numa,
            node_pool=self._state.params.node_pool,
        )

    def _evict(
        self,
        tasks: Sequence[Task],
        action: str,
        evictor: Job | None,
        message: Message | None,
        sizes: Mapping[PodGroupKey, int],
    ) -> None:
        """Pods that hold what they have are deleted; ``sizes`` says how many of each group go."""
        taker = evictor.key if evictor is not None else NO_POD_GROUP
        tell = message or _silent
        losers = {task.job.key: task.job for task in tasks if task.job is not None}
        self.evictions += [
            Eviction(
                pod=(pod := task.ref()),
                action=action,
                message=tell(task, taker),
                gang_size=sizes[pod.pod_group],
                evictor=taker,
            )
            for task in tasks
        ]
        self._messages += [message] * len(tasks)
        self._state.doomed(tasks)
        before = self.evicted_before
        for key, job in losers.items():
            if key not in before:
                before[key] = job.last_eviction
        self._state.robbed(losers.values(), self._now)

    def _give_up_turn(self, task: Task, evictor: Job | None) -> None:
        """A pod that only waited for resources waits without a place again; nothing is deleted.

        What was released for the last pod of its job is released for the one that takes over.
        """
        self.nominations = [each for each in self.nominations if each.pod.uid != task.uid]
        self._nominate(task, task.facts.nominated if task.facts is not None else "")
        if task.status is not Status.RELEASING:
            return  # the same statement promised it another place
        del self._pipelined[task.uid]
        job = task.job
        if job is not None and not any(each.job is job for each in self._pipelined.values()):
            self.pipelined.discard(job.key)
            if evictor is not None and job is not evictor:
                self.outbid[job.key] = evictor.key
                self._take_over(job.key, evictor.key)
        self._ledger.counts.confirm(task)
        # One that was moved itself leaves its node all the same.
        if task.facts is not None and not task.facts.evicting:
            self._ledger.counts.set_status(task, Status.PENDING)
            self._state.unpromised(task)

    def _take_over(self, former: PodGroupKey, taker: PodGroupKey) -> None:
        for position, (each, message) in enumerate(zip(self.evictions, self._messages, strict=True)):
            if each.evictor == former:
                assert message is not None
                text = message(self._state.tasks[each.pod.uid], taker)
                self.evictions[position] = replace_fields(each, evictor=taker, message=text)

    def _commit_pipeline(self, task: Task) -> None:
        job = task.job
        assert job is not None
        node = task.pipelined_node
        assert node is not None
        self._pipelined[task.uid] = task
        self._ledger.counts.confirm(task)
        self._nominate(task, node.name)
        self.nominations.append(Nomination(pod=task.ref(), node=node.name))
        self.pipelined.add(job.key)

    def _nominate(self, task: Task, node: str) -> None:
        self.nominated_before.setdefault(task.uid, task.nominated)
        self._state.nominate(task, node)

    def revoke(self) -> None:
        """Decide nothing of it after all; the sums, which are of no use any more, have to be counted anew."""
        state = self._state
        for bind in self.binds:
            state.revoke_bind(state.tasks[bind.pod.uid])
        for eviction in self.evictions:
            state.revoke_eviction(state.tasks[eviction.pod.uid])
        for uid, node in self.nominated_before.items():
            state.nominate(state.tasks[uid], node)
        for key, moment in self.started_before.items():
            state.started(state.jobs[key], moment)
        for key, moment in self.evicted_before.items():
            state.robbed((state.jobs[key],), moment)

    def started(self, job: Job) -> None:
        """A job that held nothing begins to run."""
        self.started_before.setdefault(job.key, job.last_start)
        self._state.started(job, self._now)

    def begin(self, task: Task, node: Node) -> None:
        """A pod that was to wait on a node is bound to it; it fits, and its devices are not shared.

        After: it is in ``binds``, and not nominated any more.
        """
        self._ledger.charges.discharge(task)
        self._ledger.holds.unpipeline(task)
        del self._pipelined[task.uid]
        self.nominations = [each for each in self.nominations if each.pod.uid != task.uid]
        self._nominate(task, task.facts.nominated if task.facts is not None else "")
        self._ledger.counts.set_status(task, Status.PENDING)
        self._ledger.occupy(node, {task.cls: 1})
        self.bind((task,), (node,))
        assert task.job is not None
        if not any(each.pod.pod_group == task.job.key for each in self.nominations):
            self.pipelined.discard(task.job.key)

    def wait(self, task: Task) -> None:
        """A pod that was to be bound in this cycle waits for its place instead.

        After: it is nominated. Its bind is still in ``binds``, for the caller to take out.
        """
        node, groups = task.node, task.groups
        assert node is not None
        self._ledger.holds.unhold(task)
        self._state.unplaced(task)
        self._ledger.holds.pipeline(task, node, groups)
        self._ledger.counts.set_status(task, Status.PIPELINED)
        self._commit_pipeline(task)

    def close(self) -> None:
        """Take back what only a cycle knows: placements on resources that are still being released."""
        self._messages.clear()  # each knows whom it was made for, and so the session
        self._forget_promises({each.pod.uid for each in self.nominations})
        promised = [each.pod.pod_group for each in self.nominations]
        PROMISED.put(self._state.kept, tuple(dict.fromkeys(promised)))
        for task in self._pipelined.values():
            if task.status is not Status.PIPELINED:
                continue
            if task.charged is not None:
                self._ledger.charges.discharge(task)
            self._ledger.holds.unpipeline(task)
            evicting = task.facts is not None and task.facts.evicting
            self._ledger.counts.set_status(task, Status.RELEASING if evicting else Status.PENDING)
            if not evicting:
                self._state.unpromised(task)
        self._pipelined.clear()

    def _forget_promises(self, renewed: Container[PodUid]) -> None:
        """What the cycle before foresaw counts no more where this one has not foreseen it again."""
        for key in PROMISED.of(self._state.kept):
            job = self._state.jobs.get(key)
            for pod_set in job.pod_sets.values() if job is not None else ():
                for task in pod_set.tasks.values():
                    said = task.facts.nominated if task.facts is not None else ""
                    if task.nominated != said and task.uid not in renewed:
                        self._nominate(task, said)
