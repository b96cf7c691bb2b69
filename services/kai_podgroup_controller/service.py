"""The podgroup-controller: status, conditions and events of pod groups and their pods.

One replica leads and works; all serve the webhook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from kai.kube.events import EventRecorder
from kai.kube.lease import Term
from kai.kube.reflector import Reflector
from kai.kube.resources import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, RESOURCE_CLAIMS
from kai.kube.workqueue import QueueMetrics, WorkQueue
from kai.model.dra import ResourceClaim
from kai.model.objects import Node, PodGroup, PriorityClass, Queue
from kai.model.verdicts import SEPARATOR
from kai.runtime import Host, freeze_garbage
from kai.runtime.webhook import WebhookServer
from kai.tls import CertificateFiles
from kai.validation.registration import VALIDATE_POD_GROUP
from kai.wire.sessions import NOTHING, SessionUpdate, take_each, watch_sessions
from kai.wire.shards import Shard, ShardFollower
from kai.wire.verdicts import watch_verdicts
from kai_podgroup_controller.announcer import Announcer
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.conditions import shown_by
from kai_podgroup_controller.facts import PodRecord
from kai_podgroup_controller.faults import FaultBook
from kai_podgroup_controller.outcomes import OutcomeBook
from kai_podgroup_controller.reconciler import SETTLING_SECONDS, Reconciler
from kai_podgroup_controller.settings import PodGroupControllerSettings
from kai_podgroup_controller.verdicts import SILENCE_SECONDS, VerdictBook
from kai_podgroup_controller.webhook import review

LEASE = "kai-podgroup-controller"

_log = structlog.get_logger(__name__)


class PodGroupControllerService:
    """Runs until it is told to stop."""

    name = "podgroup-controller"
    needs_cluster = True

    def __init__(self, settings: PodGroupControllerSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Serve the webhook, and do the work while we lead."""
        work: list[Coroutine[Any, Any, None]] = [self._lead(host)]
        if self.settings.enable_podgroup_webhook:
            work.append(self._webhook(host).run())
        await host.until_stopping(*work)

    def _webhook(self, host: Host) -> WebhookServer:
        return WebhookServer(
            {VALIDATE_POD_GROUP: review},
            listen=self.settings.webhook_listen,
            certificates=CertificateFiles.in_directory(self.settings.cert_dir),
            health=host.health,
            registry=host.metrics,
        )

    async def _lead(self, host: Host) -> None:
        # What users are told here are the scheduler's findings, so they come in its name.
        recorder = host.recorder(self.settings.scheduler_name)
        metrics = QueueMetrics(host.metrics)
        announced: dict[str, tuple[int, int]] = {}

        async def work(term: Term | None = None) -> None:
            await Controller(host, self.settings, recorder, metrics, announced=announced).run()

        if not self.settings.leader_elect:
            await work()
            return
        await host.elector(LEASE).lead(work)


class Controller:
    """One term of work: follows the cluster and the schedulers, and reconciles what they concern."""

    def __init__(
        self,
        host: Host,
        settings: PodGroupControllerSettings,
        recorder: EventRecorder,
        metrics: QueueMetrics,
        *,
        announced: dict[str, tuple[int, int]],
    ) -> None:
        self._host = host
        self._settings = settings
        self._queue: WorkQueue[str] = WorkQueue("podgroups", metrics=metrics)
        self._cluster = Cluster(node_pool_label_key=settings.nodepool_label_key, concern=self._concern)
        self._book = OutcomeBook()
        self._verdicts = VerdictBook()
        self._announcer = Announcer(self._cluster, recorder, announced=announced)
        self._faults = FaultBook(self._cluster, recorder)
        self._reconciler = Reconciler(
            host.client,
            self._cluster,
            self._book,
            self._verdicts,
            self._announcer,
            persist_last_start=settings.persist_last_start,
        )
        self._reflectors = self._follow()

    def _follow(self) -> list[tuple[Reflector[Any], Any]]:
        client, cluster = self._host.client, self._cluster
        ours = f"spec.schedulerName={self._settings.scheduler_name}"
        return [
            (Reflector(client, PODS, PodRecord, field_selector=ours), cluster.pod_sink),
            (Reflector(client, POD_GROUPS, PodGroup), cluster.group_sink),
            (Reflector(client, NODES, Node), cluster.node_sink),
            (Reflector(client, QUEUES, Queue), cluster.queue_sink),
            (Reflector(client, PRIORITY_CLASSES, PriorityClass), cluster.priority_class_sink),
            (Reflector(client, RESOURCE_CLAIMS, ResourceClaim, optional=True), cluster.claim_sink),
        ]

    async def run(self) -> None:
        """Work until cancelled."""
        self._host.health.add("synced", self._is_synced)
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector, sink in self._reflectors:
                    tasks.create_task(reflector.run(sink), name=f"watch {reflector.resource.plural}")
                for reflector, _ in self._reflectors:
                    await reflector.synced.wait()
                self._cluster.begin()
                freeze_garbage()
                _log.info("synced", groups=len(self._cluster.groups), pods=len(self._cluster.pods))
                tasks.create_task(self._follow_shards(), name="follow shards")
                tasks.create_task(self._follow_verdicts(), name="follow verdicts")
                tasks.create_task(self._heed_lapses(), name="heed what insight leaves unsaid")
                workers = self._settings.max_concurrent_reconciles
                tasks.create_task(self._queue.run(self._reconciler.reconcile, workers=workers))
        finally:
            self._host.health.remove("synced")
            self._host.end_term()

    def _is_synced(self) -> bool:
        return all(reflector.synced.is_set() for reflector, _ in self._reflectors)

    def _concern(self, group: str) -> None:
        self._queue.add_after(group, SETTLING_SECONDS)

    async def _follow_shards(self) -> None:
        settings = self._settings
        follower = ShardFollower(
            self._host.client, scheduler_name=settings.scheduler_name, told=settings.shards
        )
        # What a scheduler that is gone has found counts no more.
        await follower.run(self._listen, gone=lambda shard: self._take(shard.name, NOTHING))

    async def _listen(self, shard: Shard) -> None:
        """Take in what one scheduler publishes; its absence stops only news of it."""
        settings = self._settings
        updates = watch_sessions(
            self._host.client,
            lease_name=shard.lease,
            namespace=settings.namespace,
            tls=settings.tls,
            with_evictions=True,
        )
        await take_each(updates, self._take, shard=shard.name)

    async def _follow_verdicts(self) -> None:
        """Take in what insight finds; where there is none, nothing comes."""
        settings = self._settings
        async for news in watch_verdicts(self._host.client, namespace=settings.namespace, tls=settings.tls):
            for group in self._verdicts.take(news):
                self._concern(group)

    async def _heed_lapses(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_SECONDS / 10)
            if self._verdicts.lapsed():
                for group in self._cluster.groups.values():
                    if SEPARATOR in shown_by(group):
                        self._concern(group.key)

    def _take(self, shard: str, update: SessionUpdate) -> None:
        for group in self._faults.take(shard, update) | self._book.take(shard, update):
            self._queue.add_after(group, SETTLING_SECONDS)
        for eviction in update.evictions:
            self._cluster.expect_end(eviction.pod)
        self._announcer.announce(update)
