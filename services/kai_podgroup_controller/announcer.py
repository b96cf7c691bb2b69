"""Events for users, from what a session decided and found."""

from __future__ import annotations

from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.resources import POD_GROUPS, PODS
from kai.model.decisions import Eviction, Nomination, Outcome, PodGroupOutcome
from kai.wire.sessions import SessionUpdate
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.conditions import UNSCHEDULABLE, message_of
from kai_podgroup_controller.facts import WatchedGroup, WatchedPod
from kai_podgroup_controller.outcomes import News
from kai_podgroup_controller.pods import unschedulable_pods


class Announcer:
    """Turns what sessions did and found into events."""

    def __init__(self, cluster: Cluster, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder

    def announce(self, update: SessionUpdate) -> None:
        """Announce what a session did."""
        for eviction in update.evictions:
            self._evicted(eviction)
        for nomination in update.nominations:
            self._pipelined(nomination)

    def _evicted(self, eviction: Eviction) -> None:
        group = self._cluster.groups.get(eviction.pod.pod_group)
        if group is None:
            return
        annotations = {
            "num-evicted-pods": str(eviction.gang_size),
            "evictor-action-type": eviction.action,
        }
        namespace, _, name = eviction.evictor.partition("/")
        if name:
            annotations["evictor-pod-group-namespace"] = namespace
            annotations["evictor-pod-group-name"] = name
        self._recorder.emit(
            _group(group), "Normal", "Evict", eviction.message, annotations, action="Evicting"
        )

    def _pipelined(self, nomination: Nomination) -> None:
        pod = self._cluster.pods.get(f"{nomination.pod.namespace}/{nomination.pod.name}")
        if pod is not None:
            message = f"pod {pod.key} waits for resources that are being released on node {nomination.node}"
            self._recorder.emit(_pod(pod), "Normal", "Pipelined", message, action="Scheduling")

    def announce_outcome(self, group: WatchedGroup, outcome: PodGroupOutcome, news: News) -> None:
        """Announce what a session found about a group.

        Of what may have been announced before our time only that is repeated which the objects do not
        show, so that a restart announces nothing twice.
        """
        inherited = news.found_earlier and group.key in self._cluster.inherited
        message = message_of(group, outcome.message)
        if news.staleness and not inherited:
            self._about(group, "StaleJob", outcome.staleness)
        match outcome.outcome:
            case Outcome.SETTLED if outcome.explanations and not inherited:
                # Its pods run, and yet something is wrong.
                for found in outcome.explanations:
                    self._recorder.emit(
                        _group(group), "Warning", found.reason, found.message, action="Scheduling"
                    )
            case Outcome.NOT_READY if not inherited:
                self._about(group, "NotReady", message)
            case Outcome.UNSCHEDULABLE if not (inherited and _shows(group, message)):
                self._about(group, UNSCHEDULABLE, message)
        for pod, text in unschedulable_pods(group, outcome, self._cluster):
            if not (inherited and pod.scheduled[2] == text):
                self._recorder.emit(_pod(pod), "Warning", UNSCHEDULABLE, text, action="Scheduling")

    def _about(self, group: WatchedGroup, reason: str, message: str) -> None:
        self._recorder.emit(_group(group), "Normal", reason, message, action="Scheduling")


def _shows(group: WatchedGroup, message: str) -> bool:
    return bool(group.conditions) and group.conditions[-1].message == message


def _group(group: WatchedGroup) -> ObjectReference:
    return ObjectReference(
        api_version=POD_GROUPS.api_version,
        kind=POD_GROUPS.kind,
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
    )


def _pod(pod: WatchedPod) -> ObjectReference:
    return ObjectReference(
        api_version=PODS.api_version, kind=PODS.kind, namespace=pod.namespace, name=pod.name, uid=pod.uid
    )
