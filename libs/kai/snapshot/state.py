"""The cluster as the scheduler sees it, kept incrementally.

Objects arrive in any order, any number of times; the state is always a function of the newest of each and
of the decisions taken since (:class:`~kai.snapshot.rows.PodFacts`). Whatever a change can influence is taken
out of all sums first, and put back by the same rules as at the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kai.model import names
from kai.model.objects import Node as NodeObject
from kai.model.objects import Pod, PodGroup, PriorityClass
from kai.model.objects import Queue as QueueObject
from kai.snapshot import jobs, nodes, pods, queues
from kai.snapshot.classes import ClassTable
from kai.snapshot.collector import paused
from kai.snapshot.ledger import Ledger
from kai.snapshot.resources import ResourceTable
from kai.snapshot.rows import Job, JobFacts, Node, PodFacts, Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, ACTIVE_USED, Status
from kai.snapshot.table import NodeTable
from kai.snapshot.times import seconds

if TYPE_CHECKING:
    from kai.snapshot.codec import ClusterSnapshot

_NON_PREEMPTIBLE_FROM = 100
_DEFAULT_PRIORITY = 50


class Kind(StrEnum):
    """What can be applied. Kinds without a struct in :mod:`kai.model.objects` are plain JSON objects."""

    POD = "pods"
    NODE = "nodes"
    QUEUE = "queues"
    POD_GROUP = "podGroups"
    PRIORITY_CLASS = "priorityClasses"
    TOPOLOGY = "topologies"
    CONFIG_MAP = "configMaps"
    PERSISTENT_VOLUME = "persistentVolumes"
    PERSISTENT_VOLUME_CLAIM = "persistentVolumeClaims"
    STORAGE_CLASS = "storageClasses"
    CSI_DRIVER = "csiDrivers"
    CSI_NODE = "csiNodes"
    CSI_STORAGE_CAPACITY = "csiStorageCapacities"
    RESOURCE_CLAIM = "resourceClaims"
    RESOURCE_SLICE = "resourceSlices"
    DEVICE_CLASS = "deviceClasses"
    NODE_RESOURCE_TOPOLOGY = "nodeResourceTopologies"
    POD_DISRUPTION_BUDGET = "podDisruptionBudgets"
    NAMESPACE = "namespaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateParams:
    """Which part of the cluster belongs to this scheduler, and how it is read."""

    scheduler_name: str = names.SCHEDULER_NAME
    node_pool_label_key: str = names.NODE_POOL_LABEL
    #: Empty means objects without the label, unless the key is empty too.
    partition: str = ""
    queue_label_key: str = names.QUEUE_LABEL
    reservation_app: str = names.RESERVATION_APP
    restrict_node_scheduling: bool = False
    full_hierarchy_fairness: bool = True
    stuck_in_releasing_seconds: float = 120.0


class ClusterState:
    """All rows. Not thread-safe: one owner applies events and runs cycles in turn."""

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
        self.versions: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self.version = 0
        #: Jobs with pending tasks; jobs whose tasks changed since a cycle looked.
        self.pending_jobs: dict[str, Job] = {}
        self.touched_jobs: dict[str, Job] = {}
        #: Pods that want to be near or away from others.
        self.affine: dict[str, Task] = {}
        #: Requests of other schedulers' pods on ready nodes: CPU, memory, hundredths of GPUs.
        self.foreign = [0, 0, 0]
        #: What the engine keeps from cycle to cycle; nothing in it is needed to decide right.
        self.memory: dict[str, Any] = {}
        self._tasks_by_key: dict[str, Task] = {}
        self._members: dict[str, dict[str, Task]] = {}
        self._on_node: dict[str, dict[str, Task]] = {}
        self._claim_users: dict[str, dict[str, Task]] = {}
        self._releasing: dict[str, Task] = {}
        #: Columns of extended resources that device classes stand behind.
        self._backed: tuple[int, ...] = ()
        self._queues_dirty = False
        self._now = 0.0
        self.min_gpu_memory = 100
        self.max_gpu_memory = 100
        self._gpu_memory_dirty = False

    # --- objects -------------------------------------------------------------------------------
    def apply(self, kind: Kind, obj: Any) -> None:
        """Take in the newest version of an object; applying it again changes nothing."""
        self.version += 1
        match kind:
            case Kind.POD:
                self._apply_pod(obj)
            case Kind.NODE:
                self._apply_node(obj)
            case Kind.POD_GROUP:
                self._apply_pod_group(obj)
            case Kind.QUEUE:
                self._apply_queue(obj)
            case Kind.PRIORITY_CLASS:
                self._apply_priority_class(obj.key, obj)
            case _:
                key = object_key(obj)
                self.objects[kind][key] = obj
                self._depends(kind, key, obj)

    def load(self, objects: Iterable[tuple[Kind, Any]]) -> None:
        """Take in many objects at once, as when a cluster is read for the first time."""
        with paused():
            for kind, obj in objects:
                self.apply(kind, obj)

    def remove(self, kind: Kind, key: str) -> None:
        """Forget an object by ``namespace/name`` (or name); unknown keys are ignored."""
        self.version += 1
        match kind:
            case Kind.POD:
                task = self._tasks_by_key.get(key)
                if task is not None:
                    self._forget(task)
            case Kind.NODE:
                node = self.nodes.by_name.get(key)
                if node is not None:
                    self._drop_node(node)
            case Kind.POD_GROUP:
                self.group_objects.pop(key, None)
                self._drop_job(key)
            case Kind.QUEUE:
                self._drop_queue(key)
            case Kind.PRIORITY_CLASS:
                self._apply_priority_class(key, None)
            case _:
                old = self.objects[kind].pop(key, None)
                if old is not None:
                    self._depends(kind, key, old)

    def task(self, key: str) -> Task | None:
        """A pod by ``namespace/name``."""
        return self._tasks_by_key.get(key)

    # --- decisions -----------------------------------------------------------------------------
    def assume_bind(
        self, uid: str, node: str, groups: tuple[str, ...] = (), placement: dict[str, Any] | None = None
    ) -> None:
        """A pod is being bound; it counts as placed until the watch or a result says otherwise."""
        if (task := self.tasks.get(uid)) is not None:
            self._detach(task)
            facts = _facts(task)
            facts.assumed_node, facts.assumed_groups, facts.assumed_placement = node, groups, placement
            self._attach(task)

    def bind_failed(self, uid: str) -> None:
        """A bind had no effect; the pod is pending again."""
        if (task := self.tasks.get(uid)) is not None and _facts(task).assumed_node:
            self._detach(task)
            self._unassume(task)
            self._attach(task)

    def bind_done(self, uid: str) -> None:
        """A bind took effect: what the watch will say is known already."""
        if (task := self.tasks.get(uid)) is not None and _facts(task).assumed_node:
            self._detach(task)
            facts = _facts(task)
            facts.node_name = facts.node_name or facts.assumed_node
            facts.group_ids = facts.group_ids or facts.assumed_groups
            self._attach(task)

    def assume_evicted(self, uid: str) -> None:
        """A pod is being deleted, though the watch does not say so yet."""
        if (task := self.tasks.get(uid)) is not None:
            self._detach(task)
            _facts(task).evicting = True
            self._attach(task)

    def evict_failed(self, uid: str) -> None:
        """An eviction had no effect; the pod goes on as it was."""
        if (task := self.tasks.get(uid)) is not None and _facts(task).evicting:
            self._detach(task)
            _facts(task).evicting = False
            self._attach(task)

    def placed(self, task: Task) -> None:
        """The engine decided to bind a pending task and charged it already; keep the indices in step."""
        job, facts = task.job, task.facts
        assert job is not None
        assert facts is not None
        self._ask(task, -1)
        here = self._on_node.get(facts.assumed_node)
        if here is None:
            here = self._on_node[facts.assumed_node] = {}
        here[task.uid] = task
        self.touched_jobs[job.key] = job
        if not job.pending:
            self.pending_jobs.pop(job.key, None)

    def unplaced(self, task: Task) -> None:
        """The inverse of :meth:`placed`: the bind is not decided after all, and the pod holds nothing."""
        job, facts = task.job, _facts(task)
        assert job is not None
        _discard(self._on_node, facts.assumed_node, task.uid)
        self._unassume(task)
        facts.evicting = False
        task.placement = None
        self._ask(task, 1)
        self.touched_jobs[job.key] = self.pending_jobs[job.key] = job

    # --- time ----------------------------------------------------------------------------------
    def settle(self, now: float) -> None:
        """Bring everything that waits for the end of a batch, or for time, up to date."""
        self._now = now
        if self._gpu_memory_dirty:
            self._refresh_gpu_memory()
        if self._queues_dirty:
            self._relink_queues()
        self.nodes.settle()
        for task in list(self._releasing.values()):
            facts = _facts(task)
            if task.status is not pods.status(facts, now, self.params.stuck_in_releasing_seconds):
                self._detach(task)
                self._attach(task)

    def next_stuck(self) -> float:
        """When the next pod that is being deleted counts as stuck; infinite if none does."""
        after = self.params.stuck_in_releasing_seconds
        return min(
            (
                _facts(task).deleted_at + after
                for task in self._releasing.values()
                if task.status is Status.RELEASING and _facts(task).phase == "Running"
            ),
            default=float("inf"),
        )

    # --- pods ----------------------------------------------------------------------------------
    def _apply_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid or pod.key
        facts = pods.facts(pod, self.params.scheduler_name, self.params.reservation_app)
        old = self._tasks_by_key.get(facts.key)
        if old is not None and old.uid != uid:
            self._forget(old)
            old = None
        claims = bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None
        gpu_claims = self._gpu_claims(pod) if claims else ()
        cls = self.classes.of(pod, dra_gpus=sum(gpus for _, gpus in gpu_claims))
        self.nodes.fit_columns()
        if claims or (
            pod.metadata.annotations
            and any(key in pod.metadata.annotations for key in (names.NUMA_OBSERVED, names.NUMA_PREDICTED))
        ):
            facts.pod = pod
        if old is None:
            task = Task(
                uid,
                pod.metadata.namespace,
                pod.metadata.name,
                cls,
                seconds(pod.metadata.creation_timestamp),
                pods.order(pod),
                pod.metadata.labels,
                facts=facts,
            )
            self.tasks[uid] = self._tasks_by_key[facts.key] = task
        else:
            task = old
            self._detach(task)
            self._unindex(task)
            self._keep_decisions(_facts(task), facts)
            task.facts, task.cls, task.labels, task.order = facts, cls, pod.metadata.labels, pods.order(pod)
        task.claims = gpu_claims
        task.nominated = facts.nominated or task.nominated
        if cls.constraints.pod_affinity or cls.constraints.pod_anti_affinity:
            self.affine[uid] = task
        if claims:
            for key in self._claim_keys(pod):
                self._claim_users.setdefault(key, {})[uid] = task
        self._attach(task)

    @staticmethod
    def _keep_decisions(old: PodFacts, new: PodFacts) -> None:
        """A decision stays until the watch shows its effect, or that it cannot have one any more."""
        new.evicting = old.evicting and not new.deleted_at
        if not new.node_name and not new.deleted_at and new.phase == "Pending":
            if old.assumed_node:
                new.assumed_node, new.assumed_groups = old.assumed_node, old.assumed_groups
                new.assumed_placement = old.assumed_placement
                if old.node_name == old.assumed_node:
                    new.node_name, new.group_ids = old.node_name, new.group_ids or old.group_ids
        elif old.assumed_node == new.node_name:
            new.group_ids = new.group_ids or old.assumed_groups
            new.assumed_placement = old.assumed_placement

    def _forget(self, task: Task) -> None:
        self._detach(task)
        self._unindex(task)
        del self.tasks[task.uid], self._tasks_by_key[_facts(task).key]

    def _unindex(self, task: Task) -> None:
        pod = _facts(task).pod
        if pod is not None:
            for key in self._claim_keys(pod):
                self._claim_users.get(key, {}).pop(task.uid, None)
        self.affine.pop(task.uid, None)

    def _attach(self, task: Task) -> None:
        """Put a task into all sums, by its facts and what is known of the rest."""
        facts = _facts(task)
        status = pods.status(facts, self._now, self.params.stuck_in_releasing_seconds)
        task.status = status
        if facts.deleted_at and status in (Status.RELEASING, Status.STUCK_IN_RELEASING):
            self._releasing[task.uid] = task
        if facts.group_key:
            self._members.setdefault(facts.group_key, {})[task.uid] = task
            job = self.jobs.get(facts.group_key)
            if job is not None and status is not Status.FAILED:
                self._enlist(task, job)
        name = facts.node_name or facts.assumed_node
        if name:
            self._on_node.setdefault(name, {})[task.uid] = task
        node = self.nodes.by_name.get(name) if name and ACTIVE_USED[status] else None
        if node is not None:
            groups = (facts.group_ids or facts.assumed_groups) if task.cls.shared else ()
            task.placement = facts.assumed_placement
            self.ledger.hold(task, node, groups, releasing=status is Status.RELEASING)
            if facts.reservation:
                self.ledger.reserve(node, facts.group_ids, 1)
            if not facts.ours and not facts.utility:
                self._count_foreign(task, node, 1)
        if task.job is not None and ACTIVE_ALLOCATED[status]:
            self.ledger.charge(task, node.gpu_memory if node is not None else self.min_gpu_memory)
        elif task.job is not None and status is Status.PENDING:
            self._ask(task, 1)

    def _detach(self, task: Task) -> None:
        """The inverse of :meth:`_attach`."""
        facts = _facts(task)
        self._releasing.pop(task.uid, None)
        if task.charged is not None:
            self.ledger.discharge(task)
        elif task.job is not None and task.status is Status.PENDING:
            self._ask(task, -1)
        if task.node is not None:
            if not facts.ours and not facts.utility:
                self._count_foreign(task, task.node, -1)
            if facts.reservation:
                self.ledger.reserve(task.node, facts.group_ids, -1)
            self.ledger.unhold(task)
        task.placement = None
        if name := facts.node_name or facts.assumed_node:
            _discard(self._on_node, name, task.uid)
        if task.job is not None:
            self._delist(task)
        elif facts.group_key and (job := self.jobs.get(facts.group_key)) is not None:
            job.invalid.pop(task.uid, None)
        if facts.group_key:
            _discard(self._members, facts.group_key, task.uid)

    def _enlist(self, task: Task, job: Job) -> None:
        facts = _facts(task)
        pod_set = job.single or job.pod_sets.get(facts.sub_group)
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

    def _ask(self, task: Task, sign: int) -> None:
        job = task.job
        assert job is not None
        cls = task.cls
        cpu, memory, centi = sign * cls.cpu, sign * cls.memory, sign * cls.quota_centi(self.min_gpu_memory)
        for queue in job.queue.path:
            asked = queue.pending
            asked[0] += cpu
            asked[1] += memory
            asked[2] += centi

    def _count_foreign(self, task: Task, node: Node, sign: int) -> None:
        if node.ready:
            self.foreign[0] += sign * task.cls.cpu
            self.foreign[1] += sign * task.cls.memory
            self.foreign[2] += sign * task.cls.quota_centi(node.gpu_memory)

    @staticmethod
    def _unassume(task: Task) -> None:
        facts = _facts(task)
        if facts.node_name == facts.assumed_node:
            facts.node_name, facts.group_ids = "", ()
        facts.assumed_node, facts.assumed_groups, facts.assumed_placement = "", (), None

    # --- nodes ---------------------------------------------------------------------------------
    def _in_pool(self, labels: dict[str, str]) -> bool:
        key = self.params.node_pool_label_key
        return not key or labels.get(key, "") == self.params.partition

    def _apply_node(self, obj: NodeObject) -> None:
        node = self.nodes.by_name.get(obj.metadata.name)
        labels = obj.labels
        wanted = self._in_pool(labels) and not (
            self.params.restrict_node_scheduling
            and names.CPU_WORKER_LABEL not in labels
            and names.GPU_WORKER_LABEL not in labels
        )
        if not wanted:
            if node is not None:
                self._drop_node(node)
            return
        if node is not None and nodes.same(node.object, obj):
            node.object = obj
            return
        self._put_node(node, obj)

    def _put_node(self, node: Node | None, obj: NodeObject) -> None:
        name = obj.metadata.name
        self.resources.vector(obj.status.allocatable or {})
        affected = list(self._on_node.get(name, {}).values())
        for task in affected:
            self._detach(task)
        if node is None:
            node = Node(name, 0, obj)
            self.nodes.add(node)
        else:
            self.nodes.changed()
        slices = self.objects[Kind.RESOURCE_SLICE].values()
        dra_gpus = nodes.dra_gpu_devices(slices, name) if slices else 0
        amounts = nodes.describe(node, obj, self.resources, dra_gpus, self._backed)
        self.nodes.set_allocatable(node, amounts)
        self._gpu_memory_dirty = True
        for task in affected:
            self._attach(task)

    def _drop_node(self, node: Node) -> None:
        affected = list(self._on_node.get(node.name, {}).values())
        for task in affected:
            self._detach(task)
        self.nodes.remove(node)
        self._gpu_memory_dirty = True
        for task in affected:
            self._attach(task)

    def _refresh_gpu_memory(self) -> None:
        self._gpu_memory_dirty = False
        known = [node.gpu_memory for node in self.nodes.nodes if node.gpu_memory > 100]
        low, high = (min(known), max(known)) if known else (100, 100)
        self.max_gpu_memory = high
        if low == self.min_gpu_memory:
            return
        affected = [task for task in self.tasks.values() if task.cls.gpu_memory_mib and task.job is not None]
        for task in affected:
            self._detach(task)
        self.min_gpu_memory = low
        for task in affected:
            self._attach(task)

    # --- pod groups ----------------------------------------------------------------------------
    def _apply_pod_group(self, group: PodGroup) -> None:
        key = group.key
        if not self._in_pool(group.labels):
            self.group_objects.pop(key, None)
            self._drop_job(key)
            return
        self.group_objects[key] = group
        self._put_job(group)

    def _put_job(self, group: PodGroup) -> None:
        facts = jobs.facts(group, self.params.partition)
        priority, preemptible = self._priority(facts)
        job = self.jobs.get(group.key)
        if (
            job is not None
            and job.facts.shape == facts.shape
            and job.queue.name == facts.queue
            and (job.priority, job.preemptible) == (priority, preemptible)
        ):
            self._read_times(job, facts)
            self.touched_jobs[job.key] = job
            return
        if job is not None:
            self._drop_job(job.key)
        root, leaves, error = jobs.tree(group)
        job = Job(
            key=group.key,
            namespace=group.metadata.namespace,
            name=group.metadata.name,
            uid=group.metadata.uid,
            queue=self._queue_row(facts.queue),
            priority=priority,
            preemptible=preemptible,
            created=seconds(group.metadata.creation_timestamp),
            root=root,
            pod_sets=leaves,
            facts=facts,
            error=error,
        )
        if (len(leaves) == 1 and not group.spec.sub_groups) or error:
            (job.single,) = leaves.values()
        job.has_constraint = group.spec.topology_constraint is not None or any(
            sub.topology_constraint is not None for sub in group.spec.sub_groups or ()
        )
        self._read_times(job, facts)
        self.jobs[job.key] = self.touched_jobs[job.key] = job
        job.queue.jobs[job.key] = job
        for task in list(self._members.get(job.key, {}).values()):
            self._detach(task)
            self._attach(task)

    def _drop_job(self, key: str) -> None:
        job = self.jobs.pop(key, None)
        if job is None:
            return
        members = list(self._members.get(key, {}).values())
        for task in members:
            self._detach(task)
        del job.queue.jobs[key]
        self.pending_jobs.pop(key, None)
        self.touched_jobs.pop(key, None)
        for task in members:
            self._attach(task)

    @staticmethod
    def _read_times(job: Job, facts: JobFacts) -> None:
        """Own decisions are newer than what the watch repeats of older ones."""
        old = job.facts.annotations if job.facts is not facts else None
        job.facts = facts
        told = facts.annotations
        if old is None or old.get(names.STALE_TIMESTAMP) != told.get(names.STALE_TIMESTAMP):
            job.stale_since = seconds(told.get(names.STALE_TIMESTAMP))
        job.last_start = max(job.last_start, seconds(told.get(names.LAST_START_TIMESTAMP)))
        job.last_eviction = max(job.last_eviction, seconds(told.get(names.LAST_EVICTION_TIMESTAMP)))

    def _priority(self, facts: JobFacts) -> tuple[int, bool]:
        cls = self.priority_classes.get(facts.priority_class)
        if cls is None:
            cls = min(
                (each for each in self.priority_classes.values() if each.global_default),
                key=lambda each: each.key,
                default=None,
            )
        priority = cls.value if cls is not None else _DEFAULT_PRIORITY
        match facts.preemptibility.lower():
            case "preemptible":
                return priority, True
            case "non-preemptible":
                return priority, False
        return priority, priority < _NON_PREEMPTIBLE_FROM

    def _apply_priority_class(self, key: str, obj: PriorityClass | None) -> None:
        old = self.priority_classes.pop(key, None)
        if obj is not None:
            self.priority_classes[key] = obj
        if (
            old is not None
            and obj is not None
            and (old.value, old.global_default) == (obj.value, obj.global_default)
        ):
            return
        for job in list(self.jobs.values()):
            if self._priority(job.facts) != (job.priority, job.preemptible):
                self._put_job(self.group_objects[job.key])

    # --- queues --------------------------------------------------------------------------------
    def _queue_row(self, name: str) -> Queue:
        row = self.queues.get(name)
        if row is None:
            row = self.queues[name] = Queue(name, len(self.queues))
        return row

    def _apply_queue(self, obj: QueueObject) -> None:
        if not self._in_pool(obj.labels):
            self._drop_queue(obj.metadata.name)
            return
        self.queue_objects[obj.metadata.name] = obj
        row = self._queue_row(obj.metadata.name)
        before = (row.exists, row.parent_name)
        queues.describe(row, obj)
        if before != (True, row.parent_name):
            self._queues_dirty = True
        self.versions[Kind.QUEUE] += 1

    def _drop_queue(self, name: str) -> None:
        self.queue_objects.pop(name, None)
        row = self.queues.get(name)
        if row is not None and row.exists:
            row.exists = False
            self._queues_dirty = True
            self.versions[Kind.QUEUE] += 1

    def _relink_queues(self) -> None:
        """Build the hierarchy anew, and all that is charged along it."""
        self._queues_dirty = False
        for name in [name for name, row in self.queues.items() if not row.exists and not row.jobs]:
            del self.queues[name]
        self.queue_order = queues.link(
            self.queues.values(), full_hierarchy=self.params.full_hierarchy_fairness
        )
        self.ledger.set_queues(len(self.queue_order))
        for number, row in enumerate(self.queue_order):
            row.row = number
            row.allocated, row.non_preemptible, row.pending = [0, 0, 0], [0, 0, 0], [0, 0, 0]
        self.versions[Kind.QUEUE] += 1
        for job in self.jobs.values():
            self.touched_jobs[job.key] = job
            for pod_set in job.pod_sets.values():
                for task in pod_set.tasks.values():
                    if task.charged is not None:
                        self.ledger.recharge(task, task.charged)
                    elif task.status is Status.PENDING:
                        self._ask(task, 1)

    # --- claims --------------------------------------------------------------------------------
    def _depends(self, kind: Kind, key: str, obj: Any) -> None:
        """Bring rows up to date that read an object of another kind."""
        self.versions[kind] += 1
        if kind is Kind.RESOURCE_SLICE:
            name = (obj.get("spec") or {}).get("nodeName", "")
            node = self.nodes.by_name.get(name)
            if node is not None:
                slices = self.objects[Kind.RESOURCE_SLICE].values()
                if nodes.dra_gpu_devices(slices, name) != node.dra_gpus:
                    self._put_node(node, node.object)
        elif kind is Kind.DEVICE_CLASS:
            backed = nodes.backed_columns(self.objects[kind].values(), self.resources)
            if backed != self._backed:
                self._backed = backed
                for node in list(self.nodes.nodes):
                    self._put_node(node, node.object)
        elif kind is Kind.RESOURCE_CLAIM:
            for task in list(self._claim_users.get(key, {}).values()):
                facts = _facts(task)
                assert facts.pod is not None
                self._detach(task)
                task.claims = self._gpu_claims(facts.pod)
                task.cls = self.classes.of(facts.pod, dra_gpus=sum(gpus for _, gpus in task.claims))
                self._attach(task)

    @staticmethod
    def _claim_keys(pod: Pod) -> Iterable[str]:
        made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
        for claim in pod.spec.resource_claims or ():
            name = claim.resource_claim_name or made.get(claim.name)
            if name:
                yield f"{pod.metadata.namespace}/{name}"

    def _gpu_claims(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        """The pod's claims of GPUs, and how many GPUs each asks for."""
        found: list[tuple[str, int]] = []
        for key in self._claim_keys(pod):
            claim = self.objects[Kind.RESOURCE_CLAIM].get(key)
            gpus = _gpus_of(claim) if claim is not None else 0
            if gpus:
                found.append((key, gpus))
        return tuple(found)

    # --- cuts ----------------------------------------------------------------------------------
    def cut(self) -> ClusterSnapshot:
        """An immutable picture of everything that decisions depend on."""
        from kai.snapshot.codec import cut

        return cut(self)

    @classmethod
    def from_snapshot(cls, snapshot: ClusterSnapshot) -> ClusterState:
        """A state that decides as the one that was cut."""
        from kai.snapshot.codec import restore

        return restore(snapshot)

    # --- invariants ----------------------------------------------------------------------------
    def check(self) -> None:
        """Assert that all sums equal what the rows say."""
        from kai.snapshot.check import check_state

        check_state(self)


def _gpus_of(claim: dict[str, Any]) -> int:
    total = 0
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly") or request
        if "gpu" in str(exactly.get("deviceClassName", "")):
            total += 1 if exactly.get("allocationMode") == "All" else int(exactly.get("count", 1))
    return total


def object_key(obj: Any) -> str:
    """``namespace/name`` of a struct or a JSON object."""
    if isinstance(obj, dict):
        meta = obj.get("metadata") or {}
        namespace = meta.get("namespace")
        return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])
    return str(obj.key)


def _facts(task: Task) -> PodFacts:
    assert task.facts is not None
    return task.facts


def _discard(index: dict[str, dict[str, Task]], key: str, uid: str) -> None:
    bucket = index[key]
    del bucket[uid]
    if not bucket:
        del index[key]
