"""Watches workloads and their pods, asks the pure controllers what to do, and does it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder
from kai.kube.reflector import Reflector
from kai.kube.resources import Resource
from kai.kube.store import Store
from kai.kube.workqueue import WorkQueue
from kai.model.objects import ApiObject, Node
from kai_local.controllers import (
    cron_jobs,
    daemon_sets,
    deployments,
    disruption_budgets,
    jobs,
    replica_sets,
    stateful_sets,
)
from kai_local.controllers.actions import Adopt, Plan, Release
from kai_local.controllers.actor import Actor
from kai_local.controllers.adoption import CHILDREN, adoptions, releases
from kai_local.controllers.devices import DeviceClaims
from kai_local.controllers.expectations import Expectations
from kai_local.controllers.job_counts import is_tracked, last_failure
from kai_local.controllers.objects import Workload, selects
from kai_local.controllers.placing import Placing
from kai_local.controllers.stateful_sets import ordinal
from kai_local.controllers.storage import Storage
from kai_local.controllers.taint_evictions import TaintEvictions
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import Watches, controller_of, orphan_namespace, owner_uid

#: Kind and ``namespace/name``.
Key = tuple[str, str]

_WORKERS = 8
#: Changes of pods come in bunches; one look at all of them is enough.
_SETTLE_SECONDS = 0.05
#: When to look again after taking something over or releasing it, if no change tells of it before.
_ADOPTION_SECONDS = 1.0
_WORKLOADS = (
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.DAEMON_SETS,
    resources.JOBS,
    resources.CRON_JOBS,
    resources.PDBS,
)

_log = structlog.get_logger(__name__)


class Controllers:
    """All controllers over one set of watches. :meth:`run` goes on until cancelled.

    ``chart_elsewhere``: the pods of the chart are placed by somebody else.
    """

    def __init__(
        self,
        client: KubeClient,
        watches: Watches,
        *,
        chart_elsewhere: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ready = asyncio.Event()
        self._client = client
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue("workloads")
        self._uncounted: WorkQueue[str] = WorkQueue("uncounted")
        #: When a pod of a Job failed last, by the uid of the Job.
        self._failed_at: dict[str, float] = {}
        self._expectations = Expectations(clock)
        self._events = EventRecorder(client, controller="kai-local-controllers")
        self._actor = Actor(client, self._expectations, self._events)
        self._watches = watches
        self._pods, self._nodes = watches.pods, watches.nodes
        self._workloads: dict[str, Store[Workload]] = {}
        for resource in _WORKLOADS:
            store: Store[Workload] = Store(
                indexes={
                    "owner": owner_uid,
                    "orphan": orphan_namespace,
                    "namespace": lambda workload: (workload.metadata.namespace,),
                }
            )
            store.listen(self._workload_listener(resource.kind))
            self._workloads[resource.kind] = store
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)
        self._placing = Placing(client, self._pods, self._nodes, chart_elsewhere=chart_elsewhere)
        self._storage = Storage(client, watches, self._actor)
        self._device_claims = DeviceClaims(client, watches, self._actor)
        self._taint_evictions = TaintEvictions(watches, self._actor, self._events, clock)

    async def run(self) -> None:
        """Watch and act."""
        followed = [
            (Reflector(self._client, resource, Workload), self._workloads[resource.kind])
            for resource in _WORKLOADS
        ]
        async with asyncio.TaskGroup() as tasks:
            for reflector, store in followed:
                tasks.create_task(reflector.run(store))
            for reflector, _ in followed:
                await reflector.synced.wait()
            await self._watches.ready.wait()
            tasks.create_task(self._events.run())
            tasks.create_task(self._queue.run(self._work, workers=_WORKERS))
            tasks.create_task(self._uncounted.run(self._let_uncounted_go, workers=1))
            tasks.create_task(self._placing.run())
            tasks.create_task(self._storage.run())
            tasks.create_task(self._device_claims.run())
            tasks.create_task(self._taint_evictions.run())
            self.ready.set()
            _log.info("controllers run")

    # --- what changed --------------------------------------------------------------------------
    def _workload_listener(self, kind: str) -> Callable[[Workload | None, Workload | None], None]:
        def changed(old: Workload | None, new: Workload | None) -> None:
            self._seen(old, new)
            if new is not None:
                self._queue.add((kind, new.key))
            elif old is not None:
                self._leave(old.metadata.uid)
            self._wake_owner(0.0, old, new)
            if kind == resources.REPLICA_SETS.kind:
                self._wake_adopters(resources.REPLICA_SETS, old, new)

        return changed

    def _leave(self, owner: str) -> None:
        """Nobody counts the pods of a Job that is gone."""
        self._failed_at.pop(owner, None)
        for pod in self._pods.by_index("owner", owner):
            if is_tracked(pod):
                self._uncounted.add(pod.key)

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        self._seen(old, new)
        self._wake_owner(_SETTLE_SECONDS, old, new)
        if new is not None and is_tracked(new) and not self._is_counted(new):
            self._uncounted.add(new.key)
        self._wake_adopters(resources.PODS, old, new)
        self._wake_budgets(old, new)
        if new is None and old is not None:
            self._wake_deployment(old)
            self._wake_stateful_sets(old)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for daemon_set in self._workloads["DaemonSet"]:
            self._queue.add_after(("DaemonSet", daemon_set.key), _SETTLE_SECONDS)

    def _seen(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Keep account of what came into being and what went."""
        if new is not None and (old is None or old.metadata.uid != new.metadata.uid):
            owner = controller_of(new)
            if owner is not None:
                self._expectations.created(owner.uid)
        gone = old is not None and (new is None or new.metadata.deletion_timestamp is not None)
        if gone and old is not None:
            self._expectations.deleted(old.metadata.uid)

    def _wake_owner(self, delay: float, *states: ApiObject | None) -> None:
        """The controllers that an object has and had."""
        for state in states:
            owner = controller_of(state) if state is not None else None
            if state is None or owner is None or owner.kind not in self._workloads:
                continue
            key = (owner.kind, f"{state.metadata.namespace}/{owner.name}")
            if delay:
                self._queue.add_after(key, delay)
            else:
                self._queue.add(key)

    def _wake_adopters(self, child: Resource, old: ApiObject | None, new: ApiObject | None) -> None:
        """Whoever may take over what has no controller any more."""
        if new is None or controller_of(new) is not None:
            return
        if old is not None and controller_of(old) is None and old.labels == new.labels:
            return
        for resource in (parent for parent, its in CHILDREN.items() if its == child):
            for workload in self._workloads[resource.kind].by_index("namespace", new.metadata.namespace):
                if selects(workload)(new.labels):
                    self._queue.add((resource.kind, workload.key))

    def _wake_budgets(self, *states: LocalPod | None) -> None:
        for budget in self._workloads["PodDisruptionBudget"]:
            means = disruption_budgets.meant_by(budget)
            if any(pod is not None and means(pod) for pod in states):
                self._queue.add_after(("PodDisruptionBudget", budget.key), _SETTLE_SECONDS)

    def _wake_deployment(self, gone: LocalPod) -> None:
        """One that recreates its pods waits for this, which the status of its ReplicaSet does not show."""
        owner = controller_of(gone)
        if owner is not None and owner.kind == "ReplicaSet":
            replica_set = self._workloads["ReplicaSet"].get(f"{gone.metadata.namespace}/{owner.name}")
            self._wake_owner(_SETTLE_SECONDS, replica_set)

    def _wake_stateful_sets(self, gone: LocalPod) -> None:
        """One whose pod is to have this name waits for it, whosever it was."""
        for stateful_set in self._workloads["StatefulSet"].by_index("namespace", gone.metadata.namespace):
            if ordinal(stateful_set, gone) is not None:
                self._queue.add_after(("StatefulSet", stateful_set.key), _SETTLE_SECONDS)

    def _is_counted(self, pod: LocalPod) -> bool:
        """Whether the Job of the pod is there, which is to count it."""
        owner = controller_of(pod)
        job = self._workloads["Job"].get(f"{pod.metadata.namespace}/{owner.name}") if owner else None
        return job is not None and owner is not None and job.metadata.uid == owner.uid

    # --- what to do ----------------------------------------------------------------------------
    async def _let_uncounted_go(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is not None and is_tracked(pod) and not self._is_counted(pod):
            await self._actor.carry_out([jobs.let_go(pod)], pod.metadata.uid)

    async def _work(self, key: Key) -> float | None:
        kind, name = key
        workload = self._workloads[kind].get(name)
        if workload is None:
            return None
        uid = workload.metadata.uid
        remaining = self._expectations.remaining(uid)
        if remaining:
            return remaining
        if claimed := self._claims(kind, workload):
            await self._actor.carry_out(claimed, uid)
            return _ADOPTION_SECONDS
        plan = self._plan(kind, workload)
        await self._actor.carry_out(plan.actions, uid)
        return plan.again_in

    def _claims(self, kind: str, workload: Workload) -> list[Adopt | Release]:
        """What is to become a child of the workload, and what is to be one no longer."""
        resource = next((each for each in CHILDREN if each.kind == kind), None)
        if resource is None:
            return []
        child, meta = CHILDREN[resource], workload.metadata
        there: Store[LocalPod] | Store[Workload] = (
            self._pods if child == resources.PODS else self._workloads[child.kind]
        )
        return [
            *adoptions(resource, workload, there.by_index("orphan", meta.namespace)),
            *releases(resource, workload, there.by_index("owner", meta.uid)),
        ]

    def _plan(self, kind: str, workload: Workload) -> Plan:
        uid, now = workload.metadata.uid, self._clock()
        match kind:
            case "Deployment":
                owned = self._owned("ReplicaSet", uid)
                pods = [pod for one in owned for pod in self._pods.by_index("owner", one.metadata.uid)]
                return deployments.reconcile(workload, owned, pods, now)
            case "ReplicaSet":
                return replica_sets.reconcile(workload, self._pods_of(uid), now)
            case "StatefulSet":
                return stateful_sets.reconcile(workload, self._pods_of(uid), now)
            case "DaemonSet":
                return daemon_sets.reconcile(workload, self._pods_of(uid), list(self._nodes), now)
            case "Job":
                pods = self._pods_of(uid)
                failed_at = max(self._failed_at.get(uid, 0.0), last_failure(pods))
                self._failed_at[uid] = failed_at
                return jobs.reconcile(workload, pods, now, failed_at=failed_at)
            case "PodDisruptionBudget":
                meant = filter(disruption_budgets.meant_by(workload), self._pods)
                return disruption_budgets.reconcile(workload, list(meant), now)
            case _:
                return cron_jobs.reconcile(workload, self._owned("Job", uid), now)

    def _pods_of(self, uid: str) -> list[LocalPod]:
        pods = self._pods.by_index("owner", uid)
        return [pod for pod in pods if not self._expectations.is_doomed(pod.metadata.uid)]

    def _owned(self, kind: str, uid: str) -> list[Workload]:
        found = self._workloads[kind].by_index("owner", uid)
        return [
            one for one in found if not one.terminating and not self._expectations.is_doomed(one.metadata.uid)
        ]
