"""Carries out what was decided of scaling pods; whatever fails is decided anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from kai.kube import errors
from kai.kube.client import KubeClient, PatchKind
from kai.kube.events import EventRecorder, EventType, reference
from kai.kube.resources import PODS
from kai_node_scale_adjuster.adjustment import Adjustment, Creation, Removal, Rules, adjust, namespace_of
from kai_node_scale_adjuster.cluster import Cluster
from kai_node_scale_adjuster.objects import ScalingPod
from kai_node_scale_adjuster.scaling_pods import ScalingTemplate

#: After the API server did not make, delete or mark a scaling pod.
RETRY_SECONDS: Final = 30.0
#: One scaling pod is refused, and others may not be; a server that is away or busy refuses none.
_REFUSALS: Final = (errors.Forbidden, errors.Invalid, errors.BadRequest, errors.InternalError)
_MESSAGE: Final = "no node has enough free GPUs for the pods that wait for parts of some"

_log = structlog.get_logger(__name__)


class AdjusterMetrics:
    """What the adjuster sees and does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge(
            "kai_scale_adjuster_waiting_pods", "Pods that wait for parts of GPUs", registry=registry
        )
        self.scaling = Gauge("kai_scale_adjuster_scaling_pods", "Scaling pods", registry=registry)
        self.devices = Gauge(
            "kai_scale_adjuster_scaling_devices", "GPUs that scaling pods ask for", registry=registry
        )
        self.done = Counter(
            "kai_scale_adjuster_scaling_pod_changes",
            "Scaling pods made and removed",
            ("change", "result"),
            registry=registry,
        )

    def show(self, cluster: Cluster) -> None:
        """Tell how things stand."""
        self.waiting.set(len(cluster.waiting))
        self.scaling.set(len(cluster.scaling))
        self.devices.set(sum(pod.devices for pod in cluster.scaling.values()))

    def leave(self) -> None:
        """Tell of none: who leads next counts them, and nobody is to count them twice."""
        for gauge in (self.waiting, self.scaling, self.devices):
            gauge.set(0)


