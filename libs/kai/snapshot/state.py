"""The cluster as the scheduler sees it, kept incrementally.

Objects arrive in any order, any number of times; the state is always a function of the newest of each and
of the decisions taken since (:class:`~kai.snapshot.rows.PodFacts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kai.collector import paused
from kai.model.decisions import Allotment
from kai.model.faults import Fault, OutOfBounds
from kai.model.ids import GpuGroup, PodGroupKey, PodUid
from kai.model.objects import Pod
from kai.snapshot import pods, standing
from kai.snapshot.accounts import Accounts, discard, facts_of
from kai.snapshot.arrivals import Arrivals
from kai.snapshot.check import check_state
from kai.snapshot.classes import TaskClass
from kai.snapshot.cluster import Cluster
from kai.snapshot.exclusion import Exclusion
from kai.snapshot.granted import Granted
from kai.snapshot.group_arrivals import GroupArrivals
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.groups import GroupIntake
from kai.snapshot.intake import Intake
from kai.snapshot.kinds import Kind, StateParams, by_kind, object_key, object_uid
from kai.snapshot.mementos import Memento, Mementos
from kai.snapshot.rows import Job, Node, Past, Task
from kai.snapshot.spare import Shrinkage, forget_spare
from kai.snapshot.standing import Standing
from kai.snapshot.status import Status


class ClusterState(Cluster):
    """All rows, and what may be done with them.

    Not thread-safe: one owner takes in events and runs cycles. Between calls all sums are those that the rows
    give (:meth:`check`), however a call ended; only what :meth:`settle` says waits for it. Nothing does I/O.
    """

    def __init__(self, params: StateParams | None = None) -> None:
        super().__init__(params)
        self._accounts = Accounts(self)
        self._granted = Granted(self, self._accounts)
        self._groups = GroupIntake(self, self._accounts)
        self._intake = Intake(self, self._accounts, self._granted, self._groups)
        self._exclusion = Exclusion(self, self._accounts, self._intake, self._groups)
        self._mementos = Mementos(self, self._accounts, self._intake)
        self._arrivals = Arrivals(self, self._accounts, self._intake, self._exclusion)
        self._group_arrivals = GroupArrivals(self, self._groups)
        self._shrinkage = Shrinkage()

    # --- objects -------------------------------------------------------------------------------
    def apply(self, kind: Kind, obj: Any) -> None:
        """Take in the newest version of an object; applying it again changes nothing.

        Raises:
            OutOfBounds: a field has a value that cannot be worked with; :meth:`refuse` goes on without it.
        """
        self.version += 1
        try:
            self._intake.take_in(kind, obj)
        finally:
            if self.unsound:
                self.mend()
        if self.faults:
            self.faults.pop((kind, object_key(obj)), None)

    def take(self, kind: Kind, obj: Any) -> Fault | None:
        """:meth:`apply`, or :meth:`refuse` what is beyond its bounds.

        Returns the fault, which is among ``faults`` as well, or None. Whatever else goes wrong is raised.
        """
        try:
            self.apply(kind, obj)
        except OutOfBounds as error:
            return self.refuse(kind, object_key(obj), obj=obj, error=error)
        return None

    def refuse(self, kind: Kind, key: str, *, obj: Any, error: Exception) -> Fault:
        """Go on without a version of an object, until a later one can be taken in, or the object is gone.

        Whatever holds resources, or says what others may hold, goes on to do so as far as that is known
        (:mod:`kai.snapshot.refused`), and takes no part in anything else.
        """
        return self._exclusion.refuse(kind, key, obj=obj, error=error)

    def unread(self, kind: Kind, key: str, *, uid: str, reason: str) -> Fault:
        """The same where nobody can read the object at all: what was taken in before stays as it was.

        Unless that was another object of the name (by ``uid``), which is gone then. Returns the fault, which
        stays until a version can be taken in, or the object is gone.
        """
        if uid and self._uid_of(kind, key) not in ("", uid):
            self.remove(kind, key)
        return self._exclusion.unread(kind, key, uid=uid, reason=reason)

    def mend(self) -> None:
        """Find all sums anew after something failed half-way; pods that cannot be in them are faults.

        Such pods are forgotten until their next version. Costs time by the number of pods.
        """
        self._exclusion.mend()

    def load(self, objects: Iterable[tuple[Kind, Any]]) -> None:
        """Take in many objects at once, as when a cluster is read for the first time; :meth:`take` each.

        What others are charged to comes before them, so that everything is put into its sums once.
        """
        with paused(lasting=True):
            for kind, arriving in by_kind(objects):
                self.arrive(kind, arriving, alone=partial(self.take, kind))

    def arrive(self, kind: Kind, arriving: Iterable[Any], *, alone: Callable[[Any], object]) -> None:
        """:meth:`apply` many objects of a kind in this order: most of them are new, and take little each.

        ``alone`` takes in one of which more has to be known, or with which something is wrong. What it raises
        ends it, and the objects that came before are taken in.
        """
        match kind:
            case Kind.POD:
                self._arrive_pods(arriving, alone)
            case Kind.POD_GROUP:
                self._intake.refresh()
                self._group_arrivals.take_in(arriving, alone=alone)
            case _:
                for obj in arriving:
                    alone(obj)

    def _arrive_pods(self, arriving: Iterable[Pod], alone: Callable[[Pod], object]) -> None:
        self._intake.refresh()
        try:
            with self.ledger.at_once():
                self._arrivals.take_in(arriving, alone=alone)
        except Exception:
            self.unsound = True
            raise
        finally:
            if self.unsound:
                self.mend()

    def remove(self, kind: Kind, key: str) -> None:
        """Forget an object by ``namespace/name`` (or name); unknown keys are ignored.

        Pods on a node that is gone hold nothing there until it is back; their queues are charged on.
        """
        self.version += 1
        self.faults.pop((kind, key), None)
        try:
            self._intake.take_out(kind, key)
        finally:
            if self.unsound:
                self.mend()

    def order_groups(self, order: GroupOrder) -> None:
        """Let the pods and subgroups of all groups go by this order from now on.

        No more than a comparison where it is the one that held before; else time by the number of pods.
        """
        self._accounts.order_groups(order)

    # --- what takes no part --------------------------------------------------------------------
    def set_fault(self, kind: Kind, key: str, fault: Fault | None) -> None:
        """Tell this fault of an object; None: none any more. Nothing else becomes of it."""
        if fault is None:
            self.faults.pop((kind, key), None)
        else:
            self.faults[kind, key] = fault

    def set_aside(self, job: Job, fault: Fault | None) -> None:
        """Decide nothing about a job, which asks for nothing meanwhile; None: decide about it again.

        Its pending pods count as gated; what others of it hold stays charged, and is nobody's to take.
        """
        self._accounts.set_aside(job, fault)

    def bare(self, job: Job) -> None:
        """Of a job's pods nothing is known any more but what they hold, until their next version.

        After: they are charged as before, and those that wait count as gated. For whoever could not work with
        what they say.
        """
        self._exclusion.bare(job)

    def bare_pod(self, key: str) -> None:
        """The same for one pod.

        An unknown key is ignored.
        """
        self._exclusion.bare_pod(key)

    def recount(self) -> list[tuple[Task, Exception]]:
        """Find all sums anew; what only a cycle knows is gone.

        Returns pods that cannot be in the sums, each with what was raised: they are forgotten. Costs time by
        the number of pods, once more for each of those.
        """
        return self._exclusion.recount()

    def task(self, key: str) -> Task | None:
        """The row of a pod by ``namespace/name``; None if there is no such pod."""
        return self.tasks_by_key.get(key)

    # --- decisions -----------------------------------------------------------------------------
    def assume_bind(
        self,
        uid: PodUid,
        node: str,
        *,
        groups: tuple[GpuGroup, ...] = (),
        allotment: Allotment | None = None,
    ) -> None:
        """A pod is being bound; it counts as placed until the watch or a result says otherwise.

        Whether it fits is not looked at. A uid that is not known is ignored, as in all that follow: pods
        vanish while others decide about them.

        Args:
            uid: the pod's.
            node: by name; one that does not exist yet counts once it does.
            groups: the shared devices that it takes, by group id, one for each device.
            allotment: what plugins found for it there.
        """
        if (task := self.tasks.get(uid)) is not None:
            self._accounts.detach(task)
            facts = facts_of(task)
            facts.assumed_node, facts.assumed_groups, facts.assumed_allotment = node, groups, allotment
            self._accounts.attach(task)

    def bind_failed(self, uid: PodUid) -> None:
        """A bind had no effect; the pod is pending again. One that is not being bound stays as it is."""
        if (task := self.tasks.get(uid)) is not None and facts_of(task).assumed_node:
            self._accounts.detach(task)
            self._unassume(task)
            self._accounts.attach(task)

    def bind_done(self, uid: PodUid) -> None:
        """A bind took effect: what the watch will say is known already.

        It is on the node, and has the devices, that were assumed. One that is not being bound stays as it is.
        """
        if (task := self.tasks.get(uid)) is not None and facts_of(task).assumed_node:
            self._accounts.detach(task)
            facts = facts_of(task)
            facts.group_ids = facts.devices
            facts.node_name = facts.node_name or facts.assumed_node
            if uid in self.grants.of_pods:
                self._granted.hold_to_grant(task, declared=task.declared_cls or task.cls, decided=task.cls)
            self._accounts.attach(task)

    def assume_evicted(self, uid: PodUid) -> None:
        """A pod is being deleted, though the watch does not say so yet.

        What it holds counts as being released, and its queue is charged for it no longer.
        """
        if (task := self.tasks.get(uid)) is not None:
            self._accounts.detach(task)
            facts_of(task).evicting = True
            self._accounts.attach(task)

    def evict_failed(self, uid: PodUid) -> None:
        """An eviction had no effect; the pod goes on as it was.

        One that nobody evicts stays as it is.
        """
        if (task := self.tasks.get(uid)) is not None and facts_of(task).evicting:
            self._accounts.detach(task)
            facts_of(task).evicting = False
            self._accounts.attach(task)

    def placed(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """The engine decided to bind pending tasks, each to its node, and all sums say so; keep the rest in
        step.

        Before: ``groups`` of their rows are the devices that they take there. After: as :meth:`assume_bind`,
        without being put into sums anew.
        """
        on_node, touched, pending = self.on_node, self.touched_jobs, self.pending_jobs
        for task, node in zip(tasks, nodes, strict=True):
            job, facts, name = task.job, task.facts, node.name
            assert job is not None
            assert facts is not None
            if task.virtual:
                self.ledger.counts.confirm(task)
            facts.assumed_node, facts.assumed_groups = name, task.groups
            facts.assumed_allotment = task.allotment
            here = on_node.get(name)
            if here is None:
                here = on_node[name] = {}
            here[task.uid] = task
            key = job.key
            touched[key] = job
            if not job.pending:
                pending.pop(key, None)

    def unplaced(self, task: Task) -> None:
        """The inverse of :meth:`placed`: the bind is not decided after all.

        Before: it holds nothing on the node any more. After: it is requested of its queue again. Its status,
        and what its queue is charged for it, are left to the caller.
        """
        job, facts = task.job, facts_of(task)
        assert job is not None
        discard(self.on_node, facts.assumed_node, task.uid)
        self._unassume(task)
        facts.evicting = False
        self.ledger.counts.confirm(task)
        self.ledger.counts.allot(task, None)
        self.ledger.charges.enqueue(task, self.min_gpu_memory_mib)
        self.touched_jobs[job.key] = self.pending_jobs[job.key] = job

    def unpromised(self, task: Task) -> None:
        """A pod waits without the place that it was promised, and all sums say so; keep the rest in step.

        One that no pod group has is ignored.
        """
        if task.job is not None:
            self.pending_jobs[task.job.key] = task.job

    def doomed(self, tasks: Iterable[Task]) -> None:
        """The engine decided to evict some tasks, and all sums say so.

        After: as :meth:`assume_evicted`, without being put into sums anew.
        """
        confirm = self.ledger.counts.confirm
        for task in tasks:
            facts_of(task).evicting = True
            if task.status is Status.RELEASING:
                confirm(task)

    @staticmethod
    def nominate(task: Task, node: str) -> None:
        """A task is to wait for its place on a node; for none if that is empty.

        Only told to whoever decides next: nothing is charged, and the node need not exist.
        """
        task.nominated = node

    def started(self, job: Job, moment: float) -> None:
        """A job that held nothing began to run then; ``moment`` is in Unix seconds."""
        job.last_start = moment

    def robbed(self, jobs: Iterable[Job], moment: float) -> None:
        """Jobs were made to give up pods then; ``moment`` is in Unix seconds."""
        for job in jobs:
            job.last_eviction = moment
            self.touched_jobs[job.key] = job

    def stale(self, job: Job, since: float) -> None:
        """A job runs with too few pods since then, in Unix seconds; 0 if it has enough."""
        job.stale_since = since
        self.touched_jobs[job.key] = job

    @staticmethod
    def inherit(job: Job, past: Past) -> None:
        """Let this have befallen a job."""
        job.inherit(past)

    def touch_only(self, keys: Iterable[PodGroupKey]) -> None:
        """Just these jobs changed since a cycle looked, as far as they are there."""
        standing.touch_only(self, keys)

    def take_gone(self) -> dict[PodGroupKey, str]:
        """Uids of the jobs that are gone since this was last asked, by key.

        Of such a key there is no job now, or one of another pod group. Who keeps a state asks now and then.
        """
        gone, self.gone_jobs = self.gone_jobs, {}
        return gone

    def untold(self, gone: Mapping[PodGroupKey, str]) -> None:
        """Nobody was told that these are gone: :meth:`take_gone` names them again."""
        self.gone_jobs.update(gone)

    @staticmethod
    def revoke_bind(task: Task) -> None:
        """A bind that was decided is taken back, but in no sum; :meth:`mend` finds these anew."""
        facts = facts_of(task)
        facts.assumed_node, facts.assumed_groups, facts.assumed_allotment = "", (), None

    @staticmethod
    def revoke_eviction(task: Task) -> None:
        """An eviction that was decided is taken back, but in no sum, as in :meth:`revoke_bind`."""
        facts_of(task).evicting = False

    @staticmethod
    def _unassume(task: Task) -> None:
        facts = facts_of(task)
        if facts.node_name == facts.assumed_node:
            facts.node_name, facts.group_ids = "", ()
        facts.assumed_node, facts.assumed_groups, facts.assumed_allotment = "", (), None
        facts.granted_ids = ()
        if task.declared_cls is not None:  # it asks for what it says, having got nothing
            task.cls, task.declared_cls = task.declared_cls, None

    # --- what somebody asks about ----------------------------------------------------------------
    def known(self, kind: Kind, key: str) -> Any:
        """The newest version of an object, by ``namespace/name`` or name; None if there is none.

        Pods are kept as rows only.
        """
        match kind:
            case Kind.NODE:
                node = self.nodes.by_name.get(key)
                return None if node is None else node.object
            case Kind.QUEUE:
                return self.queue_objects.get(key)
            case Kind.POD_GROUP:
                return self.group_objects.get(PodGroupKey(key))
            case Kind.PRIORITY_CLASS:
                return self.priority_classes.get(key)
            case _:
                return self.objects[kind].get(key)

    def _uid_of(self, kind: Kind, key: str) -> str:
        """Of the object that is known by a key; empty if none is."""
        if kind is Kind.POD:
            task = self.tasks_by_key.get(key)
            return "" if task is None else task.uid
        obj = self.known(kind, key)
        return "" if obj is None else object_uid(obj)

    def lend(self) -> Standing:
        """Note all that is in no object and no pod, for :meth:`take_back`.

        Of what is kept from cycle to cycle a trial finds only what its owners lend.
        """
        return standing.lend(self)

    def take_back(self, noted: Standing) -> None:
        """Let all of that be as it was noted.

        Before: objects and pods are as they were then, and the state is settled.
        """
        standing.take_back(self, noted)

    def recall(self, task: Task) -> Memento:
        """A pod as it is now, for :meth:`reinstate`; a copy, which later changes leave as it is."""
        return self._mementos.recall(task)

    def reinstate(self, memento: Memento) -> None:
        """Let a pod be as it was, whether it is still there or not.

        Before: no other pod has its name. After: sums follow, as after all that is done to one pod.
        """
        self._mementos.reinstate(memento)

    def reclass(self, task: Task, cls: TaskClass) -> None:
        """Let a pod be of another class, as if it had always asked for that; all sums follow."""
        self._mementos.reclass(task, cls)

    def withdraw(self, task: Task) -> None:
        """Let a pod be gone until it is reinstated: it holds nothing, and nobody finds it."""
        self._mementos.withdraw(task)

    def finish(self, task: Task) -> None:
        """Let a pod have succeeded, though the watch does not say so; what it held is free."""
        self._mementos.finish(task)

    # --- time ----------------------------------------------------------------------------------
    def settle(self, now: float) -> None:
        """Bring everything that waits for the end of a batch, or for time, up to date.

        Before a session is opened, and before anybody reads sums or the order of nodes, which after it is
        that of their names. ``now`` is in Unix seconds. Settling again for the same moment changes nothing.
        """
        self.now = now
        self._intake.refresh()
        self.nodes.settle()
        self.budgets.begin_turn()
        if self._shrinkage.is_over(len(self.tasks), now):
            forget_spare(self)
            self._groups.forget_standings()
        elif self.classes.crowded:
            self.classes.keep({task.cls for task in self.tasks.values()})
        for task in list(self.deleted.values()):
            facts = facts_of(task)
            if task.status is not pods.status(
                facts, now=now, stuck_after=self.params.stuck_in_releasing_seconds
            ):
                self._accounts.detach(task)
                self._accounts.attach(task)

    def next_change(self) -> float:
        """When time alone changes the state of a pod that is being deleted next; infinite if of none.

        In Unix seconds. Costs time by the number of pods that are being deleted.
        """
        after = self.params.stuck_in_releasing_seconds
        return min(
            (
                pods.changes_at(facts_of(task), task.status, stuck_after=after)
                for task in self.deleted.values()
            ),
            default=float("inf"),
        )

    # --- invariants ----------------------------------------------------------------------------
    def check(self) -> None:
        """Assert that all sums equal what the rows say. Costs time by the number of pods and nodes.

        Raises:
            AssertionError: a sum is wrong; it names node, queue or job.
        """
        check_state(self)


__all__ = ["ClusterState", "Kind", "StateParams", "object_key"]
