"""The scheduler as a process: watch, wait to lead, decide."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import grpc
import structlog

from kai.engine import Engine
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.resources import RESOURCE_CLAIMS
from kai.model import dra_forms
from kai.model.faults import Fault
from kai.replay import params as replay_params
from kai.runtime import FatalError, Host, freeze_garbage
from kai.runtime.advertising import advertised_host
from kai.runtime.health import split_address
from kai.session.cache import SessionCache
from kai.session.publisher import PublisherMetrics, SessionPublisher
from kai.snapshot.state import ClusterState, Kind
from kai.wire.assignments import watch_assignments
from kai.wire.serving import CannotListen, serve
from kai.wire.v1.decision_pb2_grpc import add_DecisionServiceServicer_to_server
from kai.wire.v1.session_pb2_grpc import add_SessionServiceServicer_to_server
from kai_scheduler.assignments import Assignments
from kai_scheduler.changes import ChangeQueue
from kai_scheduler.core import Core, Decider
from kai_scheduler.debug_server import DebugServer
from kai_scheduler.decisions import DecisionServicer
from kai_scheduler.leadership import Leadership
from kai_scheduler.metrics import SchedulerMetrics
from kai_scheduler.servicers import SessionServicer
from kai_scheduler.settings import SchedulerSettings
from kai_scheduler.snapshots import Snapshots
from kai_scheduler.sources import reflectors
from kai_scheduler.troubles import Troubles
from kai_scheduler.usage import UsageReader
from kai_scheduler.usage_sources import connection, open_source

_log = structlog.get_logger(__name__)

_FAULTS_SHOWN = 5
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SERVICES = tuple(f"kai.wire.v1.{name}Service" for name in ("Session", "Decision"))


class SchedulerService:
    """Watches always, decides while it leads. A lost term ends the process."""

    name = "scheduler"
    needs_cluster = True

    def __init__(self, settings: SchedulerSettings, *, engine: Decider | None = None) -> None:
        self.settings = settings
        self._config = settings.scheduler_config()
        self._engine = engine or Engine(self._config, contained=True)

    async def run(self, host: Host) -> None:
        """Run until told to stop."""
        for note in self._config.notes:
            _log.warning("part of the configuration has no effect", part=note)
        core = Core(ClusterState(self.settings.state_params), self._engine)
        try:
            async with AsyncExitStack() as stack:
                await self._run(host, core, stack)
        except CannotListen as error:
            raise FatalError(str(error)) from error
        finally:
            core.close()

    async def _run(self, host: Host, core: Core, stack: AsyncExitStack) -> None:
        settings = self.settings
        metrics = SchedulerMetrics(host.metrics, namespace=settings.metrics_namespace)
        metrics.budgets(self._config.budgets)
        metrics.corrected.set_function(lambda: core.corrected)
        metrics.rejected.set_function(lambda: core.rejected)
        troubles = Troubles(metrics.cut_off)
        host.health.note("troubles", troubles.summary)
        host.health.note("cycle", core.long_cycle)
        host.health.note("faults", lambda: _faults_line(core.faults))
        changes = ChangeQueue(
            scheduler_name=settings.scheduler_name,
            debounce=settings.debounce,
            period=settings.schedule_period,
            clock=asyncio.get_running_loop().time,
        )
        snapshots = Snapshots(core)
        grpc_services = _GrpcServices(core, snapshots, troubles)
        if settings.tls is None and split_address(settings.grpc_listen)[0] not in _LOOPBACK:
            _log.warning(
                "gRPC without TLS: whoever reaches the port may call everything", listen=settings.grpc_listen
            )
        port = await stack.enter_async_context(
            serve(
                settings.grpc_listen,
                [grpc_services.register],
                tls=settings.tls,
                services=_SERVICES,
                metrics=host.metrics,
            )
        )
        await self._start_debug_server(host.client, core, troubles, stack)
        cache = await self._open_cache(stack)
        publisher = self._start_publisher(host, cache, troubles)
        usage = await self._start_usage(host, cache, metrics, troubles, changes, stack)
        standby = await self._start_watching(host, core, changes, troubles)
        host_name = advertised_host(settings.advertise_host, listen=settings.grpc_listen)
        elector = host.elector(settings.lease_name, endpoint=f"{host_name}:{port}")

        async def lead() -> None:
            if usage is not None:
                await usage.first()
            async with elector.term() as elected:
                standby.cancel()
                await asyncio.wait([standby])
                term = Leadership(
                    epoch=elected.epoch,
                    identity=host.identity,
                    settings=settings,
                    client=host.client,
                    core=core,
                    changes=changes,
                    metrics=metrics,
                    publisher=publisher,
                    snapshots=snapshots,
                    troubles=troubles,
                    leads=lambda: elector.holds,
                    usage=(lambda: usage.shares) if usage is not None else dict,
                )
                with grpc_services.opened(term):
                    metrics.leading.set(1)
                    await term.run()

        await _unless_stopping(host, lead())

    async def _start_watching(
        self, host: Host, core: Core, changes: ChangeQueue, troubles: Troubles
    ) -> asyncio.Task[None]:
        """Start all watches, and the standby; return once everything that exists is in the state."""
        settings = self.settings
        assignments = Assignments(changes.sink(Kind.POD), scheduler_name=settings.scheduler_name)
        pairs = list(
            reflectors(host.client, changes, pods=assignments, config_maps=settings.wait_for_config_maps)
        )
        synced = {reflector.resource.plural: reflector.synced for reflector, _ in pairs}

        def missing() -> str | None:
            late = [name for name, event in synced.items() if not event.is_set()]
            return f"not read yet: {', '.join(late)}" if late else None

        host.health.add("watches", missing)
        claims = next(each for each, _ in pairs if each.resource is RESOURCE_CLAIMS)
        host.health.note("devices", lambda: _lacking(claims))
        for reflector, sink in pairs:
            host.start(reflector.run(sink), name=f"watch {reflector.resource.plural}")
        host.start(self._follow_assignments(host.client, assignments), name="follow assignments")
        standby = host.start(stand_by(core, changes, troubles), name="standby")
        for event in synced.values():
            await event.wait()
        await core.fold(changes.take())
        freeze_garbage()
        _log.info("cluster read")
        if claims.form is None:
            _log.info("the API server knows no resource claims; pods that have some wait")
        if lacking := _lacking(claims):
            _log.warning("devices of resource claims", note=lacking)
        return standby

    async def _follow_assignments(self, client: KubeClient, assignments: Assignments) -> None:
        """Take in what the pod-grouper tells; where it tells nothing pods come with their annotation."""
        settings = self.settings
        async for news in watch_assignments(client, namespace=settings.namespace, tls=settings.tls):
            assignments.take(news)

    async def _open_cache(self, stack: AsyncExitStack) -> SessionCache | None:
        settings = self.settings
        if not settings.redis_url:
            _log.info("no redis; sessions have no history")
            return None
        return await stack.enter_async_context(
            SessionCache.connect(
                settings.redis_url, shard=settings.shard, credentials=settings.redis_credentials
            )
        )

    def _start_publisher(
        self, host: Host, cache: SessionCache | None, troubles: Troubles
    ) -> SessionPublisher | None:
        if cache is None:
            return None
        metrics = PublisherMetrics(host.metrics, namespace=self.settings.metrics_namespace)
        publisher = SessionPublisher(
            cache, metrics=metrics, failed=lambda error: troubles.note("publication to Redis", error)
        )
        host.start(publisher.run(), name="session cache")
        return publisher

    async def _start_usage(
        self,
        host: Host,
        cache: SessionCache | None,
        metrics: SchedulerMetrics,
        troubles: Troubles,
        changes: ChangeQueue,
        stack: AsyncExitStack,
    ) -> UsageReader | None:
        database = self._config.usage_db
        if database is None:
            return None
        source = await open_source(
            database,
            connection(database, os.environ),
            cache=cache,
            shard=self.settings.shard,
            stack=stack,
        )
        if source is None:
            _log.warning("usageDBConfig needs redis; all queues count as if they had used nothing")
            return None
        reader = UsageReader(
            source,
            database.params,
            latency=metrics.usage_latency,
            failures=metrics.usage_failures,
            troubles=troubles,
            changed=changes.nudge,
        )
        host.health.note("usage", reader.note)
        host.start(reader.run(), name="usage")
        return reader

    async def _start_debug_server(
        self, client: KubeClient, core: Core, troubles: Troubles, stack: AsyncExitStack
    ) -> None:
        settings = self.settings
        server = DebugServer(
            client,
            core,
            troubles,
            config=self._config,
            params=replay_params.document(
                settings.state_params,
                self._config.params,
                schedule_period_seconds=settings.schedule_period,
                update_pod_eviction_condition=settings.update_pod_eviction_condition,
            ),
            port=settings.plugin_server_port,
        )
        stack.push_async_callback(server.close)
        await server.start()


class _GrpcServices:
    """Our gRPC services, which answer for whichever term runs."""

    def __init__(self, core: Core, snapshots: Snapshots, troubles: Troubles) -> None:
        self._sessions = SessionServicer(core, snapshots, troubles)
        self._decisions = DecisionServicer()

    def register(self, server: grpc.aio.Server) -> None:
        """Add all services to a server."""
        add_SessionServiceServicer_to_server(self._sessions, server)
        add_DecisionServiceServicer_to_server(self._decisions, server)

    @contextmanager
    def opened(self, term: Leadership) -> Iterator[None]:
        """Serve a term while the block runs."""
        self._sessions.log, self._sessions.cycles = term.log, term.cycles
        self._decisions.term = term.decisions
        try:
            yield
        finally:
            self._sessions.log = self._sessions.cycles = self._decisions.term = None


def _lacking(claims: Reflector[Any]) -> str | None:
    """What the API server lacks of resource claims; nothing where it has none at all."""
    return dra_forms.lacking(claims.form.resource.version) or None if claims.form is not None else None


def _faults_line(faults: Sequence[Fault]) -> str | None:
    """Objects that scheduling goes on without, or does not take at their word, in a line."""
    if not faults:
        return None
    shown = "; ".join(
        f"{each.kind} {each.key}: {each.reason}: {each.message}" for each in faults[:_FAULTS_SHOWN]
    )
    more = len(faults) - _FAULTS_SHOWN
    return f"{len(faults)} objects are left out or overruled: {shown}" + (
        f"; and {more} more" if more > 0 else ""
    )


async def _unless_stopping(host: Host, work: Coroutine[Any, Any, None]) -> None:
    """Do ``work`` until it ends or the process is to stop; then it is cancelled, and may clean up."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(host.stopping.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
    if not working.cancelled():
        working.result()


async def stand_by(core: Core, changes: ChangeQueue, troubles: Troubles) -> None:
    """Keep the state current without deciding anything, until cancelled; it grows with the cluster only."""
    while True:
        await changes.wait()
        await core.fold(changes.take())
        with troubles.cut_off("standby"):
            await core.settle(now=time.time())