class Adjuster:
    """Keeps the scaling pods as they should be, one adjustment at a time."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        *,
        rules: Rules,
        template: ScalingTemplate,
        events: EventRecorder,
        metrics: AdjusterMetrics,
        now: Callable[[], float] = time.time,
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        """``now`` is compared with times of pods; ``passed`` goes on evenly, whatever a clock is set to."""
        self._client = client
        self._cluster = cluster
        self._rules = rules
        self._template = template
        self._events = events
        self._metrics = metrics
        self._now = now
        self._passed = passed
        #: When one was removed last, by the namespace of the pods that they stood for, while that counts.
        self._removed_at: dict[str, float] = {}
        #: By uid, the scaling pods that the API server did not let go when it was last asked to.
        self._undeletable: set[str] = set()
        #: By uid, the pods that wait for which it took no scaling pod when it was last asked to.
        self._refused: set[str] = set()
        #: Why the API server did not do what it was asked of scaling pods last; empty if it did.
        self.refusal = ""

    async def adjust(self) -> float | None:
        """Bring the scaling pods in line; seconds after which to look again, None if nothing is due.

        Raises:
            KubeError: the API server cannot be asked now.
        """
        wanted = self._wanted()
        removals = {removal.scaling.metadata.uid: await self._remove(removal) for removal in wanted.remove}
        self._undeletable = {uid for uid, refusal in removals.items() if refusal}
        creations = {creation.waiting.uid: await self._create(creation) for creation in wanted.create}
        waiting = {pod.uid for pod in self._cluster.waiting.values()}
        self._refused = (self._refused - creations.keys()) & waiting
        self._refused |= {uid for uid, refusal in creations.items() if refusal}
        refused = [*removals.values(), *creations.values()]
        self._metrics.show(self._cluster)
        refused += [await self._mark(pod) for pod in self._unmarked()]
        self.refusal = next(filter(None, refused), "")
        if not self.refusal:
            return wanted.again_in
        return min(RETRY_SECONDS, wanted.again_in or RETRY_SECONDS)

    def _wanted(self) -> Adjustment:
        passed = self._passed()
        ago = {name: passed - at for name, at in self._removed_at.items()}
        for name, seconds in ago.items():
            if seconds >= self._rules.cool_down:
                del self._removed_at[name]
        return adjust(
            self._cluster.waiting.values(),
            self._cluster.scaling.values(),
            rules=self._rules,
            now=self._now(),
            removed_ago=ago,
            taken=self._cluster.others,
            undeletable=self._undeletable,
            refused=self._refused,
        )

    async def _remove(self, removal: Removal) -> str:
        """Delete one; why it was refused, empty if it was not."""
        pod = removal.scaling
        try:
            await self._client.delete(
                PODS,
                pod.metadata.name,
                namespace=pod.metadata.namespace,
                uid=pod.metadata.uid,
                grace_seconds=0 if pod.ended or not pod.placed else None,
            )
        except (errors.NotFound, errors.Conflict):
            pass
        except _REFUSALS as error:
            self._metrics.done.labels("remove", "refused").inc()
            _log.warning("scaling pod not removed", pod=pod.key, error=str(error))
            return str(error)
        self._cluster.forget(pod.key, pod.metadata.uid)
        self._removed_at[namespace_of(pod.stands_for)] = self._passed()
        self._metrics.done.labels("remove", "done").inc()
        _log.info("scaling pod removed", pod=pod.key, of=pod.stands_for, reason=removal.reason)
        return ""

    async def _create(self, creation: Creation) -> str:
        """Make one; why it was refused, empty if it was not."""
        waiting = creation.waiting
        manifest, namespace = self._template.manifest(waiting, creation.name), self._template.namespace
        try:
            with self._cluster.making(f"{namespace}/{creation.name}"):
                made = await self._client.create(PODS, manifest, namespace=namespace, type=ScalingPod)
                self._cluster.take_made(made)
        except errors.AlreadyExists:
            return f"{creation.name} is there and has not been seen yet"
        except (*_REFUSALS, errors.NotFound) as error:
            self._metrics.done.labels("create", "refused").inc()
            _log.warning("scaling pod not made", pod=creation.name, of=waiting.key, error=str(error))
            self._tell(creation, "Warning", "ScaleUpRefused", f"no node can be asked for: {error}")
            return str(error)
        self._metrics.done.labels("create", "done").inc()
        _log.info("scaling pod made", pod=made.key, of=waiting.key, devices=waiting.share.devices)
        where = f"pod {made.key} asks for a node with {_gpus(waiting.share.devices)}"
        self._tell(creation, "Normal", "ScaleUpRequested", f"{where}, on behalf of this one")
        return ""

    def _unmarked(self) -> list[ScalingPod]:
        """Those just made, and those whose mark failed."""
        there = self._cluster.scaling.values()
        return [pod for pod in there if not (pod.marked or pod.placed or pod.ended or pod.going)]

    async def _mark(self, pod: ScalingPod) -> str:
        """Let a cluster autoscaler see that it fits nowhere; why that failed, empty if it did not.

        Whoever placed it meanwhile was quicker.
        """
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": _MESSAGE,
        }
        meta = pod.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": [condition]},
        }
        try:
            await self._client.patch(
                PODS,
                meta.name,
                patch,
                namespace=meta.namespace,
                subresource="status",
                kind=PatchKind.STRATEGIC,
            )
        except errors.ApiError as error:
            _log.info("scaling pod not marked", pod=pod.key, error=str(error))
            return f"no autoscaler sees {pod.key} yet: {error}"
        return ""

    def _tell(self, creation: Creation, kind: EventType, reason: str, text: str) -> None:
        self._events.emit(reference(PODS, creation.waiting.pod), kind, reason, text, action="ScalingUp")


def _gpus(count: int) -> str:
    return f"{count} free GPU{'s' if count > 1 else ''}"
