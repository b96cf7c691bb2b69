"""The operator as a process. One replica leads and works."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from kai.kube.events import EventRecorder
from kai.kube.lease import Term
from kai.kube.workqueue import QueueMetrics, WorkQueue
from kai.operands import read_grants
from kai.runtime import Host, freeze_garbage
from kai_operator.operands import KaiProduct
from kai_operator.product import Product
from kai_operator.prometheus import PrometheusMonitor
from kai_operator.reconciler import Reconciler
from kai_operator.settings import OperatorSettings
from kai_operator.status import Status
from kai_operator.vault import Vault
from kai_operator.watching import Watching, World
from kai_operator.writer import Writer

LEASE: Final = "kai-operator"
#: Changes come in bursts, such as the start of all pods.
_SETTLING_SECONDS: Final = 0.2
#: There is one installation.
_KEY: Final = "installation"

_log = structlog.get_logger(__name__)


class OperatorService:
    """Runs until it is told to stop. ``product`` is what it installs."""

    name = "operator"
    needs_cluster = True

    def __init__(self, settings: OperatorSettings, product: Product | None = None) -> None:
        self.settings = settings
        self._settling = timedelta(seconds=settings.settle_time)
        self._product = product or KaiProduct(
            namespace=settings.namespace,
            repository=settings.image_repository,
            tag=settings.image_tag,
            image_pull_secret=settings.image_pull_secret,
            settling=self._settling,
            grants=read_grants(settings.grants) if settings.grants else None,
        )

    async def run(self, host: Host) -> None:
        """Wait until we lead, if there are others, and keep the installation as it should be."""
        metrics, recorder = QueueMetrics(host.metrics), host.recorder(LEASE)

        async def work(term: Term | None = None) -> None:
            await self._work(host, metrics, recorder)

        lead = host.elector(LEASE).lead(work) if self.settings.leader_elect else work()
        await host.until_stopping(lead)

    async def _work(self, host: Host, metrics: QueueMetrics, recorder: EventRecorder) -> None:
        """One term of work."""
        queue: WorkQueue[str] = WorkQueue("installation", metrics=metrics, maximum_backoff=10.0)
        synced = asyncio.Event()

        def changed() -> None:
            if synced.is_set():
                queue.add_after(_KEY, _SETTLING_SECONDS)

        world = World(changed)
        watching = Watching(
            host.client, world, namespace=self.settings.namespace, secrets=self._product.secrets()
        )
        prometheus = PrometheusMonitor(changed)
        reconciler = self._reconciler(host, world, prometheus, recorder)
        host.health.add("synced", lambda: watching.synced)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watching.run(), name="watch")
                await watching.until_synced()
                freeze_garbage()
                _log.info("synced", shards=len(world.shards))
                synced.set()
                queue.add(_KEY)
                tasks.create_task(prometheus.run(), name="prometheus")
                tasks.create_task(queue.run(reconciler.reconcile, workers=1), name="reconcile")
        finally:
            host.health.remove("synced")
            host.end_term()

    def _reconciler(
        self, host: Host, world: World, prometheus: PrometheusMonitor, recorder: EventRecorder
    ) -> Reconciler:
        settings, client = self.settings, host.client
        writer = Writer(client, world.cache)
        return Reconciler(
            client,
            world,
            self._product,
            namespace=settings.namespace,
            writer=writer,
            vault=Vault(world.cache, writer, settling=self._settling),
            status=Status(client, recorder, world.take),
            prometheus=prometheus,
            resync=settings.resync_period,
            clock=lambda: datetime.now(UTC),
        )
