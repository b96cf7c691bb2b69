"""Taking in pod groups, queues and priority classes: what is charged to whom, and who stands above whom."""

from __future__ import annotations

from kai.model import access, limits
from kai.model.faults import INVALID_OBJECT, Fault
from kai.model.ids import PodGroupKey
from kai.model.objects import PodGroup, PriorityClass
from kai.model.objects import Queue as QueueObject
from kai.model.rules import priorities
from kai.snapshot import jobs, queues
from kai.snapshot.accounts import Accounts, facts_of
from kai.snapshot.cluster import Cluster
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import NO_TIMES, GroupTimes, Job, JobFacts, Queue, Standing, Task
from kai.snapshot.status import Status
from kai.snapshot.times import seconds

_LOWEST_PRIORITY = -(2**31)
#: Users decide how many different ones there are.
_MOST_STANDINGS = 4096


def _standing_of(job: Job) -> Standing:
    return Standing(job.priority, job.preemptible, job.semi_preemptible, job.usurps, job.unwelcome)


def _fault_of(queue: Queue) -> Fault:
    return Fault(
        kind=Kind.QUEUE.kubernetes,
        key=queue.name,
        uid=queue.uid,
        reason=INVALID_OBJECT,
        message=str(limits.too_deep(queue.parent_name)),
    )


