"""Verdicts about pod groups that wait, for whoever writes them to where users look."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc

from kai.live.waiting import Known, Places
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.wire.v1 import verdict_pb2 as pb
from kai.wire.v1.verdict_pb2_grpc import VerdictServiceServicer
from kai.wire.verdicts import HEARTBEAT_SECONDS, VerdictNews, encode_verdicts
from kai_insight.metrics import VerdictMetrics

#: After so long the same is told again: its numbers may be others, and who listens lets go of it where a
#: group had a place for a moment.
REFRESH_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Known:
    shard: str
    verdict: GroupVerdict
    #: When it was told, by the clock.
    at: float


class _Reader:
    """What one who listens has not been told; of what changed twice, the last."""

    def __init__(self) -> None:
        self.waiting: dict[PodGroupKey, GroupVerdict | None] = {}
        self.news = asyncio.Event()
        self.ended = False


class Verdicts:
    """What is known of all shards. ``clock`` is monotonic."""

    def __init__(self, metrics: VerdictMetrics, *, clock: Callable[[], float] | None = None) -> None:
        self._metrics = metrics
        self._clock = clock or asyncio.get_running_loop().time
        self._known: dict[PodGroupKey, _Known] = {}
        self._readers: set[_Reader] = set()
        #: By shard, where groups stand in their queues.
        self._places: dict[str, Places] = {}
        #: Whether this process finds verdicts; nobody is answered while it does not.
        self.open = False

    @contextmanager
    def found(self) -> Iterator[None]:
        """This process finds verdicts while the block runs."""
        self.open = True
        try:
            yield
        finally:
            self.open = False
            self._known.clear()
            self._metrics.know(Counter())
            for reader in self._readers:
                reader.ended = True
                reader.news.set()

    def take(
        self,
        shard: str,
        found: Mapping[PodGroupKey, GroupVerdict | None],
        *,
        waiting: Collection[PodGroupKey] = frozenset(),
    ) -> None:
        """What was found of a shard's groups, None where it is nothing that lasts.

        Groups that are not ``waiting`` are forgotten.
        """
        now = self._clock()
        for key, verdict in found.items():
            known = self._known.get(key)
            if verdict is None:
                if known is not None and known.shard == shard:
                    self._forget(key)
            elif known is None or _differs(known, verdict, now):
                self._known[key] = _Known(shard, verdict, now)
                self._tell(key, verdict)
        for key in [key for key, each in self._known.items() if each.shard == shard and key not in waiting]:
            self._forget(key)
        self._metrics.know(
            Counter((each.verdict.verdict, each.verdict.code) for each in self._known.values())
        )

    def place(self, shard: str, places: Places) -> None:
        """Where groups that wait stand in their queues, as of the last look."""
        self._places[shard] = places

    def of(self, shard: str) -> Known:
        """What is known of a shard's groups."""
        verdicts = {key: each.verdict for key, each in self._known.items() if each.shard == shard}
        return Known(verdicts=verdicts, places=self._places.get(shard, {}))

    def drop(self, shard: str) -> None:
        """Nothing is known of a shard any more."""
        self._places.pop(shard, None)
        self.take(shard, {})

    async def watch(self, *, heartbeat: float = HEARTBEAT_SECONDS) -> AsyncGenerator[VerdictNews]:
        """All that is known, then what changes; nothing at all after ``heartbeat`` seconds of silence."""
        reader = _Reader()
        self._readers.add(reader)
        try:
            yield VerdictNews(told=tuple(each.verdict for each in self._known.values()))
            while not reader.ended:
                try:
                    async with asyncio.timeout(heartbeat):
                        await reader.news.wait()
                except TimeoutError:
                    yield VerdictNews()
                    continue
                reader.news.clear()
                waiting, reader.waiting = reader.waiting, {}
                if waiting:
                    yield VerdictNews(
                        told=tuple(filter(None, waiting.values())),
                        forgotten=tuple(key for key, verdict in waiting.items() if verdict is None),
                    )
        finally:
            self._readers.discard(reader)

    def _forget(self, key: PodGroupKey) -> None:
        del self._known[key]
        self._tell(key, None)

    def _tell(self, key: PodGroupKey, verdict: GroupVerdict | None) -> None:
        for reader in self._readers:
            reader.waiting[key] = verdict
            reader.news.set()


def _differs(known: _Known, verdict: GroupVerdict, now: float) -> bool:
    before = known.verdict
    # Of another group of the name who listens has let go of what was told of the first.
    if (before.uid, before.verdict, before.code) != (verdict.uid, verdict.verdict, verdict.code):
        return True
    return now - known.at >= REFRESH_SECONDS


class VerdictServicer(VerdictServiceServicer):
    """Tells them over gRPC."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    async def WatchVerdicts(  # noqa: N802
        self, request: pb.WatchVerdictsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.Verdicts]:
        """All, and what changes."""
        if self._verdicts.open:
            async with aclosing(self._verdicts.watch()) as found:
                async for news in found:
                    for message in encode_verdicts(news):
                        yield message
        await context.abort(
            grpc.StatusCode.UNAVAILABLE, "this insight finds no verdicts; another one may lead"
        )
