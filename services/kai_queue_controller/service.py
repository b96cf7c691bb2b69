"""The queue-controller: status, metrics and usage history of queues.

One replica leads and works; all know the queues and serve the webhook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import structlog
from prometheus_client import Counter

from kai.kube.errors import NotFound
from kai.kube.lease import Term
from kai.kube.reflector import Reflector
from kai.kube.resources import POD_GROUPS, QUEUES
from kai.kube.workqueue_metrics import ControllerMetrics, ControllerSeries
from kai.model.objects import Queue
from kai.runtime import Host, freeze_garbage
from kai.runtime.webhook import WebhookServer
from kai.session.cache import SessionCache
from kai.tls import CertificateFiles
from kai.validation.queues import QueueRules
from kai.validation.registration import VALIDATE_QUEUE
from kai.wire.sessions import NOTHING, SessionUpdate, take_each, watch_sessions
from kai.wire.shards import Shard, ShardFollower
from kai_queue_controller.metrics import ExtraLabels, QueueCollector
from kai_queue_controller.publisher import CONTROLLER, Publisher
from kai_queue_controller.queues import QueueBook
from kai_queue_controller.settings import QueueControllerSettings
from kai_queue_controller.shares import ShareBook
from kai_queue_controller.tree import PodGroupRecord
from kai_queue_controller.usage import UsageSampler, failure_counter
from kai_queue_controller.webhook import reviewer

LEASE = "kai-queue-controller"
#: For a look at one queue, while an API server waits for our answer to a review.
LIVE_READ_SECONDS = 3.0

_log = structlog.get_logger(__name__)


class QueueControllerService:
    """Runs until it is told to stop."""

    name = "queue-controller"
    needs_cluster = True

    def __init__(self, settings: QueueControllerSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Follow the queues, serve the webhook, and do the work while we lead."""
        queues = QueueBook()
        reflector = Reflector(host.client, QUEUES, Queue)
        host.health.add("queues", reflector.synced.is_set)
        work: list[Coroutine[Any, Any, None]] = [
            reflector.run(queues),
            self._lead(host, queues, reflector.synced),
        ]
        if self.settings.enable_webhook:
            work.append(self._webhook(host, queues).run())
        await host.until_stopping(*work)

    def _webhook(self, host: Host, queues: QueueBook) -> WebhookServer:
        rules = QueueRules(
            quotas=self.settings.enable_quota_validation,
            refuse_deletion=self.settings.refuse_queue_deletion,
        )

        async def live(name: str) -> Queue | None:
            try:
                return await host.client.get(QUEUES, name, type=Queue, deadline=LIVE_READ_SECONDS)
            except NotFound:
                return None

        return WebhookServer(
            {VALIDATE_QUEUE: reviewer(queues.by_name, rules, live)},
            listen=self.settings.webhook_listen,
            certificates=CertificateFiles.in_directory(self.settings.cert_dir),
            health=host.health,
            registry=host.metrics,
        )

    async def _lead(self, host: Host, queues: QueueBook, synced: asyncio.Event) -> None:
        lost = failure_counter(host.metrics)
        controller = ControllerMetrics(host.metrics).of(CONTROLLER)

        async def work(term: Term | None = None) -> None:
            await Controller(host, self.settings, queues, lost, controller).run()

        await synced.wait()  # who has read no queue keeps the Lease from nobody who has
        if self.settings.leader_elect:
            await host.elector(LEASE).lead(work)
        else:
            await work()


class Controller:
    """One term of work."""

    def __init__(
        self,
        host: Host,
        settings: QueueControllerSettings,
        queues: QueueBook,
        lost_samples: Counter,
        controller: ControllerSeries,
    ) -> None:
        self._host = host
        self._settings = settings
        self._queues = queues
        self._lost_samples = lost_samples
        self._publisher = Publisher(
            host.client,
            queues,
            interval=settings.status_interval,
            nodepool_label_key=settings.nodepool_label_key,
            controller=controller,
        )
        self._shares = ShareBook()

    async def run(self) -> None:
        """Work until cancelled."""
        groups = Reflector(self._host.client, POD_GROUPS, PodGroupRecord)
        self._host.health.add("synced", groups.synced.is_set)
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            stack.callback(self._host.health.remove, "synced")
            stack.callback(self._host.end_term)
            tasks.create_task(groups.run(self._publisher.pod_group_sink), name="watch podgroups")
            await groups.synced.wait()
            freeze_garbage()
            _log.info("synced", queues=len(self._queues.by_name))
            self._publish_metrics(stack)
            tasks.create_task(self._publisher.run(), name="publish")
            tasks.create_task(self._follow_shards(), name="follow shards")

    def _publish_metrics(self, stack: AsyncExitStack) -> None:
        """Only who leads tells them: a queue must not be counted twice."""
        settings, queues = self._settings, self._queues
        extra = ExtraLabels(
            settings.queue_label_to_metric_label, settings.queue_label_to_default_metric_value
        )
        collector = QueueCollector(
            lambda: queues.by_name, self._publisher.totals, prefix=settings.metrics_namespace, extra=extra
        )
        self._host.metrics.register(collector)
        stack.callback(self._host.metrics.unregister, collector)

    async def _follow_shards(self) -> None:
        settings = self._settings
        follower = ShardFollower(
            self._host.client, scheduler_name=settings.scheduler_name, told=settings.shards
        )

        async def work(shard: Shard) -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(shard), name=f"listen to {shard.lease}")
                if settings.redis_url:
                    tasks.create_task(self._record_usage(shard.name), name=f"usage of {shard.name}")

        # What a scheduler that is gone has found counts no more.
        await follower.run(work, gone=lambda shard: self._take(shard.name, NOTHING))

    async def _record_usage(self, shard: str) -> None:
        settings = self._settings
        async with SessionCache.connect(
            settings.redis_url, shard=shard, credentials=settings.redis_credentials
        ) as cache:
            await UsageSampler(
                cache,
                shares=lambda: self._shares.of(shard),
                capacity=lambda: self._shares.capacity(shard),
                interval=settings.usage_interval,
                retention=settings.usage_retention,
                failures=self._lost_samples,
            ).run()

    async def _listen(self, shard: Shard) -> None:
        """Take in what one scheduler publishes; its absence stops only news of it."""
        settings = self._settings
        updates = watch_sessions(
            self._host.client, lease_name=shard.lease, namespace=settings.namespace, tls=settings.tls
        )
        await take_each(updates, self._take, shard=shard.name)

    def _take(self, shard: str, update: SessionUpdate) -> None:
        self._shares.take(shard, update)
        self._publisher.take_faults(shard, update)
