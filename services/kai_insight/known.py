"""What insight knows beside the cluster, for those who look at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from kai.answers.answer import Answer, Held
from kai.history.databases import Database
from kai.history.questions import MOST_ROWS, Selection, find
from kai.history.records import Run
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.leases import Lease
from kai.kube.resources import LEASES
from kai.live.waiting import Known
from kai_insight.forecasts import P50, P90, Forecasts, InvalidForecast
from kai_insight.http.problems import Problem
from kai_insight.http.store import AskedStore
from kai_insight.live import told
from kai_insight.live.knowledge import Unknown, processes_of
from kai_insight.verdicts import Verdicts
from kai_insight.writer import StoreState

_log = structlog.get_logger(__name__)


class InsightKnowledge:
    """Of the replica that leads. ``state`` says how the store does, ``now`` gives Unix seconds."""

    def __init__(
        self,
        database: Database,
        client: KubeClient,
        *,
        namespace: str,
        verdicts: Verdicts,
        forecasts: Forecasts,
        state: StoreState,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._client = client
        self._namespace = namespace
        self._verdicts = verdicts
        self._forecasts = forecasts
        self._state = state
        self._now = now
        self._asked = AskedStore()

    def known(self, shard: str) -> Known:
        """What was found of the groups of a shard that wait."""
        return self._verdicts.of(shard)

    async def runs(self) -> Sequence[Run]:
        """What ran lately; raises :class:`Unknown`."""
        try:
            return await self._asked.ask(lambda: find(self._database, Run, Selection(), most=MOST_ROWS))
        except Problem as problem:
            raise Unknown(str(problem)) from problem

    async def keep_forecast(self, answer: Answer, *, at: float) -> dict[str, Held]:
        """Look whether a forecast holds that was told; how others held."""
        forecast = answer.forecast
        assert forecast is not None
        seconds = {P50: forecast.p50, P90: forecast.p90}
        try:
            self._forecasts.keep(
                f"{answer.namespace}/{answer.pod_group}",
                at=at,
                seconds={name: each for name, each in seconds.items() if each is not None},
            )
        except InvalidForecast as error:
            _log.warning("a forecast is not kept", reason=str(error))
        tally = self._forecasts.tally
        return {name: Held(held=tally.held[name], of=tally.decided[name]) for name in (P50, P90)}

    async def processes(self) -> list[told.ProcessTold]:
        """Who holds the Leases of the installation; nobody where the API server does not say."""
        try:
            leases = await self._client.list(LEASES, namespace=self._namespace, type=Lease)
        except KubeError as error:
            _log.warning("who leads cannot be told", reason=str(error))
            return []
        return processes_of(leases, now=self._now())

    def forecasts(self) -> told.Forecasts:
        """How forecasts held."""
        tally = self._forecasts.tally
        held = {name: told.Coverage(held=tally.held[name], of=tally.decided[name]) for name in (P50, P90)}
        return told.Forecasts(p50=held[P50], p90=held[P90])

    def store(self) -> told.StoreTold:
        """How the store does."""
        return told.StoreTold(trouble=self._state.trouble)

    def close(self) -> None:
        """Ask no more."""
        self._asked.close()
