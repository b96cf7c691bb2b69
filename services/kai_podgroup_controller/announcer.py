"""Events for users, from what a session decided and found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.resources import POD_GROUPS, PODS
from kai.model.decisions import Eviction, Nomination, Outcome, PodGroupOutcome
from kai.model.objects import OwnerReference
from kai.wire.sessions import SessionUpdate
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.conditions import UNSCHEDULABLE, shown_by, shown_since
from kai_podgroup_controller.facts import WatchedGroup, WatchedPod
from kai_podgroup_controller.outcomes import News
from kai_podgroup_controller.pods import unschedulable_pods
from kai_podgroup_controller.verdicts import Heard

#: Pods of an evicted gang that are named beside the first.
_NAMED: Final = 4
#: So long after a condition its event may have waited behind other writes, and been lost with its process.
_BEHIND: Final = timedelta(minutes=2)


class Announcer:
    """Turns what sessions did and found into events."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventRecorder,
        *,
        announced: dict[str, tuple[int, int]] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._now = now
        #: Epoch and version of the last session whose evictions this process announced, by shard.
        self._announced = {} if announced is None else announced
        #: Pods (uids) that were there when it was announced why their group waits, by group.
        self._told: dict[str, set[str]] = {}

    def forget(self, group: str) -> None:
        """It is gone."""
        self._told.pop(group, None)

    def announce(self, update: SessionUpdate) -> None:
        """Announce what a session did, and whom sessions evicted to which nobody may have listened."""
        epoch, last = self._announced.get(update.shard, (0, 0))
        for version, evictions in (*update.kept, (update.version, update.evictions)):
            if epoch != update.epoch or version > last:
                self._all_evicted(evictions, session=f"{update.shard}/{update.epoch}/{version}")
        if update.version:
            self._announced[update.shard] = (update.epoch, update.version)
        for nomination in update.nominations:
            self._pipelined(nomination)

    def _all_evicted(self, evictions: Sequence[Eviction], *, session: str) -> None:
        gangs: dict[tuple[str, str, str], list[Eviction]] = {}
        for each in evictions:
            gangs.setdefault((each.pod.pod_group, each.action, each.evictor), []).append(each)
        for gang in gangs.values():
            self._evicted(gang, session=session)

    def _evicted(self, evictions: Sequence[Eviction], *, session: str) -> None:
        """Pods of one group go for one reason: one event, on the group and on the workload that it is of.

        It is named after the session, so that it is the same where a predecessor of ours announced it.
        """
        eviction = evictions[0]
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
        others = [each.pod.name for each in evictions[1:]]
        message = eviction.message
        if others:
            message += f", and with it {len(others)} more of its pods: {_some(others)}"
        about = [_group(group)] if group.owner is None else [_group(group), _owner(group, group.owner)]
        for regarding in about:
            self._recorder.emit(
                regarding, "Normal", "Evict", message, annotations, action="Evicting", occurrence=session
            )

    def _pipelined(self, nomination: Nomination) -> None:
        pod = self._cluster.find_pod(nomination.pod)
        if pod is not None:
            message = f"pod {pod.key} waits for resources that are being released on node {nomination.node}"
            self._recorder.emit(_pod(pod), "Normal", "Pipelined", message, action="Scheduling")

    def announce_outcome(
        self, group: WatchedGroup, outcome: PodGroupOutcome, news: News, *, message: str
    ) -> None:
        """Announce what a session found about a group, of which the user is told so.

        Of what may have been announced before our time only that is repeated which the objects do not show,
        or came to show so lately that its event may have been lost; so a restart announces nothing twice.
        """
        inherited = news.found_earlier and group.key in self._cluster.inherited
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
            case Outcome.UNSCHEDULABLE:
                self._unschedulable_group(group, message, inherited=inherited)
        told = self._told[group.key] = set()
        for pod, text in unschedulable_pods(group, outcome, self._cluster):
            told.add(pod.uid)
            if not (inherited and pod.scheduled[2] == text) or self._lately_shown(group):
                self._unschedulable(pod, text, maybe_told=inherited)

    def announce_to_more(self, group: WatchedGroup, outcome: PodGroupOutcome) -> None:
        """Announce the same outcome of pods that say only now that they are of the group."""
        told = self._told.get(group.key)
        if told is None:
            return
        for pod, text in unschedulable_pods(group, outcome, self._cluster):
            if pod.uid not in told:
                told.add(pod.uid)
                if pod.scheduled[2] != text:
                    self._unschedulable(pod, text)

    def announce_verdict(
        self, group: WatchedGroup, outcome: PodGroupOutcome, heard: Heard, *, message: str
    ) -> None:
        """Announce another verdict behind the same outcome, if it was not announced before our time."""
        inherited = heard is Heard.FIRST and group.key in self._cluster.inherited
        if outcome.outcome is Outcome.UNSCHEDULABLE:
            self._unschedulable_group(group, message, inherited=inherited)
        elif outcome.outcome is Outcome.NOT_READY and not inherited:
            self._about(group, "NotReady", message)

    def _lately_shown(self, group: WatchedGroup) -> bool:
        since = shown_since(group)
        return since is not None and self._now() - since <= _BEHIND

    def _unschedulable_group(self, group: WatchedGroup, message: str, *, inherited: bool) -> None:
        if not (inherited and shown_by(group) == message) or self._lately_shown(group):
            self._about(group, UNSCHEDULABLE, message, maybe_told=inherited)

    def _unschedulable(self, pod: WatchedPod, text: str, *, maybe_told: bool = False) -> None:
        self._recorder.emit(
            _pod(pod), "Warning", UNSCHEDULABLE, text, action="Scheduling", maybe_told=maybe_told
        )

    def _about(self, group: WatchedGroup, reason: str, message: str, *, maybe_told: bool = False) -> None:
        self._recorder.emit(
            _group(group), "Normal", reason, message, action="Scheduling", maybe_told=maybe_told
        )


def _some(pods: Sequence[str]) -> str:
    more = len(pods) - _NAMED
    return ", ".join(pods[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _owner(group: WatchedGroup, owner: OwnerReference) -> ObjectReference:
    return ObjectReference(
        api_version=owner.api_version,
        kind=owner.kind,
        namespace=group.namespace,
        name=owner.name,
        uid=owner.uid,
    )


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
