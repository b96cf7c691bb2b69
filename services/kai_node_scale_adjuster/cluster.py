"""Who waits for parts of GPUs, and which scaling pods there are, as the watches tell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from kai.kube.endings import Endings
from kai.kube.reflector import Change, Removed, Upserted
from kai.model import names
from kai.model.objects import Pod
from kai_node_scale_adjuster.objects import ScalingPod, WaitingPod, waiting_pod


class Cluster:
    """What the adjuster knows. ``concern`` is called after each change that may matter."""

    def __init__(self, *, app_label: str, concern: Callable[[], None]) -> None:
        self.waiting: dict[str, WaitingPod] = {}
        self.scaling: dict[str, ScalingPod] = {}
        #: Names of pods beside the scaling pods.
        self.others: set[str] = set()
        self._app_label = app_label
        self._concern = concern
        self._endings = Endings()

    def pod_sink(self, change: Change[Pod]) -> None:
        """Take in a change of a pod of our scheduler that has no node."""
        if isinstance(change, Upserted):
            key, found = change.obj.key, waiting_pod(change.obj)
        elif isinstance(change, Removed):
            key, found = change.obj_key, None
        else:
            return
        if found is not None:
            self.waiting[key] = found
        elif self.waiting.pop(key, None) is None:
            return
        self._concern()

    def scaling_sink(self, change: Change[ScalingPod]) -> None:
        """Take in a change of a pod in the namespace of scaling pods."""
        if isinstance(change, Upserted):
            self._take(change.obj)
        elif isinstance(change, Removed):
            self._endings.told(change.obj_key, change.uid)
            self.forget(change.obj_key, change.uid)
        else:
            return
        self._concern()

    def making(self, key: str) -> AbstractContextManager[None]:
        """While a scaling pod of this name is made, and until it is taken in."""
        return self._endings.writing(key)

    def take_made(self, pod: ScalingPod) -> None:
        """There is this pod, unless the watch has told as much, or that it is gone again."""
        if pod.key not in self.scaling and not self._endings.has_ended(pod.key, pod.metadata.uid):
            self._take(pod)

    def _take(self, pod: ScalingPod) -> None:
        if pod.labels.get(names.APP_LABEL) == self._app_label:
            self.scaling[pod.key] = pod
        else:
            self.others.add(pod.metadata.name)

    def forget(self, key: str, uid: str) -> None:
        """It is gone, unless another one has its name by now."""
        known = self.scaling.get(key)
        if known is not None and known.metadata.uid == uid:
            del self.scaling[key]
        self.others.discard(key.partition("/")[2])
