"""What ``kai ui`` knows beside the cluster: the past, where insight can be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from kai.answers.answer import Answer, Held
from kai.history.questions import Selection
from kai.history.records import Run
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.leases import Lease
from kai.kube.resources import LEASES
from kai.live.waiting import Known
from kai.wire.errors import WireError
from kai.wire.history import HistoryClient
from kai_cli.connection import Target
from kai_cli.looking.current import Current
from kai_insight.live.knowledge import Unknown, processes_of
from kai_insight.live.told import Forecasts, ProcessTold, StoreTold

T = TypeVar("T")
#: How long insight may take to answer.
PATIENCE_SECONDS: Final = 10.0
#: How long it may take to say that it is there.
SOON_SECONDS: Final = 3.0


class OwnKnowledge:
    """With the rights of the kubeconfig."""

    def __init__(self, target: Target, client: KubeClient, current: Current) -> None:
        self._target = target
        self._client = client
        self._current = current

    def known(self, shard: str) -> Known:
        """What was found of the groups of a shard that wait."""
        return self._current.known(shard)

    async def has_history(self) -> bool:
        """Whether insight answers."""
        try:
            async with asyncio.timeout(SOON_SECONDS):
                await self.asked(lambda history: history.find(Run, Selection(), most=1))
        except (TimeoutError, Unknown):
            return False
        return True

    async def asked(self, question: Callable[[HistoryClient], Awaitable[T]]) -> T:
        """What insight says to a question.

        Raises:
            Unknown: it cannot be reached, or not with these rights.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._history() as history:
                return await question(history)
        except (TimeoutError, WireError, KubeError, OSError) as error:
            raise Unknown(f"insight cannot be asked: {str(error) or 'no answer in time'}") from error

    @asynccontextmanager
    async def _history(self) -> AsyncIterator[HistoryClient]:
        async with self._target.history(self._client) as history:
            yield history

    async def runs(self) -> Sequence[Run]:
        """What ran lately; raises :class:`Unknown`."""
        found, _ = await self.asked(lambda history: history.find(Run, Selection()))
        return found

    async def keep_forecast(self, answer: Answer, *, at: float) -> dict[str, Held]:
        """Have insight look whether a forecast holds; how others held, nothing where it does not answer."""
        forecast = answer.forecast
        assert forecast is not None
        try:
            kept = await self.asked(
                lambda history: history.keep_forecast(
                    namespace=answer.namespace,
                    pod_group=answer.pod_group,
                    at=at,
                    p50=forecast.p50,
                    p90=forecast.p90,
                )
            )
        except Unknown:
            return {}
        return {
            "p50": Held(held=kept.held50, of=kept.decided50),
            "p90": Held(held=kept.held90, of=kept.decided90),
        }

    async def processes(self) -> list[ProcessTold]:
        """Who holds the Leases of the installation; nobody where one may not see them."""
        try:
            leases = await self._client.list(LEASES, namespace=self._target.namespace, type=Lease)
        except KubeError:
            return []
        return processes_of(leases, now=time.time())

    def forecasts(self) -> Forecasts | None:
        """Not known here."""
        return None

    def store(self) -> StoreTold | None:
        """There is none here."""
        return None
