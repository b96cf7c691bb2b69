"""Pods leave nodes with ``NoExecute`` taints that they do not tolerate, or no longer than they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kai.kube import resources
from kai.kube.client import PatchKind
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.workqueue import WorkQueue
from kai.model.objects import Node, Taint
from kai.model.rules.taints import tolerates
from kai.snapshot.times import rfc3339
from kai_local.controllers.actions import Delete, Patch
from kai_local.controllers.actor import Actor
from kai_local.parts.disruptions import disruption
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import Watches

_NO_EXECUTE = "NoExecute"


def stays_for(pod: LocalPod, taints: Iterable[Taint]) -> float | None:
    """Seconds for which a pod may stay on a node with these taints; ``None`` where it may for ever."""
    limits: list[float] = []
    for taint in taints:
        if taint.effect != _NO_EXECUTE:
            continue
        matching = [each for each in pod.spec.tolerations or () if tolerates(each, taint)]
        if not matching:
            return 0.0
        limits += [max(0, limit) for each in matching if (limit := each.toleration_seconds) is not None]
    return min(limits, default=None)


class TaintEvictions:
    """Deletes the pods that have to leave. The stores are kept by somebody else."""

    def __init__(
        self, watches: Watches, actor: Actor, events: EventRecorder, clock: Callable[[], float]
    ) -> None:
        self._pods, self._nodes = watches.pods, watches.nodes
        self._actor = actor
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue("taints")
        self._events = events
        #: Since when pods are on nodes where they may not stay for ever, by uid.
        self._since: dict[str, float] = {}
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)

    async def run(self) -> None:
        """Go on until cancelled."""
        await self._queue.run(self._work, workers=2)

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        if new is None and old is not None:
            self._since.pop(old.metadata.uid, None)
        elif new is not None and _repels(self._nodes.get(new.spec.node_name)):
            self._queue.add(new.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None and (_repels(old) or _repels(new)):
            for pod in self._pods.by_index("node", node.metadata.name):
                self._queue.add(pod.key)

    async def _work(self, key: str) -> float | None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.terminating:
            return None
        uid, limit = pod.metadata.uid, stays_for(pod, node.spec.taints or ())
        if limit is None:
            self._since.pop(uid, None)
            return None
        remaining = self._since.setdefault(uid, self._clock()) + limit - self._clock()
        if remaining > 0:
            return remaining
        about = ObjectReference("v1", "Pod", pod.metadata.namespace, pod.metadata.name, uid)
        self._events.emit(about, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        await self._actor.carry_out([_marked(pod, self._clock())], uid)
        await self._actor.carry_out([Delete.of(resources.PODS, pod)], uid)
        return None


def _marked(pod: LocalPod, now: float) -> Patch:
    """Say of a pod that it does not end by itself."""
    meta = pod.metadata
    condition = disruption(
        "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", at=rfc3339(now)
    )
    patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
    return Patch(resources.PODS, meta.namespace, meta.name, patch, "status", PatchKind.STRATEGIC)


def _repels(node: Node | None) -> bool:
    return node is not None and any(taint.effect == _NO_EXECUTE for taint in node.spec.taints or ())
