"""Insight: records what ran and what was decided, and answers questions about it.

One replica leads and records. Nothing that schedules asks it for anything, so nobody notices when it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final

import structlog

from kai.history.databases import Database
from kai.history.store import Store, open_store
from kai.kube.lease import Term
from kai.model import flag_rules, names
from kai.runtime import FatalError, Host
from kai.runtime.advertising import advertised_host
from kai.tls import CertificateFiles
from kai.wire.serving import CannotListen, serve
from kai.wire.v1.history_pb2_grpc import add_HistoryServiceServicer_to_server
from kai.wire.v1.verdict_pb2_grpc import add_VerdictServiceServicer_to_server
from kai_insight.buffer import Buffer
from kai_insight.cycles import CycleRecorder
from kai_insight.forecasts import Forecasts
from kai_insight.http.passing import Passing
from kai_insight.http.server import HttpServer
from kai_insight.known import InsightKnowledge
from kai_insight.live.live import Live
from kai_insight.metrics import ForecastMetrics, InsightMetrics, ReplayMetrics, VerdictMetrics
from kai_insight.recorder import Recorder
from kai_insight.servicer import HistoryServicer
from kai_insight.settings import InsightSettings
from kai_insight.verdicts import Verdicts, VerdictServicer
from kai_insight.writer import StoreState, Writer

LEASE: Final = names.INSIGHT_LEASE
SERVICES: Final = ("kai.wire.v1.HistoryService", "kai.wire.v1.VerdictService")

_log = structlog.get_logger(__name__)


class InsightService:
    """Runs until it is told to stop."""

    name = "insight"
    needs_cluster = True

    def __init__(self, settings: InsightSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Record while we lead, and answer.

        Who asks over gRPC is sent to who leads by the Lease. Over HTTP every replica answers: it only reads.
        """
        settings, database = self.settings, self.settings.database()
        if settings.tls is None and flag_rules.reaches_others(settings.grpc_listen):
            _log.warning(
                "gRPC without TLS: whoever reaches the port may ask for everything",
                listen=settings.grpc_listen,
            )
        forecasts = Forecasts(ForecastMetrics(host.metrics))
        verdicts = Verdicts(VerdictMetrics(host.metrics))
        live = Live(settings.no_live_state, leading=False)
        work = Recording(host, settings, database, forecasts, verdicts, live)
        knowledge = InsightKnowledge(
            database,
            host.client,
            namespace=settings.namespace,
            verdicts=verdicts,
            forecasts=forecasts,
            state=work.state,
        )
        history = HistoryServicer(database, forecasts)
        try:
            async with self._served(host, history, VerdictServicer(verdicts)) as port:
                reached = advertised_host(settings.advertise_host, listen=settings.grpc_listen)
                elector = host.elector(LEASE, endpoint=f"{reached}:{port}")
                await host.until_stopping(
                    elector.lead(work.run), *self._over_http(host, database, live, knowledge)
                )
        except CannotListen as error:
            raise FatalError(str(error)) from error
        finally:
            history.close()
            knowledge.close()
            database.close()

    def _over_http(
        self, host: Host, database: Database, live: Live, knowledge: InsightKnowledge
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """The server of questions over HTTP, where it is wanted."""
        settings, tls = self.settings, self.settings.tls
        if not settings.http_listen:
            return
        server = HttpServer(
            database,
            host.client,
            listen=settings.http_listen,
            certificates=CertificateFiles(tls.cert, tls.key) if tls is not None else None,
            registry=host.metrics,
            live=live,
            passing=Passing(
                host.client,
                lease=LEASE,
                namespace=settings.namespace,
                listen=settings.http_listen,
                tls=tls,
            ),
            knowledge=knowledge,
            answer_pods=settings.answer_pods,
        )
        host.health.add("http", lambda: server.started.is_set() or "waiting for its certificate")
        yield server.run()

    def _served(
        self, host: Host, history: HistoryServicer, told: VerdictServicer
    ) -> AbstractAsyncContextManager[int]:
        return serve(
            self.settings.grpc_listen,
            [
                lambda server: add_HistoryServiceServicer_to_server(history, server),
                lambda server: add_VerdictServiceServicer_to_server(told, server),
            ],
            tls=self.settings.tls,
            services=SERVICES,
            metrics=host.metrics,
        )


class Recording:
    """What the leader does."""

    def __init__(
        self,
        host: Host,
        settings: InsightSettings,
        database: Database,
        forecasts: Forecasts,
        verdicts: Verdicts,
        live: Live,
    ) -> None:
        self._host = host
        self._live = live
        self._forecasts = forecasts
        self._verdicts = verdicts
        self._settings = settings
        self._database = database
        self._metrics = InsightMetrics(host.metrics)
        self._replays = ReplayMetrics(host.metrics)
        #: How the store does.
        self.state = StoreState(self._metrics)

    async def run(self, term: Term) -> None:
        """Record until cancelled. What there was no room for is made up for by beginning anew."""
        with self._told(), self._live.led(), self._verdicts.found():
            while True:
                opened = asyncio.Event()
                async with asyncio.TaskGroup() as tasks:
                    following = tasks.create_task(self._cycles().run(opened), name="record cycles")
                    store = await self.state.until_answered(lambda: open_store(self._database))
                    opened.set()
                    await self._record(store, term)
                    following.cancel()

    def _cycles(self) -> CycleRecorder:
        return CycleRecorder(
            self._host.client,
            self._settings,
            database=self._database,
            state=self.state,
            metrics=self._replays,
            verdicts=self._verdicts,
            live=self._live,
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        health = self._host.health
        health.add("store", lambda: self.state.trouble or True)
        try:
            yield
        finally:
            health.remove("store")
            self._metrics.leave()
            self._replays.leave()

    async def _record(self, store: Store, term: Term) -> None:
        """Until something is lost, and the rest is written."""
        settings = self._settings
        buffer = Buffer(most=settings.most_waiting)
        follower = Recorder(
            self._host.client,
            settings,
            store=store,
            state=self.state,
            buffer=buffer,
            forecasts=self._forecasts,
        )
        writer = Writer(
            store,
            buffer,
            state=self.state,
            metrics=self._metrics,
            interval=settings.write_interval,
            retention=settings.retention,
            looking=lambda: follower.begun,
            left=term.left,
        )
        self._host.health.add("synced", lambda: follower.begun)
        try:
            await self._together(follower, writer)
        finally:
            self._metrics.lost.inc(buffer.refused)
            self._host.health.remove("synced")

    async def _together(self, follower: Recorder, writer: Writer) -> None:
        """Until the writer ends."""
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(follower.run(), name="record"),
                tasks.create_task(writer.keep_house(), name="keep house"),
            ]
            await writer.run()
            for task in beside:
                task.cancel()
