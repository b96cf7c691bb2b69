"""Taking in objects of each kind, in any order, any number of times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kai.model import limits, names
from kai.model.dra import ResourceClaim
from kai.model.ids import PodGroupKey, PodUid
from kai.model.objects import Node as NodeObject
from kai.model.objects import Pod
from kai.model.rules import device_claims
from kai.snapshot import bounds, nodes, pod_bounds, pods
from kai.snapshot.accounts import Accounts, discard, facts_of
from kai.snapshot.classes import ClaimedGpus, TaskClass
from kai.snapshot.cluster import Cluster
from kai.snapshot.gpu_slices import GpuSlices
from kai.snapshot.granted import Granted
from kai.snapshot.groups import GroupIntake
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.rows import UNKNOWN_GPU_MEMORY_MIB, Node, PodFacts, Task
from kai.snapshot.shapes import conform
from kai.snapshot.status import Status
from kai.snapshot.times import seconds


class Intake:
    """What the newest version of an object changes in the rows."""

    def __init__(self, cluster: Cluster, accounts: Accounts, granted: Granted, groups: GroupIntake) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._granted = granted
        self._groups = groups
        self._gpu_slices = GpuSlices()
        #: Extended resources that device classes stand behind.
        self._backed: tuple[str, ...] = ()
        self._gpu_sizes_dirty = False

    # --- objects -------------------------------------------------------------------------------
    def take_in(self, kind: Kind, obj: Any) -> None:
        """Take in the newest version of an object.

        Raises:
            OutOfBounds: a field has a value that cannot be worked with.
        """
        if kind is Kind.POD:
            self._apply_pod(obj)
            return
        bounds.check(kind, obj)
        match kind:
            case Kind.POD_GROUP:
                self._groups.apply(obj)
            case Kind.NODE:
                self._apply_node(obj)
            case Kind.QUEUE:
                self._groups.apply_queue(obj)
            case Kind.PRIORITY_CLASS:
                self._groups.apply_priority_class(obj.key, obj)
            case _:
                self._put_object(kind, object_key(obj), obj)

    def _put_object(self, kind: Kind, key: str, obj: Any) -> None:
        known = self._cluster.objects[kind]
        old = known.get(key)
        known[key] = obj
        try:
            self._depends(kind, key, obj)
        except Exception:
            if old is None:
                del known[key]
            else:
                known[key] = old
            if kind is Kind.RESOURCE_SLICE:
                self._gpu_slices.put(key, old)
            raise

    def take_out(self, kind: Kind, key: str) -> None:
        """Forget an object; unknown keys are ignored."""
        cluster = self._cluster
        match kind:
            case Kind.POD:
                task = cluster.tasks_by_key.get(key)
                if task is not None:
                    self.forget(task)
            case Kind.NODE:
                node = cluster.nodes.by_name.get(key)
                if node is not None:
                    self._drop_node(node)
            case Kind.POD_GROUP:
                self._groups.drop(PodGroupKey(key))
            case Kind.QUEUE:
                self._groups.drop_queue(key)
            case Kind.PRIORITY_CLASS:
                self._groups.apply_priority_class(key, None)
            case _:
                old = cluster.objects[kind].pop(key, None)
                if old is not None:
                    self._depends(kind, key, old)

    def refresh(self) -> None:
        """Bring up to date what tasks are charged by.

        Which GPUs are the smallest, how queues hang together, and who may use them. Costs nothing where none
        of it changed, else time by the number of jobs and pods.
        """
        if self._gpu_sizes_dirty:
            self._refresh_gpu_sizes()
        self._groups.refresh()

    # --- pods ----------------------------------------------------------------------------------
    def _apply_pod(self, pod: Pod) -> None:
        cluster = self._cluster
        # Not by a call, as elsewhere: this is done for each version of each pod.
        meta = pod.metadata
        uid: PodUid = meta.uid or pod.key  # type: ignore[assignment]
        known = cluster.tasks.get(uid)
        if known is not None and (known.name != meta.name or known.namespace != meta.namespace):
            # No API server gives two pods one uid, but a copy of a pod in a file has that of the first.
            uid = pod.key  # type: ignore[assignment]
        if meta.labels:
            pod_bounds.check_devices(meta.labels)
        facts = pods.facts(pod, cluster.params)
        if not facts.ours:
            pod = pods.without_mig_words(pod)
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            self.enter_pod(pod, uid, facts, cluster.classes.of(pod))
            return
        limits.POD_CLAIMS.check_count(pod.spec.resource_claims)
        gpu_claims, claimed = self._gpu_claims(pod)
        cls = cluster.classes.of(pod, claimed=claimed)
        self.enter_pod(pod, uid, facts, cls, gpu_claims=gpu_claims)

    def enter_pod(
        self,
        pod: Pod,
        uid: PodUid,
        facts: PodFacts,
        cls: TaskClass,
        *,
        gpu_claims: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """Take in a pod of which these facts are known, and which is of this class.

        ``gpu_claims`` are keys of claims, and how many GPUs each has. Another pod of the same name is
        forgotten. What was decided about it stays, until the watch shows that it had its effect, or cannot
        have one.

        Raises:
            OutOfBounds: it waits, and its group has as many pods already as one may have.
        """
        cluster = self._cluster
        meta = pod.metadata
        labels, annotations = meta.labels, meta.annotations
        created = seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0
        order = cluster.group_order.key(labels, created, meta.uid)
        old = cluster.tasks_by_key.get(facts.key)
        if old is not None and old.uid != uid:
            self.forget(old)
            old = None
        if facts.group_key and (old is None or facts_of(old).group_key != facts.group_key):
            self._check_room(facts, old)
        claims = cls.claims or pod.status.extended_resource_claim_status is not None
        if claims or (
            annotations and (names.NUMA_OBSERVED in annotations or names.NUMA_PREDICTED in annotations)
        ):
            facts.pod = pod
        decided: TaskClass | None = None
        nominated = facts.nominated
        if old is None:
            task = Task(
                uid=uid,
                namespace=meta.namespace,
                name=meta.name,
                cls=cls,
                created=created,
                order=order,
                labels=labels,
                facts=facts,
            )
            cluster.tasks[uid] = cluster.tasks_by_key[facts.key] = task
        else:
            task = old
            self._accounts.detach(task)
            self.unindex(task)
            if not nominated and task.nominated != facts_of(task).nominated:
                nominated = task.nominated  # by us, which its object does not say
            self._keep_decisions(facts_of(task), facts)
            decided = task.cls if facts.assumed_node and task.cls.shared else None
            if task.labels != labels:
                cluster.budgets.forget_pod(task)
            task.facts, task.cls, task.labels, task.order = facts, cls, labels, order
            task.bare = False
        if decided is not None or uid in cluster.grants.of_pods or task.declared_cls is not None:
            self._granted.hold_to_grant(task, declared=cls, decided=decided)
        task.claims = gpu_claims
        task.nominated = nominated
        if cls.affine or claims:
            self.index(task)
        self._accounts.attach(task)
        if facts.reservation:
            self._granted.read_claims(facts, pod)

    def _check_room(self, facts: PodFacts, old: Task | None) -> None:
        """Raises OutOfBounds for a pod that is new to a full group. One that has a place always counts."""
        if facts.node_name or (old is not None and facts_of(old).assumed_node):
            return
        there = len(self._cluster.members.get(facts.group_key, ()))
        if there >= limits.GROUP_PODS.most:
            raise limits.GROUP_PODS.exceeded(there + 1, f"number of pods of group {facts.group_key}")

    @staticmethod
    def _keep_decisions(old: PodFacts, new: PodFacts) -> None:
        """A decision stays until the watch shows its effect, or that it cannot have one any more."""
        new.evicting = old.evicting
        if not new.node_name and not new.deleted_at and new.phase == "Pending":
            if old.assumed_node:
                new.assumed_node, new.assumed_groups = old.assumed_node, old.assumed_groups
                new.assumed_allotment = old.assumed_allotment
                # A result told of the bind already, and this version of the pod is from before.
                if old.node_name == old.assumed_node:
                    new.node_name, new.group_ids = old.node_name, old.group_ids or new.group_ids
        elif old.assumed_node == new.node_name:
            # The bind took effect, but its labels need not say yet which devices it has.
            new.group_ids = new.group_ids or old.assumed_groups
            new.assumed_allotment = old.assumed_allotment

    def forget(self, task: Task) -> None:
        """The pod is gone.

        All sums are without it, and what it recorded of others, as a reservation pod, counts no longer.
        """
        job, done = task.job, task.status is Status.SUCCEEDED
        self._accounts.detach(task)
        self.drop(task)
        self._cluster.eviction_refusals.forget(task.uid)
        if facts_of(task).reservation:
            self._granted.forget_claims(facts_of(task))
        if job is not None and (done or job.completing):
            job.completing = any(pod_set.tasks for pod_set in job.pod_sets.values())

    def drop(self, task: Task) -> None:
        """Leave no trace of a task that is in no sum.

        Before: it was detached.
        """
        cluster = self._cluster
        self.unindex(task)
        cluster.budgets.forget_pod(task)
        cluster.overruled.pop(facts_of(task).key, None)
        del cluster.tasks[task.uid], cluster.tasks_by_key[facts_of(task).key]

    def index(self, task: Task) -> None:
        """Put a task into the indices that go by its spec."""
        cluster = self._cluster
        if task.cls.affine:
            cluster.affine[task.uid] = task
        pod = facts_of(task).pod
        if pod is not None:
            for key in self._claim_keys(pod):
                cluster.claim_users.setdefault(key, {})[task.uid] = task

    def unindex(self, task: Task) -> None:
        """Take a task out of the indices that go by its spec."""
        cluster = self._cluster
        pod = facts_of(task).pod
        if pod is not None:
            for key in set(self._claim_keys(pod)):
                if task.uid in cluster.claim_users.get(key, ()):
                    discard(cluster.claim_users, key, task.uid)
        cluster.affine.pop(task.uid, None)

    # --- nodes ---------------------------------------------------------------------------------
    def _apply_node(self, obj: NodeObject) -> None:
        cluster = self._cluster
        node = cluster.nodes.by_name.get(obj.metadata.name)
        labels = obj.labels
        wanted = cluster.params.in_pool(labels) and not (
            cluster.params.restrict_node_scheduling
            and cluster.params.cpu_worker_label_key not in labels
            and cluster.params.gpu_worker_label_key not in labels
        )
        if not wanted:
            if node is not None:
                self._drop_node(node)
            return
        if node is not None and nodes.same(node.object, obj):
            node.object = obj
            return
        if node is not None and node.object.metadata.uid != obj.metadata.uid:
            cluster.refusals.forget(node.name)  # those of a machine that was replaced under its name
        self._put_node(node, obj)

    def _describe(self, node: Node, obj: NodeObject, *, dra_gpus: int) -> dict[int, int]:
        cluster = self._cluster
        return nodes.describe(
            node, obj, cluster.resources, cluster.params, dra_gpus=dra_gpus, backed=self._backed
        )

    def _put_node(self, node: Node | None, obj: NodeObject) -> None:
        cluster = self._cluster
        name = obj.metadata.name
        known = len(cluster.resources)
        dra_gpus = self._gpu_slices.count(name)
        newest = Node(name=name, row=0, object=obj)
        # Raises, if at all, before anything changes.
        amounts = self._describe(newest, obj, dra_gpus=dra_gpus)
        self._classify_again(known)
        affected = list(cluster.on_node.get(name, {}).values())
        for task in affected:
            self._accounts.detach(task)
        if node is None:
            node = newest
            cluster.nodes.add(node)
        else:
            self._describe(node, obj, dra_gpus=dra_gpus)
            cluster.nodes.changed()
        try:
            cluster.nodes.set_allocatable(node, amounts)
        except Exception:
            cluster.nodes.remove(node)
            cluster.unsound = True
            raise
        self._gpu_sizes_dirty = True
        for task in affected:
            self._accounts.attach(task)

    def _classify_again(self, known: int) -> None:
        """Bring classes up to date where there were but so many columns, and some pod asks for a new one."""
        cluster = self._cluster
        if len(cluster.resources) == known:
            return
        cluster.nodes.fit_columns()
        cluster.classes.offered_now()
        new = set(cluster.resources.names[known:])
        again: dict[TaskClass, TaskClass] = {}
        for task in cluster.tasks.values():
            old = task.cls
            if old.unoffered and not new.isdisjoint(name for name, _ in old.unoffered):
                cls = again.get(old)
                if cls is None:
                    cls = again[old] = cluster.classes.again(old)
                self._accounts.detach(task)
                task.cls = cls
                if task.declared_cls is not None:
                    task.declared_cls = cluster.classes.again(task.declared_cls)
                self._accounts.attach(task)

    def _drop_node(self, node: Node) -> None:
        cluster = self._cluster
        affected = list(cluster.on_node.get(node.name, {}).values())
        for task in affected:
            self._accounts.detach(task)
        cluster.nodes.remove(node)
        cluster.refusals.forget(node.name)
        self._gpu_sizes_dirty = True
        for task in affected:
            self._accounts.attach(task)

    def _refresh_gpu_sizes(self) -> None:
        cluster = self._cluster
        self._gpu_sizes_dirty = False
        known = [
            node.gpu_memory_mib
            for node in cluster.nodes.nodes
            if node.gpu_memory_mib > UNKNOWN_GPU_MEMORY_MIB
        ]
        low, high = (min(known), max(known)) if known else (100, 100)
        cluster.max_gpu_memory_mib = high
        # Sums go by the smallest only, wherever there is no node to go by.
        if low == cluster.min_gpu_memory_mib:
            return
        affected = [
            task for task in cluster.tasks.values() if task.cls.gpu_memory_mib and task.job is not None
        ]
        for task in affected:
            self._accounts.detach(task)
        cluster.min_gpu_memory_mib = low
        for task in affected:
            self._accounts.attach(task)

    # --- claims --------------------------------------------------------------------------------
    def _depends(self, kind: Kind, key: str, obj: Any) -> None:
        """Bring rows up to date that read an object of another kind."""
        cluster = self._cluster
        cluster.versions[kind] += 1
        if kind is Kind.NAMESPACE:
            cluster.access.namespace_changed(key)
        elif kind is Kind.POD_DISRUPTION_BUDGET:
            cluster.budgets.changed(key)
        elif kind is Kind.RESOURCE_SLICE:
            for name in sorted(self._gpu_slices.put(key, cluster.objects[kind].get(key))):
                node = cluster.nodes.by_name.get(name)
                if node is not None and self._gpu_slices.count(name) != node.dra_gpus:
                    self._put_node(node, node.object)
        elif kind is Kind.DEVICE_CLASS:
            known = len(cluster.resources)
            backed = nodes.backed_resources(cluster.objects[kind].values(), cluster.resources)
            self._classify_again(known)
            if backed != self._backed:
                self._backed = backed
                for node in list(cluster.nodes.nodes):
                    self._put_node(node, node.object)
        elif kind is Kind.RESOURCE_CLAIM:
            self._claim_changed(cluster.claim_users.get(key, {}).values())

    def _claim_changed(self, users: Iterable[Task]) -> None:
        """A claim of these tasks has got something, say. A node is charged for it once for all of them, so no
        one may hold what it was while it becomes another.
        """
        cluster = self._cluster
        found: list[tuple[Task, tuple[tuple[str, int], ...], TaskClass]] = []
        for task in users:
            pod = facts_of(task).pod
            assert pod is not None
            claims, claimed = self._gpu_claims(pod)
            found.append((task, claims, cluster.classes.of(pod, claimed=claimed)))
        for task, _, _ in found:
            self._accounts.detach(task)
        for task, claims, cls in found:
            decided, task.claims, task.cls = task.cls, claims, cls
            if decided.shared:
                self._granted.hold_to_grant(task, declared=cls, decided=decided)
            self._accounts.attach(task)

    @staticmethod
    def _claim_keys(pod: Pod) -> Iterable[str]:
        namespace = pod.metadata.namespace
        return (f"{namespace}/{each.name}" for each in device_claims.claim_entries(pod) if each.name)

    def _gpu_claims(self, pod: Pod) -> tuple[tuple[tuple[str, int], ...], ClaimedGpus]:
        """The pod's claims of GPUs, and how many GPUs each has got, or asks for; and all of them together."""
        found: list[tuple[str, int]] = []
        for_gpus = False
        for key in self._claim_keys(pod):
            obj = self._cluster.objects[Kind.RESOURCE_CLAIM].get(key)
            if obj is None:
                continue
            claim = conform(obj, ResourceClaim)
            for_gpus = for_gpus or device_claims.is_for_gpus(claim)
            if gpus := device_claims.claimed_gpus(claim):
                found.append((key, gpus[1]))
        return tuple(found), ClaimedGpus(sum(gpus for _, gpus in found), for_gpus)
