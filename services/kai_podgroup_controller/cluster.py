"""The pod groups and pods that there are, and which of them a change concerns.

Every sink takes changes of a reflector and asks for the concerned pod groups to be looked at. What we
wrote ourselves is taken in from the answer, so that nothing is written twice while the watch is late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from kai.kube.reflector import Change, Removed, Unreadable, Upserted
from kai.model import duration
from kai.model.decisions import PodRef
from kai.model.dra import ResourceClaim
from kai.model.faults import Fault
from kai.model.objects import Node, PodGroup, PriorityClass, Queue
from kai.model.rules.device_claims import claimed_gpus
from kai.model.rules.gpus import gpu_memory_mib
from kai_podgroup_controller.accounting import Surroundings
from kai_podgroup_controller.facts import (
    PodRecord,
    WatchedGroup,
    WatchedPod,
    watched_group,
    watched_pod,
)


class Cluster:
    """What the controller knows. ``concern`` is called with the key of every group to be looked at."""

    def __init__(self, *, node_pool_label_key: str, concern: Callable[[str], None]) -> None:
        self.groups: dict[str, WatchedGroup] = {}
        self.pods: dict[str, WatchedPod] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        #: Pods that a scheduler cannot take in, by key.
        self.faulty_pods: dict[str, Fault] = {}
        #: Node pools whose scheduler has told what is wrong with whom.
        self.faults_told: set[str] = set()
        #: Groups that a predecessor of ours may have told users about.
        self.inherited: set[str] = set()
        self._members: dict[str, dict[str, WatchedPod]] = {}
        #: Groups that had pods and have none now, with the uid of the last one.
        self._emptied: dict[str, str] = {}
        self._gpu_memory_mib: dict[str, int] = {}
        self._claims: dict[str, tuple[str, int]] = {}
        self._claimants: dict[str, set[str]] = {}
        #: Groups by node and pod, of pods with parts of GPUs: a node must not be held against all pods.
        self._sharers: dict[str, dict[str, str]] = {}
        self._min_runtime_queues: set[str] = set()
        self._node_pool_label_key = node_pool_label_key
        self._concern = concern
        self.surroundings = Surroundings(self._gpu_memory_mib.get, self._claims.get)

    def members(self, group: str) -> Iterable[WatchedPod]:
        """The pods of a group."""
        return self._members.get(group, {}).values()

    def is_ending(self, group: str) -> bool:
        """Whether its last pods are going or gone, so that it may be about to go as well."""
        members = self._members.get(group)
        if members is None:
            return group in self._emptied
        return all(pod.going or pod.evicted for pod in members.values())

    def is_foretold(self, group: str) -> bool:
        """Whether some of its pods are only said to be going, by a scheduler that evicts them."""
        return any(pod.evicted and not pod.going for pod in self.members(group))

    def goes_with_its_pods(self, group: WatchedGroup) -> bool:
        """Whether it ends and belongs to those very pods, so that it is going to be collected with them."""
        if not group.owner_pods or not self.is_ending(group.key):
            return False
        last = self._emptied.get(group.key)
        known = {last} if last else {pod.uid for pod in self.members(group.key)}
        return group.owner_pods <= known

    @property
    def min_runtime_matters(self) -> bool:
        """Whether some queue protects what started a short time ago."""
        return bool(self._min_runtime_queues)

    def begin(self) -> None:
        """Everything that exists has been told: what comes from now on is new."""
        self.inherited = set(self.groups)

    # --- sinks ---------------------------------------------------------------------------------
    def group_sink(self, change: Change[PodGroup]) -> None:
        """Take in a change of a pod group."""
        if isinstance(change, Upserted):
            self.take_group(change.obj, listed=change.listed)
            self._concern(change.obj.key)
        elif isinstance(change, Removed):
            self.groups.pop(change.obj_key, None)
            self.inherited.discard(change.obj_key)
            self._emptied.pop(change.obj_key, None)
            self._concern(change.obj_key)
        elif isinstance(change, Unreadable) and (known := self.groups.get(change.obj_key)) is not None:
            # Its newest version is not known, and a write that asks for the known one would fail for ever.
            self.groups[change.obj_key] = replace(known, resource_version=0)

    def pod_sink(self, change: Change[PodRecord]) -> None:
        """Take in a change of a pod."""
        if isinstance(change, Upserted):
            self.take_pod(change.obj, listed=change.listed)
        elif isinstance(change, Removed):
            old = self.pods.pop(change.obj_key, None)
            if old is not None:
                self._leave(old)

    def node_sink(self, change: Change[Node]) -> None:
        """Take in a change of a node; only how much memory its GPUs have matters."""
        if isinstance(change, Upserted):
            name, memory = change.obj.metadata.name, gpu_memory_mib(change.obj.labels)
        elif isinstance(change, Removed):
            name, memory = change.obj_key, None
        else:
            return
        if self._gpu_memory_mib.get(name) == memory:
            return
        if memory is None:
            del self._gpu_memory_mib[name]
        else:
            self._gpu_memory_mib[name] = memory
        for group in self._sharers.get(name, {}).values():
            self._concern(group)

    def claim_sink(self, change: Change[ResourceClaim]) -> None:
        """Take in a change of a resource claim."""
        if isinstance(change, Upserted):
            key, gpus = change.obj.key, claimed_gpus(change.obj)
        elif isinstance(change, Removed):
            key, gpus = change.obj_key, None
        else:
            return
        if self._claims.get(key) == gpus:
            return
        if gpus is None:
            del self._claims[key]
        else:
            self._claims[key] = gpus
        for group in self._claimants.get(key, ()):
            self._concern(group)

    def priority_class_sink(self, change: Change[PriorityClass]) -> None:
        """Take in a change of a priority class; all groups that go by their class are concerned."""
        if isinstance(change, Upserted):
            self.priority_classes[change.obj.metadata.name] = change.obj
        elif isinstance(change, Removed):
            self.priority_classes.pop(change.obj_key, None)
        else:
            return
        for key, group in self.groups.items():
            if not group.preemptibility:
                self._concern(key)

    def queue_sink(self, change: Change[Queue]) -> None:
        """Take in a change of a queue; only whether it sets a minimum runtime matters."""
        if isinstance(change, Upserted):
            matters, name = _sets_min_runtime(change.obj), change.obj.metadata.name
        elif isinstance(change, Removed):
            matters, name = False, change.obj_key
        else:
            return
        before = self.min_runtime_matters
        (self._min_runtime_queues.add if matters else self._min_runtime_queues.discard)(name)
        if self.min_runtime_matters and not before:
            for key in self.groups:
                self._concern(key)

    # --- objects -------------------------------------------------------------------------------
    def take_group(self, group: PodGroup, *, listed: bool = False) -> None:
        """Take in a pod group, unless it is older than what is known and was not ``listed`` just now."""
        facts = watched_group(group, node_pool_label_key=self._node_pool_label_key)
        known = self.groups.get(facts.key)
        newer = known is None or known.uid != facts.uid or known.resource_version <= facts.resource_version
        if listed or newer:
            self.groups[facts.key] = facts

    def take_pod(self, pod: PodRecord, *, listed: bool = False) -> None:
        """The same for a pod."""
        facts = watched_pod(pod)
        old = self.pods.get(facts.key)
        if old is not None:
            if not listed and old.uid == facts.uid and old.resource_version > facts.resource_version:
                return
            self._leave(old)
            if old.group != facts.group:
                self._emptied.pop(old.group, None)  # its pod goes on elsewhere, so it ends with nobody
        self.pods[facts.key] = facts
        self._join(facts)

    def take_written_group(self, group: PodGroup) -> None:
        """Take in the answer to a write of ours, unless the watch has told that the group is gone."""
        known = self.groups.get(group.key)
        if known is not None and known.uid == group.metadata.uid:
            self.take_group(group)

    def take_written_pod(self, pod: PodRecord) -> None:
        """The same for a pod."""
        known = self.pods.get(pod.key)
        if known is not None and known.uid == pod.metadata.uid:
            self.take_pod(pod)

    def find_pod(self, ref: PodRef) -> WatchedPod | None:
        """The pod that a scheduler speaks of, and not a later one of the same name."""
        pod = self.pods.get(f"{ref.namespace}/{ref.name}")
        return pod if pod is not None and pod.uid == ref.uid else None

    def expect_end(self, ref: PodRef) -> None:
        """A scheduler evicts this pod: it will be going, though the watch does not say so yet."""
        pod = self.find_pod(ref)
        if pod is not None and not pod.going:
            self._put(replace(pod, evicted=True))

    def expect_no_end(self, group: str) -> None:
        """What schedulers evicted of it, and is not going by now, stays."""
        for pod in list(self.members(group)):
            if pod.evicted and not pod.going:
                self._put(replace(pod, evicted=False))

    def _put(self, pod: WatchedPod) -> None:
        self.pods[pod.key] = pod
        if pod.group in self._members:
            self._members[pod.group][pod.key] = pod

    def _join(self, pod: WatchedPod) -> None:
        if not pod.group:
            return
        self._members.setdefault(pod.group, {})[pod.key] = pod
        self._emptied.pop(pod.group, None)
        if pod.node and pod.share is not None:
            self._sharers.setdefault(pod.node, {})[pod.key] = pod.group
        for claim in pod.claims:
            self._claimants.setdefault(claim, set()).add(pod.group)
        self._concern(pod.group)

    def _leave(self, pod: WatchedPod) -> None:
        members = self._members.get(pod.group)
        if members is None:
            return
        members.pop(pod.key, None)
        if not members:
            del self._members[pod.group]
            if pod.group in self.groups:
                self._emptied[pod.group] = pod.uid
        self._leave_node(pod)
        for claim in pod.claims:
            self._release(claim, pod.group)
        self._concern(pod.group)

    def _leave_node(self, pod: WatchedPod) -> None:
        there = self._sharers.get(pod.node, {})
        there.pop(pod.key, None)
        if not there:
            self._sharers.pop(pod.node, None)

    def _release(self, claim: str, group: str) -> None:
        if any(claim in pod.claims for pod in self.members(group)):
            return
        groups = self._claimants.get(claim)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._claimants[claim]


def _sets_min_runtime(queue: Queue) -> bool:
    for text in (queue.spec.preempt_min_runtime, queue.spec.reclaim_min_runtime):
        try:
            if text and duration.parse(text) > 0:
                return True
        except duration.InvalidDuration:
            continue
    return False
