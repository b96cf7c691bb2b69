"""Pods as they will be once their annotation says what the pod-grouper has told of them already.

It stands between the watch of pods and whatever takes their changes in, which so sees no difference: a pod
comes with its group, whoever knew that first.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from kai.kube.reflector import Removed, Sink, Unreadable, Upserted
from kai.model import names
from kai.model.ids import PodUid
from kai.model.objects import Pod
from kai.snapshot.pods import in_group
from kai.wire.assignments import Assignment, AssignmentNews

#: Assignments kept at most. The pod-grouper annotates within seconds what waits, so there never are so many.
MOST: Final = 200_000

_log = structlog.get_logger(__name__)


class Assignments:
    """A sink for the reflector of pods. ``sink`` is told the same, of pods of ours with their group."""

    def __init__(self, sink: Sink, *, scheduler_name: str, most: int = MOST) -> None:
        self._sink = sink
        self._scheduler_name = scheduler_name
        self._most = most
        #: Of pods that are not in the watch yet, too.
        self._told: dict[PodUid, Assignment] = {}
        #: Pods of ours without the annotation, as the watch told them last, by key.
        self._bare: dict[str, Pod] = {}
        self._full = False

    @property
    def kept(self) -> int:
        """How many are remembered."""
        return len(self._told)

    def __call__(self, change: Any) -> None:
        """Take in a change that the watch tells."""
        match change:
            case Upserted(pod, old_known):
                change = Upserted(self._completed(pod), old_known)
            case Removed(key, uid, _):
                self._leave(key)
                self._told.pop(PodUid(uid), None)
            case Unreadable(key, _, _):
                self._bare.pop(key, None)
        self._sink(change)

    def take(self, news: AssignmentNews) -> None:
        """Take in what the pod-grouper tells; the pods that it concerns are told again."""
        if news.anew:  # of pods that we know we go on to believe it, until they say something themselves
            self._told = {uid: each for uid, each in self._told.items() if self._pod_of(each) is not None}
        for each in news.told:
            if self._told.get(each.uid) != each and self._has_room_for(each):
                self._told[each.uid] = each
                if (pod := self._pod_of(each)) is not None:
                    self._sink(Upserted(in_group(pod, each.pod_group), True))
        for uid in news.forgotten:
            known = self._told.get(uid)
            # Our watch may be behind: it will tell why.
            if known is not None and self._pod_of(known) is None:
                del self._told[uid]
        self._full = self._full and len(self._told) >= self._most

    def _completed(self, pod: Pod) -> Pod:
        if pod.spec.scheduler_name != self._scheduler_name:
            return pod
        uid = PodUid(pod.metadata.uid)
        before = self._bare.get(pod.key)
        if before is not None and before.metadata.uid != uid:
            self._leave(pod.key)
        if names.POD_GROUP_ANNOTATION in pod.annotations:
            self._leave(pod.key)
            self._told.pop(uid, None)
            return pod
        self._bare[pod.key] = pod
        told = self._told.get(uid)
        return in_group(pod, told.pod_group) if told is not None else pod

    def _leave(self, key: str) -> None:
        """The pod that we knew by this key is gone, or is complete."""
        pod = self._bare.pop(key, None)
        if pod is not None:
            self._told.pop(PodUid(pod.metadata.uid), None)

    def _pod_of(self, assignment: Assignment) -> Pod | None:
        pod = self._bare.get(assignment.key)
        return pod if pod is not None and pod.metadata.uid == assignment.uid else None

    def _has_room_for(self, assignment: Assignment) -> bool:
        if len(self._told) < self._most or assignment.uid in self._told:
            return True
        if not self._full:
            self._full = True
            _log.error(
                "too many assignments of pods to groups: the others wait for their annotation",
                most=self._most,
                remedy="look in the log of the pod-grouper why it does not annotate pods",
            )
        return False
