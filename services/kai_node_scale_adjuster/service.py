"""The node-scale-adjuster: watch who waits for parts of GPUs, and keep scaling pods for them.

One replica leads and works.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from kai.kube.events import EventRecorder
from kai.kube.lease import Term
from kai.kube.reflector import Reflector
from kai.kube.resources import PODS
from kai.kube.workqueue import QueueMetrics, WorkQueue
from kai.model.objects import Pod
from kai.runtime import Host
from kai_node_scale_adjuster.adjuster import Adjuster, AdjusterMetrics
from kai_node_scale_adjuster.adjustment import Rules
from kai_node_scale_adjuster.cluster import Cluster
from kai_node_scale_adjuster.objects import ScalingPod
from kai_node_scale_adjuster.scaling_pods import ScalingTemplate
from kai_node_scale_adjuster.settings import NodeScaleAdjusterSettings

LEASE: Final = "kai-node-scale-adjuster"
#: After a change so much time passes before scaling pods are looked at: changes come in company.
SETTLING_SECONDS: Final = 0.25
#: All scaling pods are decided together, so there is one thing to work on.
_ALL: Final = "scaling pods"

_log = structlog.get_logger(__name__)


class NodeScaleAdjusterService:
    """Runs until it is told to stop."""

    name = "node-scale-adjuster"
    needs_cluster = True

    def __init__(self, settings: NodeScaleAdjusterSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Work while we lead."""
        recorder = host.recorder()
        queues, metrics = QueueMetrics(host.metrics), AdjusterMetrics(host.metrics)

        async def work(term: Term | None = None) -> None:
            await Controller(host, self.settings, recorder, queues=queues, metrics=metrics).run()

        if self.settings.leader_elect:
            await host.until_stopping(host.elector(LEASE).lead(work))
        else:
            await host.until_stopping(work())


class Controller:
    """One term of work: follows the pods, and adjusts after each change."""

    def __init__(
        self,
        host: Host,
        settings: NodeScaleAdjusterSettings,
        recorder: EventRecorder,
        *,
        queues: QueueMetrics,
        metrics: AdjusterMetrics,
    ) -> None:
        self._host = host
        self._metrics = metrics
        self._queue: WorkQueue[str] = WorkQueue("scaling pods", metrics=queues)
        self._cluster = Cluster(app_label=settings.scaling_pod_app_label, concern=self._concern)
        self._adjuster = Adjuster(
            host.client,
            self._cluster,
            rules=_rules(settings),
            template=_template(settings),
            events=recorder,
            metrics=metrics,
        )
        # The server tells of a pod that gets a node as of one that goes.
        ours = f"spec.schedulerName={settings.scheduler_name},spec.nodeName="
        self._reflectors: list[tuple[Reflector[Any], Any]] = [
            (Reflector(host.client, PODS, Pod, field_selector=ours), self._cluster.pod_sink),
            (
                Reflector(host.client, PODS, ScalingPod, namespace=settings.scale_adjust_namespace),
                self._cluster.scaling_sink,
            ),
        ]

    async def run(self) -> None:
        """Work until cancelled."""
        self._host.health.add("synced", self._is_synced)
        self._host.health.note("scaling pods", self._refusal)
        try:
            async with asyncio.TaskGroup() as tasks:
                for number, (reflector, sink) in enumerate(self._reflectors):
                    tasks.create_task(reflector.run(sink), name=f"watch pods {number}")
                for reflector, _ in self._reflectors:
                    await reflector.synced.wait()
                _log.info("synced", waiting=len(self._cluster.waiting), scaling=len(self._cluster.scaling))
                self._queue.add(_ALL)
                tasks.create_task(self._queue.run(self._adjust, workers=1))
        finally:
            self._host.health.remove("synced")
            self._adjuster.refusal = ""
            self._metrics.leave()

    def _is_synced(self) -> bool:
        return all(reflector.synced.is_set() for reflector, _ in self._reflectors)

    def _refusal(self) -> str | None:
        return self._adjuster.refusal or None

    def _concern(self) -> None:
        if self._is_synced():
            self._queue.add_after(_ALL, SETTLING_SECONDS)

    async def _adjust(self, key: str) -> float | None:
        return await self._adjuster.adjust()


def _rules(settings: NodeScaleAdjusterSettings) -> Rules:
    return Rules(
        memory_ratio=settings.gpu_memory_to_fraction_ratio,
        cool_down=settings.cool_down,
        patience=settings.scale_up_patience,
        stuck_after=settings.stuck_after,
        most_waiting=settings.max_waiting_per_namespace,
    )


def _template(settings: NodeScaleAdjusterSettings) -> ScalingTemplate:
    return ScalingTemplate(
        namespace=settings.scale_adjust_namespace,
        image=settings.scaling_pod_image,
        image_pull_policy=settings.scaling_pod_image_pull_policy,
        app_label=settings.scaling_pod_app_label,
        service_account=settings.scaling_pod_service_account,
    )
