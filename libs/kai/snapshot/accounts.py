"""Putting a task into all sums and indices, and taking it out again.

Whatever a change can influence is taken out of all sums first, and put back by the same rules as at the
start.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from kai.model.faults import Fault
from kai.model.ids import PodUid
from kai.snapshot import jobs, pods
from kai.snapshot.cluster import Cluster
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.rows import Job, Node, PodFacts, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, ACTIVE_USED, Status

_K = TypeVar("_K", bound=str)
_JOB_OF: Final = attrgetter("job")


class Accounts:
    """The sums that tasks are in."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def order_groups(self, order: GroupOrder) -> None:
        """Go by this order from now on: no more than a comparison where it is the one that held before."""
        cluster = self._cluster
        if order == cluster.group_order:
            return
        cluster.group_order = order
        for task in cluster.tasks.values():
            task.order = order.key(task.labels, task.created, str(task.order[-1]))
        for job in cluster.jobs.values():
            jobs.arrange(job, order)
            job.version += 1
            cluster.ledger.charges.settle_core(job)

    def set_aside(self, job: Job, fault: Fault | None) -> None:
        """Decide nothing about a job, which asks for nothing meanwhile; None: decide about it again."""
        cluster = self._cluster
        members = list(cluster.members.get(job.key, {}).values())
        for task in members:
            self.detach(task)
        job.aside = fault
        job.version += 1
        for task in members:
            self.attach(task)
        cluster.touched_jobs[job.key] = job

    def attach(self, task: Task) -> None:
        """Put a task into all sums, by its facts and what is known of the rest.

        Before: it is in none of them, and facts and class are those that shall count. After: its status, job,
        node and charges follow from them. Where anything is raised the state is ``unsound``.
        """
        try:
            self._enter(task)
        except Exception:
            self._cluster.unsound = True
            raise

    def attach_all(self, tasks: Sequence[Task]) -> None:
        """:meth:`attach` each of these, step by step for all of them.

        Before: they are in no sum, and the ledger enters at once. Each has the status that follows from its
        facts, and a job and the only pod set of that, which takes part. It is ours, has no GPU claims and no
        vast class, is granted nothing, stands for no device, and has neither failed nor been deleted.
        """
        try:
            self._enter_all(tasks)
        except Exception:
            self._cluster.unsound = True
            raise

    def detach(self, task: Task) -> None:
        """The inverse of :meth:`attach`.

        Before: its facts and class are still those by which it was attached; they may be changed after it.
        """
        try:
            self._withdraw(task)
        except Exception:
            self._cluster.unsound = True
            raise

    def _enter(self, task: Task) -> None:
        cluster = self._cluster
        facts, uid, cls = task.facts, task.uid, task.cls
        assert facts is not None
        status = pods.status(facts, now=cluster.now, stuck_after=cluster.params.stuck_in_releasing_seconds)
        key = facts.group_key
        job = cluster.jobs.get(key) if key else None
        if job is not None:
            shut_out = job.usurps or job.elsewhere or not job.queue.exists
            if not shut_out and cluster.access.restricted:
                shut_out = self.shuts_out(job, facts)
            if shut_out is not task.shut_out:
                task.shut_out = shut_out
            if status is Status.PENDING and (shut_out or job.aside is not None):
                status = Status.GATED  # it asks for nothing until it takes part again
        elif task.shut_out:
            task.shut_out = False
        task.status = status
        if facts.deleted_at and ACTIVE_USED[status]:
            cluster.deleted[uid] = task
        if key:
            if key in cluster.elsewhere:
                cluster.unsettled[key] = None
            members = cluster.members.get(key)
            if members is None:
                members = cluster.members[key] = {}
            members[uid] = task
            if job is not None and status is not Status.FAILED:
                self._enlist(task, job)
        node = self._found_on_node(task, facts.node_name or facts.assumed_node)
        if node is not None and cls.vast and not cluster.ledger.holds.bears(task, node):
            node = None  # one that is overfull by all that can be counted is full without this pod, too
        if node is not None:
            groups = facts.devices if cls.shared else ()
            if groups and not (facts.ours or facts.utility or facts.granted_ids):
                # Its own word counts only where those who placed it hold the device: no queue pays for it.
                groups = tuple([each for each in groups if cluster.grants.is_of_others((node.name, each))])
            task.allotment = facts.assumed_allotment
            cluster.ledger.holds.hold(task, node, groups, releasing=status is Status.RELEASING)
            if facts.reservation:
                cluster.ledger.holds.reserve(node, facts.group_ids, count=1)
            if not facts.ours and not facts.utility:
                self._count_foreign(task, node, 1)
        if task.job is not None:
            memory = node.gpu_memory_mib if node is not None else cluster.min_gpu_memory_mib
            if ACTIVE_ALLOCATED[status]:
                cluster.ledger.charges.charge(task, memory)
            elif status is Status.LINGERING:
                cluster.ledger.charges.linger(task, task.cls.charge(memory))
            elif status is Status.PENDING:
                cluster.ledger.charges.enqueue(task, cluster.min_gpu_memory_mib)

    def _enter_all(self, tasks: Sequence[Task]) -> None:
        cluster, ledger = self._cluster, self._cluster.ledger
        for job, members in groupby(tasks, _JOB_OF):
            self._enlist_all(job, {task.uid: task for task in members})
        nodes = self._found_on_nodes(tasks)
        ledger.holds.hold_all(tasks, nodes)
        ledger.charges.charge_all(tasks, nodes, cluster.min_gpu_memory_mib)

    def _found_on_node(self, task: Task, name: str) -> Node | None:
        """Let a task be found by the node of this name; returns the node where it holds resources there."""
        if not name:
            return None
        cluster = self._cluster
        here = cluster.on_node.get(name)
        if here is None:
            here = cluster.on_node[name] = {}
        here[task.uid] = task
        return cluster.nodes.by_name.get(name) if ACTIVE_USED[task.status] else None

    def _found_on_nodes(self, tasks: Sequence[Task]) -> list[Node | None]:
        on_node, by_name = self._cluster.on_node, self._cluster.nodes.by_name
        nodes: list[Node | None] = []
        for task in tasks:
            name = facts_of(task).node_name
            if not name:
                nodes.append(None)
                continue
            here = on_node.get(name)
            if here is None:
                here = on_node[name] = {}
            here[task.uid] = task
            nodes.append(by_name.get(name) if ACTIVE_USED[task.status] else None)
        return nodes

    def _enlist_all(self, job: Job, tasks: dict[PodUid, Task]) -> None:
        cluster, key = self._cluster, job.key
        assert job.single is not None
        members = cluster.members.get(key)
        if members is None:
            cluster.members[key] = tasks
        else:
            members |= tasks
        cluster.touched_jobs[key] = job
        cluster.ledger.counts.join_all(tasks, job, job.single)
        if job.pending:
            cluster.pending_jobs[key] = job

    def shuts_out(self, job: Job, facts: PodFacts) -> bool:
        """Whether a pod may not be given a place as a part of a job."""
        if job.usurps or job.elsewhere or not job.queue.exists:
            return True
        return bool(
            self._cluster.access.barrier(job.queue.name, namespace=job.namespace, account=facts.account)
        )

    def _withdraw(self, task: Task) -> None:
        cluster = self._cluster
        facts, uid = task.facts, task.uid
        assert facts is not None
        if cluster.deleted:
            cluster.deleted.pop(uid, None)
        if task.charged is not None:
            cluster.ledger.charges.discharge(task)
        elif task.lingering is not None:
            cluster.ledger.charges.end_lingering(task)
        elif task.job is not None and task.status is Status.PENDING:
            cluster.ledger.charges.dequeue(task, cluster.min_gpu_memory_mib)
        if task.node is not None:
            if not facts.ours and not facts.utility:
                self._count_foreign(task, task.node, -1)
            if facts.reservation:
                cluster.ledger.holds.reserve(task.node, facts.group_ids, count=-1)
            cluster.ledger.holds.unhold(task)
        task.allotment = None
        if name := facts.node_name or facts.assumed_node:
            discard(cluster.on_node, name, uid)
        if task.job is not None:
            self._delist(task)
        elif facts.group_key and (job := cluster.jobs.get(facts.group_key)) is not None:
            job.invalid.pop(uid, None)
        if facts.group_key:
            if facts.group_key in cluster.elsewhere:
                cluster.unsettled[facts.group_key] = None
            discard(cluster.members, facts.group_key, uid)

    def _enlist(self, task: Task, job: Job) -> None:
        cluster = self._cluster
        pod_set = job.single or job.pod_sets.get(facts_of(task).sub_group)
        if pod_set is None and ACTIVE_USED[task.status]:
            # Its owner changed the label, or the group under it: it is charged and may be taken all the same.
            pod_set = next(iter(job.pod_sets.values()), None)
        cluster.touched_jobs[job.key] = job
        if pod_set is None:
            job.invalid[task.uid] = task
            return
        cluster.ledger.counts.join(task, job, pod_set)
        if task.status is Status.PENDING:
            cluster.pending_jobs[job.key] = job

    def _delist(self, task: Task) -> None:
        cluster = self._cluster
        job = task.job
        assert job is not None
        cluster.touched_jobs[job.key] = job
        cluster.ledger.counts.leave(task)
        if not job.pending:
            cluster.pending_jobs.pop(job.key, None)

    def _count_foreign(self, task: Task, node: Node, sign: int) -> None:
        # What such a node offers is not divided among queues, so nothing of it is missing there.
        if not node.ready:
            return
        charged = task.cls.charge(node.gpu_memory_mib)
        if task.cls.shared and not task.groups:
            charged = charged._replace(gpu_centi=0)  # it says so, and has none
        self._cluster.foreign.add(charged, times=sign)


def facts_of(task: Task) -> PodFacts:
    """What is known of a task's pod."""
    assert task.facts is not None
    return task.facts


def discard(index: dict[_K, dict[PodUid, Task]], key: _K, uid: PodUid) -> None:
    """Take a task out of an index; no empty entry stays.

    Raises KeyError where it is not there.
    """
    bucket = index[key]
    del bucket[uid]
    if not bucket:
        del index[key]