class GroupIntake:
    """What the newest version of a group, a queue or a priority class changes in the rows."""

    def __init__(self, cluster: Cluster, accounts: Accounts) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._queues_dirty = False
        self._system_namespaces = cluster.params.system_namespaces
        #: What is told of queues that stand too deep, by name.
        self._too_deep: dict[str, Fault] = {}
        #: Rows that groups of other node pools had, which have no pods here now.
        self._left: dict[PodGroupKey, Job] = {}
        #: How groups stand that name the same: by priority class, preemptibility and namespace.
        self._standings: dict[tuple[str, str, str], Standing] = {}

    def refresh(self) -> None:
        """Bring up to date how queues hang together, and who may use them.

        Costs nothing where none of it changed, else time by the number of jobs and pods.
        """
        if self._cluster.unsettled:
            self._settle()
        if self._queues_dirty:
            self._relink_queues()
        for name, fault in self._too_deep.items():
            self._cluster.faults.setdefault((Kind.QUEUE, name), fault)
        stale = self._cluster.access.stale
        if stale is None or stale:
            self._reconsider()

    # --- pod groups ----------------------------------------------------------------------------
    def apply(self, group: PodGroup) -> None:
        """Take in the newest version of a pod group.

        One of another node pool counts only while it has pods here, which shows in :meth:`refresh`: its owner
        says which pool it is of, whatever runs.
        """
        cluster = self._cluster
        key = PodGroupKey(group.key)
        if not cluster.params.in_pool(group.labels):
            cluster.elsewhere[key] = group
            cluster.unsettled[key] = None
            if key in cluster.jobs:
                cluster.group_objects[key] = group
                self.put_job(group)
            return
        cluster.elsewhere.pop(key, None)
        cluster.group_objects[key] = group
        self.put_job(group)
        if cluster.jobs[key].aside is not None:
            self._accounts.set_aside(cluster.jobs[key], None)

    def drop(self, key: PodGroupKey) -> None:
        """Forget a pod group; its pods stay, and belong to none. One that is not known is ignored."""
        self._cluster.elsewhere.pop(key, None)
        self._cluster.group_objects.pop(key, None)
        self._left.pop(key, None)
        self._drop_job(key)

    def _settle(self) -> None:
        """Let groups of other node pools count while they have pods on nodes of this one, and no longer."""
        cluster = self._cluster
        unsettled, cluster.unsettled = cluster.unsettled, {}
        for key in unsettled:
            group = cluster.elsewhere.get(key)
            if group is None:
                continue
            here = any(task.node is not None for task in cluster.members.get(key, {}).values())
            if here and key not in cluster.jobs:
                cluster.group_objects[key] = group
                self.put_job(group)
            elif not here and key in cluster.jobs:
                del cluster.group_objects[key]
                self._left[key] = cluster.jobs[key]
                self._drop_job(key)

    def put_job(self, group: PodGroup) -> None:
        """Make the row of a pod group, or bring it up to date; its pods join it.

        Where its shape, queue and standing are as before the row stays; else it is another one, and what
        others remember of the old one is void, but not what befell the group.
        """
        cluster = self._cluster
        facts = jobs.facts(group, pool_name=cluster.params.pool_name)
        home = self._home(facts.queue)
        standing = self.standing(facts, group.metadata.namespace, home=home)
        key = PodGroupKey(group.key)
        job = cluster.jobs.get(key)
        if (
            job is not None
            and job.facts.shape == facts.shape
            and job.queue is home
            and job.facts.queue == facts.queue
            and standing == _standing_of(job)
            and job.elsewhere is (key in cluster.elsewhere)
        ):
            self._read_times(job, facts, known=job.facts.times)
            cluster.touched_jobs[job.key] = job
            return
        self.enter(group, key, facts, home=home, standing=standing)

    def enter(
        self, group: PodGroup, key: PodGroupKey, facts: JobFacts, *, home: Queue, standing: Standing
    ) -> None:
        """Make the row of a pod group, in place of any that there is; its pods join it.

        ``facts`` are its own, ``home`` and ``standing`` those that follow from them.
        """
        cluster = self._cluster
        job = jobs.row(group, facts, home=home, standing=standing, elsewhere=key in cluster.elsewhere)
        old, known = cluster.jobs.get(key) or self._left.pop(key, None), NO_TIMES
        if old is not None and old.uid == job.uid:
            job.inherit(old.past)
            known = old.facts.times
        self._drop_job(key)
        if not cluster.group_order.needy_first:
            jobs.arrange(job, cluster.group_order)
        self.add(job, known=known)
        if members := cluster.members.get(key):
            for task in list(members.values()):
                self._accounts.detach(task)
                self._accounts.attach(task)

    def add(self, job: Job, *, known: GroupTimes = NO_TIMES) -> None:
        """Let a new row be found; its pods, if there are any, have not joined it yet.

        Of the times that the group's annotations say it has those that are ``known`` already.
        """
        cluster, key = self._cluster, job.key
        self._read_times(job, job.facts, known=known)
        cluster.jobs[key] = cluster.touched_jobs[key] = job.queue.jobs[key] = job
        if cluster.gone_jobs and cluster.gone_jobs.get(key) == job.uid:
            del cluster.gone_jobs[key]

    def _drop_job(self, key: PodGroupKey) -> None:
        cluster = self._cluster
        job = cluster.jobs.pop(key, None)
        if job is None:
            return
        members = list(cluster.members.get(key, {}).values())
        for task in members:
            self._accounts.detach(task)
        del job.queue.jobs[key]
        cluster.pending_jobs.pop(key, None)
        cluster.touched_jobs.pop(key, None)
        cluster.gone_jobs.setdefault(key, job.uid)
        for task in members:
            self._accounts.attach(task)
        jobs.fell(job)

    @staticmethod
    def _read_times(job: Job, facts: JobFacts, *, known: GroupTimes) -> None:
        """Own decisions are newer than what the watch repeats of older ones."""
        job.facts = facts
        times = facts.times
        if times is known:
            return
        if times.stale != known.stale:
            job.stale_since = seconds(times.stale)
        if times.start:
            job.last_start = max(job.last_start, seconds(times.start))
        if times.eviction:
            job.last_eviction = max(job.last_eviction, seconds(times.eviction))

    def standing(self, facts: JobFacts, namespace: str, *, home: Queue) -> Standing:
        """How a group stands of which this is said, in a namespace, charged to this queue."""
        cluster = self._cluster
        key = (facts.priority_class, facts.preemptibility, namespace)
        standing = self._standings.get(key)
        if standing is None:
            usurps = access.usurped(facts.priority_class, namespace, self._system_namespaces)
            priority, preemptible = self._priority(facts, usurps=usurps)
            standing = Standing(
                priority,
                preemptible=preemptible,
                semi_preemptible=priorities.is_semi_preemptible(facts.preemptibility),
                usurps=usurps,
                unwelcome=False,
            )
            if len(self._standings) >= _MOST_STANDINGS:
                self._standings.clear()
            self._standings[key] = standing
        if not home.exists or (
            cluster.access.restricted
            and cluster.access.barrier(facts.queue, namespace=namespace, account=None)
        ):
            return standing._replace(
                priority=_LOWEST_PRIORITY, preemptible=True, semi_preemptible=False, unwelcome=True
            )
        return standing

    def forget_standings(self) -> None:
        """Forget how groups stand; it is found anew for each that changes."""
        self._standings.clear()

    def _rank_again(self, job: Job) -> None:
        """What a job's standing depends on has changed, and the group is as it was."""
        if self.standing(job.facts, job.namespace, home=job.queue) != _standing_of(job):
            self._put_again(job)

    def _put_again(self, job: Job) -> None:
        cluster, aside = self._cluster, job.aside
        self.put_job(cluster.group_objects[job.key])
        if aside is not None:
            self._accounts.set_aside(cluster.jobs[job.key], aside)

    def _priority(self, facts: JobFacts, *, usurps: bool) -> tuple[int, bool]:
        name = "" if usurps else facts.priority_class
        priority = priorities.priority(name, self._cluster.priority_classes)
        return priority, priorities.is_preemptible(facts.preemptibility, priority)

    def apply_priority_class(self, key: str, obj: PriorityClass | None) -> None:
        """Take in a priority class, or forget it (None); groups are ranked again if that matters."""
        cluster = self._cluster
        old = cluster.priority_classes.pop(key, None)
        if obj is not None:
            cluster.priority_classes[key] = obj
        if (
            old is not None
            and obj is not None
            and (old.value, old.global_default) == (obj.value, obj.global_default)
        ):
            return
        self.forget_standings()
        for job in list(cluster.jobs.values()):
            self._rank_again(job)

    # --- queues --------------------------------------------------------------------------------
    def _queue_row(self, name: str) -> Queue:
        cluster = self._cluster
        row = cluster.queues.get(name)
        if row is None:
            row = cluster.queues[name] = Queue(name=name, row=len(cluster.queues))
            self._queues_dirty = True
        return row

    def _home(self, name: str) -> Queue:
        """What a job of this queue is charged to: the queue, or the account of those that have none."""
        row = self._cluster.queues.get(name)
        # Until the hierarchy is built nobody has a path; then those without one lose their jobs.
        if row is not None and row.exists and (row.path or self._queues_dirty):
            return row
        return self._queue_row(queues.NO_QUEUE)

    def apply_queue(self, obj: QueueObject) -> None:
        """Take in a queue; jobs join it, and the hierarchy is built, in :meth:`refresh`."""
        cluster = self._cluster
        if not cluster.params.in_pool(obj.labels):
            self.drop_queue(obj.metadata.name)
            cluster.access.queue_changed(obj.metadata.name, obj)
            return
        queues.describe(Queue(name=obj.metadata.name, row=0), obj)  # raises before anything changes
        cluster.queue_objects[obj.metadata.name] = obj
        cluster.access.queue_changed(obj.metadata.name, obj)
        row = self._queue_row(obj.metadata.name)
        before = (row.exists, row.parent_name)
        queues.describe(row, obj)
        if before != (True, row.parent_name):
            self._queues_dirty = True
        cluster.versions[Kind.QUEUE] += 1

    def drop_queue(self, name: str) -> None:
        """Forget a queue; its jobs lose it in :meth:`refresh`. One that is not known is ignored."""
        cluster = self._cluster
        cluster.queue_objects.pop(name, None)
        cluster.access.queue_changed(name, None)
        row = cluster.queues.get(name)
        if row is not None and row.exists:
            row.exists = False
            self._queues_dirty = True
            cluster.versions[Kind.QUEUE] += 1

    def _relink_queues(self) -> None:
        """Build the hierarchy anew, and all that is charged along it."""
        cluster = self._cluster
        self._queue_row(queues.NO_QUEUE)  # for those of whose queues it shows only now that they are gone
        self._queues_dirty = False
        self._link_queues()
        strays = [job for job in cluster.jobs.values() if job.queue is not self._home(job.facts.queue)]
        for job in strays:
            self._put_again(job)
        for name in [name for name, row in cluster.queues.items() if not row.exists and not row.jobs]:
            del cluster.queues[name]
        # The account of those without a queue takes part only while it has jobs, which it may now.
        if strays:
            self._link_queues()
        cluster.versions[Kind.QUEUE] += 1
        for job in cluster.jobs.values():
            cluster.touched_jobs[job.key] = job
            for pod_set in job.pod_sets.values():
                for task in pod_set.tasks.values():
                    if task.charged is not None:
                        cluster.ledger.charges.recharge(task, task.charged)
                    elif task.lingering is not None:
                        cluster.ledger.charges.linger(task, task.lingering)
                    elif task.status is Status.PENDING:
                        cluster.ledger.charges.enqueue(task, cluster.min_gpu_memory_mib)

    def _link_queues(self) -> None:
        cluster = self._cluster
        for name, fault in self._too_deep.items():
            if cluster.faults.get((Kind.QUEUE, name)) is fault:
                del cluster.faults[Kind.QUEUE, name]
        cluster.queue_rows = queues.link(
            cluster.queues.values(), full_hierarchy=cluster.params.full_hierarchy_fairness
        )
        self._too_deep = {queue.name: _fault_of(queue) for queue in cluster.queues.values() if queue.too_deep}
        cluster.ledger.charges.set_queues(cluster.queue_rows)

    def _reconsider(self) -> None:
        """Let queues that were closed to pods be open to them now, and the reverse."""
        cluster = self._cluster
        stale, cluster.access.stale = cluster.access.stale, set()
        for job in list(cluster.jobs.values()):
            if stale is None or job.namespace in stale:
                self._rank_again(job)
                job = cluster.jobs[job.key]
                for task in list(cluster.members.get(job.key, {}).values()):
                    self._reconsider_task(job, task)

    def _reconsider_task(self, job: Job, task: Task) -> None:
        shut = self._accounts.shuts_out(job, facts_of(task))
        if shut != task.shut_out:
            self._accounts.detach(task)
            self._accounts.attach(task)
        elif shut:
            self._cluster.touched_jobs[job.key] = job  # it may be another queue that keeps it out
