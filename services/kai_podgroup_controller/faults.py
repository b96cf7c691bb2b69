"""Telling owners of objects with which scheduling does not go on: an event on each, a condition on pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.kube import resources
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.resources import PODS, Resource
from kai.model import names
from kai.model.faults import INVALID_OBJECT, SET_ASIDE, Fault
from kai.wire.sessions import SessionUpdate
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.facts import WatchedGroup, WatchedPod

#: Reasons of conditions that are taken back when the fault is over.
FAULT_REASONS: Final = (INVALID_OBJECT, SET_ASIDE)
#: What such a pod says until a scheduler finds something else.
WELL_AGAIN: Final = "what was wrong with it is over; it waits to be scheduled"
_RESOURCES: Final = {each.kind: each for each in vars(resources).values() if isinstance(each, Resource)}


class FaultBook:
    """What the schedulers cannot take in now, by scheduler (shard)."""

    def __init__(self, cluster: Cluster, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._faults: dict[str, dict[tuple[str, str], Fault]] = {}

    def take(self, shard: str, update: SessionUpdate) -> set[str]:
        """Take in an update of a shard's scheduler, and tell what is new; the pod groups that it concerns."""
        first = shard not in self._faults
        known = {} if update.full else self._faults.get(shard, {})
        before = self._faults.get(shard, {})
        self._faults[shard] = known = known | {(each.kind, each.key): each for each in update.faults}
        for cured in update.cured:
            known.pop(cured, None)
        for fault in update.faults:
            if before.get((fault.kind, fault.key)) != fault:
                self._tell(fault, inherited=first)
        changed = {key for key, fault in (before | known).items() if before.get(key) != known.get(key)}
        self._cluster.faulty_pods = {
            fault.key: fault
            for faults in self._faults.values()
            for fault in faults.values()
            if fault.kind == PODS.kind and fault.reason in FAULT_REASONS
        }
        if update.version:  # of a scheduler that is gone nobody tells which pool it had
            self._cluster.faults_told.add(update.node_pool or names.DEFAULT_NODE_POOL)
        keys = {key for kind, key in changed if kind == PODS.kind}
        if update.full:
            keys |= {pod.key for pod in self._cluster.pods.values() if pod.scheduled[1] in FAULT_REASONS}
        pods = map(self._cluster.pods.get, keys)
        return {pod.group for pod in pods if pod is not None and pod.group}

    def _tell(self, fault: Fault, *, inherited: bool) -> None:
        """Tell of a fault, which a predecessor of ours may have done if it is ``inherited``."""
        resource = _RESOURCES.get(fault.kind)
        pod = self._cluster.pods.get(fault.key) if fault.kind == PODS.kind else None
        if resource is None:
            return
        if pod is not None and pod.scheduled == ("False", fault.reason, fault.message) and not inherited:
            return  # the pod shows it: we told it before
        namespace, _, name = fault.key.rpartition("/")
        about = ObjectReference(
            api_version=resource.api_version, kind=fault.kind, namespace=namespace, name=name, uid=fault.uid
        )
        self._recorder.emit(
            about, "Warning", fault.reason, fault.message, action="Scheduling", maybe_told=inherited
        )


def well_again(group: WatchedGroup, cluster: Cluster) -> Iterator[WatchedPod]:
    """The waiting pods of a group whose condition still tells of a fault that is over.

    Who was set aside only the scheduler knows that has the group.
    """
    if group.node_pool not in cluster.faults_told:
        return
    for pod in cluster.members(group.key):
        if pod.waits and pod.scheduled[1] in FAULT_REASONS and pod.key not in cluster.faulty_pods:
            yield pod


def faulty_pods(group: WatchedGroup, cluster: Cluster) -> Iterator[tuple[WatchedPod, Fault]]:
    """The waiting pods of a group that cannot be taken in."""
    if not cluster.faulty_pods:
        return
    for pod in cluster.members(group.key):
        fault = cluster.faulty_pods.get(pod.key)
        if fault is not None and fault.uid == pod.uid and pod.waits:
            yield pod, fault
