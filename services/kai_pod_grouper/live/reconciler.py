"""Groups each workload once: the pods of one direct owner are one piece of work, however many there are."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from kai.advice import membership, metadata
from kai.advice.finding import Finding
from kai.grouping.errors import GroupingError, ObjectNotFound, OwnerReplaced
from kai.grouping.grouper import EXTERNAL, LeftAlone, Membership, group_pod
from kai.grouping.objects.pods import Pod
from kai.grouping.options import GroupingOptions
from kai.kube import errors as kube
from kai.kube.backoff import Backoff
from kai.kube.events import EventRecorder, ObjectReference, reference
from kai.kube.resources import PODS
from kai.kube.workqueue import QueueMetrics, WorkQueue
from kai.model import names
from kai.model.objects import PodGroup
from kai.model.rules.gpu_groups import is_gpu_group_label
from kai_pod_grouper.live.assignments import Assignments
from kai_pod_grouper.live.cluster import LiveCluster, Watches
from kai_pod_grouper.live.owner_cache import IMPATIENT_SECONDS
from kai_pod_grouper.live.told import Told
from kai_pod_grouper.live.writer import Writer

REASON: Final = "PodGrouperWarning"
_FIRST_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_SHOWN: Final = 500
_SECOND_LOOK_SECONDS: Final = 1.5 * IMPATIENT_SECONDS
#: How long a pod may run without a group that exists: longer than it takes somebody to replace a group.
ADRIFT_SECONDS: Final = 30.0
#: Pods that go together are gone by then, and what was read of their owner before that counts as old.
THINNED_SECONDS: Final = 2 * IMPATIENT_SECONDS
#: What others write on pods and no rule reads.
_NOT_OURS_TO_READ: Final = frozenset(
    {
        names.RECEIVED_RESOURCE_TYPE,
        names.SHARED_GPU_CONFIGMAP,
        names.NUMA_PREDICTED,
        names.NUMA_OBSERVED,
        names.GPU_GROUP_LABEL,
    }
)

log = structlog.get_logger(__name__)

#: Namespace and the uid of the direct owner, or of the pod if it has none.
WorkloadKey = tuple[str, str]


@dataclass(slots=True)
class _Wanted:
    """A group that a pass found, and the pods to be made its members."""

    pod_group: PodGroup
    members: list[tuple[Pod, str]] = field(default_factory=list)


class Reconciler:
    """Turns changes of pods into groups, while it runs; it may be run again."""

    def __init__(
        self,
        *,
        watches: Watches,
        cluster: LiveCluster,
        writer: Writer,
        assignments: Assignments,
        events: EventRecorder,
        options: GroupingOptions,
        registry: CollectorRegistry | None = None,
    ) -> None:
        registry = registry or CollectorRegistry()
        self._watches = watches
        self._cluster = cluster
        self._retrying = cluster.impatient()
        self._writer = writer
        #: What is told of pods instead of being written.
        self.assignments = assignments
        self._events = events
        self._options = options
        self._queue: WorkQueue[WorkloadKey] = WorkQueue("workloads", metrics=QueueMetrics(registry))
        #: Pods to be looked at, and when something was heard of them, by the clock of the cluster.
        self._dirty: dict[WorkloadKey, dict[str, float]] = {}
        self._backoffs: dict[WorkloadKey, Backoff] = {}
        self._failing: set[str] = set()
        self._told = Told()
        #: How many pods have been looked at, however it ended.
        self.looks = 0
        #: Pods looked at once more if nothing is heard, since what we read may be a second old.
        self._unlisted: set[str] = set()
        #: Pods that have a node and no group that exists: since when, on the clock of the event loop.
        self._adrift: dict[str, float] = {}
        self._outcomes = Counter(
            "kai_podgrouper_pods", "Pods looked at, by what became of them", ("outcome",), registry=registry
        )
        #: Groups that pods have gone from, by the workload of those.
        self._thinned: dict[WorkloadKey, dict[str, None]] = {}
        #: Pods whose owner may ask for something else than when it was read.
        self._doubtful: set[str] = set()
        assignments.late = self._write_after_all
        watches.pods.listen(self._heard_of_pod)
        watches.pod_groups.listen(self._heard_of_group)
        watches.covered = self._enqueue

    async def run(self, *, workers: int) -> None:
        """Look at every pod, then at each that changes, until cancelled."""
        with self.assignments.opened():
            for pod in self._watches.pods:
                self._enqueue(pod)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.assignments.run(), name="assignments")
                    tasks.create_task(self._queue.run(self._reconcile, workers=workers), name="workloads")
            finally:
                self._dirty.clear()
                self._thinned.clear()

    @property
    def _stands_by(self) -> bool:
        """Whether it does not run. Nothing is gathered then: it looks at every pod once it does."""
        return not self.assignments.open

    async def join(self) -> None:
        """Wait until nothing is left to do."""
        await self._queue.join()

    # --- what has to be looked at --------------------------------------------------------------
    def _heard_of_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._one_less(old)
                self._forget(old)
        elif old is None or self._matters(old, new):
            self._enqueue(new)

    def _one_less(self, gone: Pod) -> None:
        """One of those that are left is to be looked at: what became smaller has no pod that is new.

        Its group would go on asking for all, so that what runs of it would be given up as incomplete.
        """
        if self._stands_by:
            return
        group = gone.annotations.get(names.POD_GROUP_ANNOTATION) or self.assignments.group_of(gone.key)
        if group and gone.metadata.owner_references:
            key = _workload_of(gone)
            self._thinned.setdefault(key, {})[f"{gone.metadata.namespace}/{group}"] = None
            self._queue.add_after(key, THINNED_SECONDS)

    def _look_at_one_left(self, group: str) -> None:
        left = (pod for pod in self._members(group) if pod.metadata.deletion_timestamp is None)
        if (pod := next(left, None)) is not None:
            self._doubtful.add(pod.key)
            self._enqueue(pod)

    def _members(self, group: str) -> Iterator[Pod]:
        """The pods of a group (``namespace/name``), whether they say so or others were told."""
        yield from self._watches.members(group)
        yield from filter(None, map(self._watches.pods.get, self.assignments.members(group)))

    def _heard_of_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Of a group that is gone nobody pays for what its pods hold, and those that wait get no place."""
        if new is None and old is not None and not self._stands_by:
            for pod in self._members(old.key):
                if not pod.ends:
                    self._look_later(pod)

    def _write_after_all(self, key: str) -> None:
        """Nobody binds a pod with what was told of it."""
        pod = self._watches.pods.get(key)
        if pod is not None:
            self._enqueue(pod)

    def _look_later(self, pod: Pod) -> float:
        """Look again whether it is adrift; since when it is."""
        now = asyncio.get_running_loop().time()
        key = _workload_of(pod)
        self._mark(key, (pod,))
        self._queue.add_after(key, ADRIFT_SECONDS)
        return self._adrift.setdefault(pod.key, now)

    def _matters(self, old: Pod, new: Pod) -> bool:
        # Both take note of it.
        echo = self.assignments.heard_of(new) | self._writer.is_own_echo(old, new)
        ignored = _NOT_OURS_TO_READ | ({names.POD_GROUP_ANNOTATION, names.SUBGROUP_LABEL} if echo else set())
        return (
            _differ(old.labels, new.labels, ignored)
            or _differ(old.annotations, new.annotations, ignored)
            or old.metadata.owner_references != new.metadata.owner_references
            # Controllers open the gate when all that belongs to the pod exists.
            or old.spec.scheduling_gates != new.spec.scheduling_gates
        )

    def _enqueue(self, pod: Pod) -> None:
        if self._stands_by:
            return
        key = _workload_of(pod)
        self._unlisted.discard(pod.key)
        self._mark(key, (pod,))
        self._queue.add(key)

    def _mark(self, key: WorkloadKey, pods: Iterable[Pod]) -> None:
        now = self._cluster.now()
        for pod in pods:
            self._dirty.setdefault(key, {})[pod.key] = now

    def _forget(self, pod: Pod) -> None:
        self._writer.forget_pod(pod.key)
        self.assignments.forget(pod.key)
        self._failing.discard(pod.key)
        self._doubtful.discard(pod.key)
        self._unlisted.discard(pod.key)
        self._adrift.pop(pod.key, None)
        self._told.forget(pod.key)

    # --- looking at it -------------------------------------------------------------------------
    async def _reconcile(self, key: WorkloadKey) -> float | None:
        """1. Decide for each pod. 2. Write each group once. 3. Tell of its pods, or write on them.

        Gives the seconds until a retry.
        """
        for thinned in self._thinned.pop(key, ()):
            self._look_at_one_left(thinned)
        cluster = self._cluster.as_of(max(self._dirty.get(key, {}).values(), default=-math.inf))
        pods = self._take(key)
        failed: list[Pod] = []
        again: list[Pod] = []
        wanted: dict[str, _Wanted] = {}
        try:
            for pod in pods:
                membership = await self._decide(pod, cluster, failed, again)
                if membership is not None:
                    group = wanted.setdefault(membership.pod_group.key, _Wanted(membership.pod_group))
                    group.pod_group = membership.pod_group
                    group.members.append((pod, membership.sub_group))
            for group in wanted.values():
                await self._write(group, failed)
        except BaseException:
            self._mark(key, pods)  # a mistake of ours, or the end: the queue tries again
            raise
        finally:
            for pod in pods:
                if pod.key not in self._watches.pods:
                    self._forget(pod)  # it went while we looked at it, and nobody will tell of it again
        return self._settle(key, failed, again)

    def _take(self, key: WorkloadKey) -> list[Pod]:
        """The pods to look at, eldest first, so that what the youngest says counts, also after a restart."""
        found = (self._watches.pods.get(pod_key) for pod_key in self._dirty.pop(key, ()))
        pods = [pod for pod in found if pod is not None and self._watches.covers(pod.metadata.namespace)]
        return sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))

    async def _decide(
        self, pod: Pod, cluster: LiveCluster, failed: list[Pod], again: list[Pod]
    ) -> Membership | None:
        self.looks += 1
        if pod.key in self._failing or pod.key in self._doubtful:
            cluster = self._retrying
        adrift = False
        try:
            adrift = await self._is_adrift(pod)
            outcome = await group_pod(pod, cluster, self._options, adrift=adrift)
        except (ObjectNotFound, OwnerReplaced) as error:
            if not adrift and self._has_group(pod):
                self._leave_for_now(pod, error, failed)
            else:
                self._fail(pod, error, failed)
            return None
        except (GroupingError, kube.KubeError) as error:
            self._fail(pod, error, failed)
            return None
        except Exception as error:  # noqa: BLE001 (a defect over one pod must not keep others of its workload)
            self._fail_by_defect(pod, error, failed)
            return None
        if isinstance(outcome, LeftAlone):
            self._outcomes.labels("left alone").inc()
            say = log.info if outcome.reason == EXTERNAL else log.debug
            say(outcome.reason, pod=pod.key)
            return None
        for warning in outcome.warnings:
            self._events.emit(reference(PODS, pod), "Warning", REASON, warning)
        self._note(pod, outcome)
        self._advise(pod, outcome)
        if outcome.unlisted and pod.key not in self._unlisted:
            self._unlisted.add(pod.key)
            again.append(pod)
        else:
            self._unlisted.discard(pod.key)
        return outcome

    def _has_group(self, pod: Pod) -> bool:
        """Whether it says of which group it is, or others were told."""
        return bool(pod.annotations.get(names.POD_GROUP_ANNOTATION) or self.assignments.group_of(pod.key))

    async def _is_adrift(self, pod: Pod) -> bool:
        """Whether it has run for long without a group that exists, so that no queue is charged for it."""
        meta = pod.metadata
        group = pod.annotations.get(names.POD_GROUP_ANNOTATION, "")
        if not pod.holds_node or (group and self._cluster.pod_group(meta.namespace, group) is not None):
            self._adrift.pop(pod.key, None)
            return False
        now = asyncio.get_running_loop().time()
        since = self._adrift.get(pod.key)
        if since is None or now - since < ADRIFT_SECONDS:
            self._look_later(pod)
            return False
        return not group or await self._writer.is_gone(f"{meta.namespace}/{group}")

    def _note(self, pod: Pod, membership: Membership) -> None:
        """Log what was ignored, the same for a whole workload once."""
        workload = _owner_of(pod, membership)
        for note in (*membership.notes, membership.walk_note):
            if note and self._told.is_new(note, workload=workload, pod=pod.key):
                log.info("ignored on grouping", pod=pod.key, note=note)

    def _advise(self, pod: Pod, grouped: Membership) -> None:
        """Tell users of slips whose pods were made by a controller, which nobody could warn."""
        owners = grouped.pod_group.metadata.owner_references or ()
        workload = _owner_of(pod, grouped)
        for found in slips(pod, self._watches.priority_classes, self._options.queue_label_key):
            if not self._told.is_new(found.text, workload=workload, pod=pod.key):
                continue
            self._events.emit(reference(PODS, pod), "Warning", found.code, found.text)
            for owner in owners:
                if owner.uid != pod.metadata.uid:
                    about = ObjectReference(
                        api_version=owner.api_version,
                        kind=owner.kind,
                        namespace=pod.metadata.namespace,
                        name=owner.name,
                        uid=owner.uid,
                    )
                    self._events.emit(about, "Warning", found.code, f"pods: {found.text}")

    async def _write(self, wanted: _Wanted, failed: list[Pod]) -> None:
        try:
            await self._writer.apply(wanted.pod_group)
        except kube.KubeError as error:
            for pod, _ in wanted.members:
                self._fail(pod, error, failed)
            return
        name = wanted.pod_group.metadata.name
        async with asyncio.TaskGroup() as tasks:
            for pod, sub_group in wanted.members:
                if self._writer.is_member(pod, name, sub_group) or self.assignments.tell(
                    pod, name, sub_group
                ):
                    self._succeed(pod)
                else:
                    tasks.create_task(self._assign(pod, name, sub_group, failed))

    async def _assign(self, pod: Pod, group: str, sub_group: str, failed: list[Pod]) -> None:
        try:
            await self._writer.assign(pod, group, sub_group)
        except kube.KubeError as error:
            self._fail(pod, error, failed)
        else:
            self._succeed(pod)

    def _succeed(self, pod: Pod) -> None:
        self._outcomes.labels("grouped").inc()
        self._failing.discard(pod.key)
        self._doubtful.discard(pod.key)

    def _leave_for_now(self, pod: Pod, error: Exception, failed: list[Pod]) -> None:
        """It has its group, and something that is read for it is gone: tried again, and told to nobody.

        Most often its owner has been deleted, and it goes next. But it may come back, as what is made anew.
        """
        self._outcomes.labels("left alone").inc()
        log.debug(str(error), pod=pod.key)
        if pod.metadata.deletion_timestamp is None:
            self._doubtful.add(pod.key)
            failed.append(pod)

    def _fail(self, pod: Pod, error: Exception, failed: list[Pod]) -> None:
        self._outcomes.labels("failed").inc()
        self._failing.add(pod.key)
        failed.append(pod)
        if _is_for_the_user(error):
            self._events.emit(reference(PODS, pod), "Warning", REASON, _text(error))

    def _fail_by_defect(self, pod: Pod, error: Exception, failed: list[Pod]) -> None:
        """A mistake of ours: its traceback is in the log once, and the pod's owner is told all the same."""
        if pod.key not in self._failing:
            log.error("pod cannot be grouped", pod=pod.key, exc_info=error)
        told = (
            f"grouping failed over it ({type(error).__name__}: {error}); please report this with its manifest"
        )
        self._fail(pod, GroupingError(told[:_SHOWN]), failed)

    def _settle(self, key: WorkloadKey, failed: list[Pod], again: list[Pod]) -> float | None:
        self._mark(key, (*failed, *again))
        if not failed:
            self._backoffs.pop(key, None)
            return _SECOND_LOOK_SECONDS if again else None
        backoff = self._backoffs.setdefault(
            key, Backoff(initial=_FIRST_RETRY_SECONDS, maximum=_LONGEST_RETRY_SECONDS)
        )
        delay = backoff.next()
        if failing := sum(pod.key in self._failing for pod in failed):
            log.info("pods not grouped", workload=key, pods=failing, retry_seconds=round(delay, 2))
        return delay


