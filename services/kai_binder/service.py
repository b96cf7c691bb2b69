"""The binder as a process: watch pods, work for the leader, keep reservations in order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.resources import PODS
from kai.kube.workqueue import QueueMetrics, WorkQueue
from kai.kube.workqueue_metrics import ControllerSeries
from kai.model import names
from kai.runtime import Host, SettingsError
from kai.wire.channel import TlsFiles
from kai.wire.decisions import Result, ResultStatus
from kai.wire.leader import LeaderTracker
from kai.wire.shards import Shard, ShardFollower
from kai_binder.binding import PodBinder
from kai_binder.executor import Executor, Fence
from kai_binder.link import Link, Outbox
from kai_binder.objects import WatchedPod, pod_store
from kai_binder.plugins import PluginError, build
from kai_binder.reservation_pods import ReservationPod
from kai_binder.reservation_sync import ReservationSync
from kai_binder.reservations import Reservations, reservation_store
from kai_binder.settings import BinderSettings

_log = structlog.get_logger(__name__)


class BinderMetrics:
    """What the binder does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.results = Counter("kai_binder_results", "Decisions by result", ("result",), registry=registry)
        for status in ResultStatus:  # a rate of what begins with its first case does not know that one
            self.results.labels(status.name.lower())
        self.working = Gauge(
            "kai_binder_executing", "Decisions that are being executed", ("scheduler",), registry=registry
        )
        self.epoch = Gauge(
            "kai_binder_epoch", "Epoch of the scheduler that we work for", ("scheduler",), registry=registry
        )

    def forget(self, lease: str) -> None:
        """Say no more of a scheduler."""
        self.working.remove(lease)
        self.epoch.remove(lease)


class BinderService:
    """Any number of these work side by side; none leads."""

    name = "binder"
    needs_cluster = True

    def __init__(self, settings: BinderSettings) -> None:
        self.settings = settings
        self._plugins = settings.plugin_configs()
        self._tls = settings.tls

    async def run(self, host: Host) -> None:
        """Run until told to stop; what has reached its bind call is carried to its end."""
        settings, client = self.settings, host.client
        metrics = BinderMetrics(host.metrics)
        pods, held = pod_store(), reservation_store()
        queue_metrics = QueueMetrics(host.metrics)
        queue: WorkQueue[str] = WorkQueue("reservations", metrics=queue_metrics)
        controller = queue_metrics.controllers.of("decisions")
        controller.workers.set(settings.max_concurrent_reconciles)
        reservations = Reservations(
            client,
            held,
            settings.template,
            pods=pods,
            binder_id=host.identity,
            allocation_timeout=settings.resource_reservation_allocation_timeout,
            longest_bind=settings.longest_bind,
        )
        sync = ReservationSync(
            client,
            pods=pods,
            reservations=reservations,
            reservation_store=held,
            queue=queue,
            binder_id=host.identity,
            scheduler_name=settings.scheduler_name,
        )
        try:
            plugins = build(self._plugins, client)
        except PluginError as error:
            raise SettingsError(str(error)) from error
        binder = PodBinder(
            client,
            pods=pods,
            reservations=reservations,
            plugins=plugins,
            events=host.recorder(settings.scheduler_name),
            node_pool_label=settings.nodepool_label_key,
            sync_soon=sync.soon,
            tell_bound=settings.tell_bound,
        )
        works: dict[str, _Work] = {}
        watches: list[Reflector[WatchedPod] | Reflector[ReservationPod]] = [
            Reflector(
                client, PODS, WatchedPod, field_selector=f"spec.schedulerName={settings.scheduler_name}"
            ),
            Reflector(
                client,
                PODS,
                ReservationPod,
                namespace=settings.resource_reservation_namespace,
                label_selector=f"{names.APP_LABEL}={settings.resource_reservation_app_label}",
            ),
        ]
        host.health.add("synced", lambda: all(watch.synced.is_set() for watch in watches))
        host.health.add("scheduler", lambda: _unreachable(works))
        host.health.note("schedulers", lambda: _silent(works))
        host.start(watches[0].run(pods), name="watch pods")
        host.start(watches[1].run(held), name="watch reservations")
        await asyncio.gather(*(watch.synced.wait() for watch in watches))
        follower = ShardFollower(client, scheduler_name=settings.scheduler_name, told=settings.shards)

        async def work(shard: Shard) -> None:
            one = _Work(shard.lease, client, binder, settings, host.identity, metrics, controller, self._tls)
            works[shard.lease] = one
            try:
                await one.run()
            finally:
                del works[shard.lease]
                metrics.forget(shard.lease)

        await host.until_stopping(sync.run(), follower.run(work))


class _Work:
    """Our work for the scheduler of one shard. Epochs of different shards say nothing about each other."""

    def __init__(
        self,
        lease_name: str,
        client: KubeClient,
        binder: PodBinder,
        settings: BinderSettings,
        binder_id: str,
        metrics: BinderMetrics,
        controller: ControllerSeries,
        tls: TlsFiles | None,
    ) -> None:
        self.lease_name = lease_name
        self._tracker = LeaderTracker(client, lease_name=lease_name, namespace=settings.namespace)
        self._metrics = metrics
        self._outbox = Outbox()
        fence = Fence()
        at_once = settings.max_concurrent_reconciles
        self._executor = Executor(
            binder,
            fence=fence,
            report=self._report,
            binding_at_most=at_once,
            longest_bind=settings.longest_bind,
            controller=controller,
        )
        self._link = Link(
            self._executor,
            self._outbox,
            fence=fence,
            binder_id=binder_id,
            capacity=at_once,
            longest_bind=settings.longest_bind,
            tls=tls,
        )
        metrics.epoch.labels(lease_name).set_function(lambda: self._link.connected_to)
        metrics.working.labels(lease_name).set_function(lambda: len(self._executor))

    @property
    def connected(self) -> bool:
        """Whether decisions can come."""
        return bool(self._link.connected_to)

    @property
    def has_leader(self) -> bool:
        """Whether there is somebody to work for."""
        return self._tracker.leader is not None

    async def run(self) -> None:
        """Work for whoever leads, until cancelled."""
        async with self._tracker, asyncio.TaskGroup() as group:
            group.create_task(self._executor.run(), name=f"execute {self.lease_name}")
            group.create_task(self._link.run(self._tracker), name=f"work for {self.lease_name}")

    def _report(self, result: Result) -> None:
        self._metrics.results.labels(result.status.name.lower()).inc()
        self._outbox.put(result)


def _unreachable(works: Mapping[str, _Work]) -> str | None:
    """We are of use as long as one scheduler can give us work; one that does not lead is no fault of ours.

    Else a binder could not be replaced, nor an installation be ready, while no scheduler is wanted.
    """
    if any(work.connected for work in works.values()):
        return None
    leases = sorted(lease for lease, work in works.items() if work.has_leader)
    return f"not connected to scheduler {', '.join(leases)}" if leases else None


def _silent(works: Mapping[str, _Work]) -> str | None:
    lines = [
        f"not connected to scheduler {lease}" if work.has_leader else f"nobody leads scheduler {lease}"
        for lease, work in sorted(works.items())
        if not work.connected
    ]
    return "; ".join(lines) or None
