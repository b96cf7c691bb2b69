"""Rows and indices of the cluster, and putting a task into all sums and taking it out again.

Whatever a change can influence is taken out of all sums first, and put back by the same rules as at the
start.
"""

from __future__ import annotations

from typing import Any

from kai.model.faults import Fault
from kai.model.objects import PodGroup, PriorityClass
from kai.model.objects import Queue as QueueObject
from kai.snapshot import jobs, pods
from kai.snapshot.access import AccessTable
from kai.snapshot.classes import ClassTable
from kai.snapshot.grants import Grants
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.kept import KeptValues
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.ledger import Ledger
from kai.snapshot.refusals import Refusals
from kai.snapshot.resources import ResourceTable
from kai.snapshot.rows import UNKNOWN_GPU_MEMORY, Job, Node, PodFacts, Queue, Standing, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, ACTIVE_USED, Status
from kai.snapshot.table import NodeTable


class Accounts:
    """All rows and indices, and the sums that tasks are in."""

    def __init__(self, params: StateParams | None = None) -> None:
        self.params = params or StateParams()
        self.resources = ResourceTable()
        self.classes = ClassTable(self.resources)
        self.nodes = NodeTable(self.resources)
        self.ledger = Ledger(self.nodes)
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.queue_objects: dict[str, QueueObject] = {}
        self.group_objects: dict[str, PodGroup] = {}
        #: Queues that take part, parents before children; rows are positions in it.
        self.queue_order: list[Queue] = []
        self.priority_classes: dict[str, PriorityClass] = {}
        #: Objects that only plugins read, by kind and key, and how often each kind changed.
        self.objects: dict[Kind, dict[str, Any]] = {kind: {} for kind in Kind}
        self.access = AccessTable(self.objects[Kind.NAMESPACE])
        self.versions: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self.version = 0
        #: Jobs with pending tasks; jobs whose tasks changed since a cycle looked.
        self.pending_jobs: dict[str, Job] = {}
        self.touched_jobs: dict[str, Job] = {}
        #: Pods that want to be near or away from others.
        self.affine: dict[str, Task] = {}
        #: Requests of other schedulers' pods on ready nodes: CPU, memory, hundredths of GPUs.
        self.foreign = [0, 0, 0]
        #: Objects whose newest version could not be taken in, by kind and key.
        self.faults: dict[tuple[Kind, str], Fault] = {}
        #: Pods that say something else than what they were granted, by key.
        self.overruled: dict[str, Fault] = {}
        self.grants = Grants()
        self.refusals = Refusals()
        self.group_order = GroupOrder()
        #: What others keep here from cycle to cycle.
        self.kept = KeptValues()
        #: A change failed half-way: no sum can be trusted until all are found anew.
        self.unsound = False
        self._tasks_by_key: dict[str, Task] = {}
        self._members: dict[str, dict[str, Task]] = {}
        self._on_node: dict[str, dict[str, Task]] = {}
        self._claim_users: dict[str, dict[str, Task]] = {}
        self._releasing: dict[str, Task] = {}
        #: Columns of extended resources that device classes stand behind.
        self._backed: tuple[int, ...] = ()
        self._queues_dirty = False
        self._system_namespaces = self.params.system_namespaces
        #: How groups stand that name the same: by priority class, preemptibility and namespace.
        self._standings: dict[tuple[str, str, str], Standing] = {}
        self._now = 0.0
        self.min_gpu_memory = UNKNOWN_GPU_MEMORY
        self.max_gpu_memory = UNKNOWN_GPU_MEMORY
        self._gpu_memory_dirty = False

    def order_groups(self, order: GroupOrder) -> None:
        """Go by this order from now on: no more than a comparison where it is the one that held before."""
        if order == self.group_order:
            return
        self.group_order = order
        for task in self.tasks.values():
            task.order = order.key(task.labels, task.created, str(task.order[-1]))
        for job in self.jobs.values():
            jobs.arrange(job, order)
            job.version += 1

    def set_aside(self, job: Job, fault: Fault | None) -> None:
        """Decide nothing about a job, which asks for nothing meanwhile; None: decide about it again."""
        members = list(self._members.get(job.key, {}).values())
        for task in members:
            self._detach(task)
        job.aside = fault
        job.version += 1
        for task in members:
            self._attach(task)
        self.touched_jobs[job.key] = job

    def _attach(self, task: Task) -> None:
        """Put a task into all sums, by its facts and what is known of the rest."""
        try:
            self._enter(task)
        except Exception:
            self.unsound = True
            raise

    def _detach(self, task: Task) -> None:
        """The inverse of :meth:`_attach`."""
        try:
            self._withdraw(task)
        except Exception:
            self.unsound = True
            raise

    def _enter(self, task: Task) -> None:
        facts, uid, cls = task.facts, task.uid, task.cls
        assert facts is not None
        status = pods.status(facts, self._now, self.params.stuck_in_releasing_seconds)
        key = facts.group_key
        job = self.jobs.get(key) if key else None
        if job is not None:
            shut_out = job.usurps or (self.access.restricted and self._shuts_out(job, facts))
            if shut_out is not task.shut_out:
                task.shut_out = shut_out
            if status is Status.PENDING and (shut_out or job.aside is not None):
                status = Status.GATED  # it asks for nothing until it takes part again
        elif task.shut_out:
            task.shut_out = False
        task.status = status
        if facts.deleted_at and status in (Status.RELEASING, Status.STUCK_IN_RELEASING):
            self._releasing[uid] = task
        if key:
            members = self._members.get(key)
            if members is None:
                members = self._members[key] = {}
            members[uid] = task
            if job is not None and status is not Status.FAILED:
                self._enlist(task, job)
        node = None
        if name := facts.node_name or facts.assumed_node:
            here = self._on_node.get(name)
            if here is None:
                here = self._on_node[name] = {}
            here[uid] = task
            if ACTIVE_USED[status]:
                node = self.nodes.by_name.get(name)
        if node is not None and cls.vast and not self.ledger.bears(task, node):
            node = None  # one that is overfull by all that can be counted is full without this pod, too
        if node is not None:
            groups = facts.granted_ids or facts.group_ids or facts.assumed_groups if cls.shared else ()
            task.plugin_results = facts.assumed_results
            self.ledger.hold(task, node, groups, releasing=status is Status.RELEASING)
            if facts.reservation:
                self.ledger.reserve(node, facts.group_ids, 1)
            if not facts.ours and not facts.utility:
                self._count_foreign(task, node, 1)
        if task.job is not None:
            if ACTIVE_ALLOCATED[status]:
                self.ledger.charge(task, node.gpu_memory if node is not None else self.min_gpu_memory)
            elif status is Status.PENDING:
                self.ledger.ask(task, self.min_gpu_memory, 1)

    def _shuts_out(self, job: Job, facts: PodFacts) -> bool:
        """Whether a pod may not be given a place as a part of a job."""
        return job.usurps or bool(self.access.barrier(job.queue.name, job.namespace, facts.account))

    def _withdraw(self, task: Task) -> None:
        facts, uid = task.facts, task.uid
        assert facts is not None
        if self._releasing:
            self._releasing.pop(uid, None)
        if task.charged is not None:
            self.ledger.discharge(task)
        elif task.job is not None and task.status is Status.PENDING:
            self.ledger.ask(task, self.min_gpu_memory, -1)
        if task.node is not None:
            if not facts.ours and not facts.utility:
                self._count_foreign(task, task.node, -1)
            if facts.reservation:
                self.ledger.reserve(task.node, facts.group_ids, -1)
            self.ledger.unhold(task)
        task.plugin_results = None
        if name := facts.node_name or facts.assumed_node:
            discard(self._on_node, name, uid)
        if task.job is not None:
            self._delist(task)
        elif facts.group_key and (job := self.jobs.get(facts.group_key)) is not None:
            job.invalid.pop(uid, None)
        if facts.group_key:
            discard(self._members, facts.group_key, uid)

    def _enlist(self, task: Task, job: Job) -> None:
        pod_set = job.single or job.pod_sets.get(facts_of(task).sub_group)
        self.touched_jobs[job.key] = job
        if pod_set is None:
            job.invalid[task.uid] = task
            return
        self.ledger.join(task, job, pod_set)
        if task.status is Status.PENDING:
            self.pending_jobs[job.key] = job

    def _delist(self, task: Task) -> None:
        job = task.job
        assert job is not None
        self.touched_jobs[job.key] = job
        self.ledger.leave(task)
        if not job.pending:
            self.pending_jobs.pop(job.key, None)

    def _count_foreign(self, task: Task, node: Node, sign: int) -> None:
        if node.ready:
            for resource, amount in enumerate(task.cls.charge(node.gpu_memory)):
                self.foreign[resource] += sign * amount


def facts_of(task: Task) -> PodFacts:
    """What is known of a task's pod."""
    assert task.facts is not None
    return task.facts


def discard(index: dict[str, dict[str, Task]], key: str, uid: str) -> None:
    """Take a task out of an index; no empty entry stays."""
    bucket = index[key]
    del bucket[uid]
    if not bucket:
        del index[key]