def slips(pod: Pod, priority_classes: Collection[str], queue_label_key: str) -> Iterator[Finding]:
    """What is wrong with a pod's labels and annotations."""
    yield from metadata.findings(pod.labels, pod.annotations, queue_label_key=queue_label_key)
    wanted = pod.labels.get(names.PRIORITY_CLASS_LABEL, "")
    what = f"priority class of label {names.PRIORITY_CLASS_LABEL}"
    yield from membership.priority_findings(what, wanted, priority_classes)


def _owner_of(pod: Pod, membership: Membership) -> str:
    """The uid of the workload that the pod's group is made for."""
    owners = membership.pod_group.metadata.owner_references
    return owners[0].uid if owners else pod.metadata.uid


def _workload_of(pod: Pod) -> WorkloadKey:
    owners = pod.metadata.owner_references
    return pod.metadata.namespace, owners[0].uid if owners else pod.metadata.uid


def _differ(old: dict[str, str], new: dict[str, str], ignored: frozenset[str] | set[str]) -> bool:
    if old == new:
        return False
    return any(
        old.get(key) != new.get(key)
        for key in old.keys() | new.keys()
        if key not in ignored and not is_gpu_group_label(key)
    )


def _is_for_the_user(error: Exception) -> bool:
    """Conflicts pass, and an API server in trouble is nothing that the pod's owner can mend."""
    if isinstance(error, kube.KubeError):
        return isinstance(error, kube.Invalid | kube.Forbidden | kube.BadRequest | kube.NotFound)
    return True


def _text(error: Exception) -> str:
    return error.message if isinstance(error, kube.ApiError) else str(error)
