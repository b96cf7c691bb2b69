"""The NUMA placement exporter: one on each node, which asks the kubelet there again and again.

It writes an annotation when it changes, and nothing where all is as it was. After a restart, and now and
then, it looks at what pods say, and puts right what is not so.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from kai.kube.backoff import Backoff
from kai.kube.errors import KubeError, Unauthorized
from kai.runtime import FatalError, Host
from kai_numa_placement_exporter.exporter import Exporter, ExporterMetrics
from kai_numa_placement_exporter.kubelet import Kubelet, KubeletError
from kai_numa_placement_exporter.settings import NumaPlacementExporterSettings
from kai_numa_placement_exporter.sysfs import NoTopology, zones_by_cpu

_log = structlog.get_logger(__name__)


class NumaPlacementExporterService:
    """Runs until it is told to stop."""

    name = "numa-placement-exporter"
    needs_cluster = True

    def __init__(self, settings: NumaPlacementExporterSettings) -> None:
        self.settings = settings
        self._trouble: str | None = "the kubelet was not asked yet"

    async def run(self, host: Host) -> None:
        """Ask and write.

        Raises:
            FatalError: the node has no NUMA zones that we could know.
        """
        try:
            zones = zones_by_cpu(Path(self.settings.sysfs_root))
        except NoTopology as error:
            raise FatalError(str(error)) from error
        _log.info("zones known", cpus=len(zones), zones=len(set(zones.values())))
        host.health.add("kubelet", lambda: self._trouble)
        metrics = ExporterMetrics(host.metrics)
        async with Kubelet(self.settings.pod_resources_socket) as kubelet:
            exporter = Exporter(
                host.client, kubelet, node=self.settings.node_name, zones=zones, metrics=metrics
            )
            await host.until_stopping(self._follow(exporter, metrics))

    async def _follow(self, exporter: Exporter, metrics: ExporterMetrics) -> None:
        """Look, for ever; more seldom while somebody does not answer."""
        clock = asyncio.get_running_loop().time
        settings, look_at_pods_at = self.settings, clock()
        backoff = Backoff(initial=settings.poll_interval, maximum=max(30.0, settings.poll_interval))
        while True:
            try:
                if clock() >= look_at_pods_at:
                    await exporter.look_at_pods()
                    look_at_pods_at = clock() + (settings.drift_resync_interval or float("inf"))
                await exporter.look_at_kubelet()
            except Unauthorized:
                raise
            except (KubeletError, KubeError) as error:
                self._told(str(error))
                metrics.looks.labels("failed").inc()
                pause = backoff.next()
            else:
                self._told(None)
                metrics.looks.labels("done").inc()
                backoff.reset()
                pause = settings.poll_interval
            await asyncio.sleep(pause)

    def _told(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            _log.warning("no placements for now", error=trouble)
        self._trouble = trouble
