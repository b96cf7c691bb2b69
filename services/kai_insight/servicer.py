"""HistoryService: what is in the store, for who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc

from kai.history import recordings
from kai.history.databases import Database
from kai.history.errors import HistoryError
from kai.history.questions import MOST_ROWS, Found, find
from kai.history.recordings import Wanted
from kai.history.records import Cycle, Decision, QueueState, Run, Taking
from kai.history.usage import usage
from kai.wire.errors import MessageTooLarge
from kai.wire.history_codec import (
    InvalidSelection,
    decode_selection,
    decode_usage_request,
    encode_rows,
    encode_usage,
)
from kai.wire.recordings import pieces
from kai.wire.v1 import history_pb2 as pb
from kai.wire.v1.history_pb2_grpc import HistoryServiceServicer
from kai.wire.v1.recording_pb2 import RecordedPiece
from kai_insight.forecasts import P50, P90, Forecasts, InvalidForecast

T = TypeVar("T")
_Context = grpc.aio.ServicerContext[Any, Any]
#: Who asks must not keep threads from who records, and a question that nobody waits for any more keeps its
#: thread until it is answered: so these threads are nobody else's.
_AT_ONCE: Final = 3


class HistoryServicer(HistoryServiceServicer):
    """Answers from one database. One that does not answer is told so: nobody has to wait for it here."""

    def __init__(
        self, database: Database, forecasts: Forecasts, *, now: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._forecasts = forecasts
        self._now = now
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="grpc")

    def close(self) -> None:
        """Take no more questions."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def GetRuns(self, request: pb.Selection, context: _Context) -> pb.Runs:  # noqa: N802
        """Who ran where."""
        found: pb.Runs = await self._rows(Run, request, context)
        return found

    async def GetEvictions(self, request: pb.Selection, context: _Context) -> pb.Evictions:  # noqa: N802
        """Who lost a place, to whom, and why."""
        found: pb.Evictions = await self._rows(Taking, request, context)
        return found

    async def GetDecisions(self, request: pb.Selection, context: _Context) -> pb.Decisions:  # noqa: N802
        """How pod groups stood."""
        found: pb.Decisions = await self._rows(Decision, request, context)
        return found

    async def GetCycles(self, request: pb.Selection, context: _Context) -> pb.Cycles:  # noqa: N802
        """What cycles did."""
        found: pb.Cycles = await self._rows(Cycle, request, context)
        return found

    async def GetQueueStates(self, request: pb.Selection, context: _Context) -> pb.QueueStates:  # noqa: N802
        """What queues held and were due."""
        found: pb.QueueStates = await self._rows(QueueState, request, context)
        return found

    async def GetUsage(  # noqa: N802
        self, request: pb.GetUsageRequest, context: _Context
    ) -> pb.GetUsageResponse:
        """Who used how much."""

        def report() -> pb.GetUsageResponse:
            by, since, until = decode_usage_request(request)
            namespaces = [request.namespace] if request.namespace else None
            found = usage(
                self._database, by=by, since=since, until=until, now=self._now(), namespaces=namespaces
            )
            return encode_usage(found)

        return await self._answer(report, context)

    async def KeepForecast(  # noqa: N802
        self, request: pb.ToldForecast, context: _Context
    ) -> pb.Coverage:
        """A forecast was told."""
        seconds = {name: getattr(request, name) for name in (P50, P90) if request.HasField(name)}
        group = f"{request.namespace}/{request.pod_group}"
        try:
            self._forecasts.keep(group, at=request.at, seconds=seconds)
        except InvalidForecast as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise
        decided, held = self._forecasts.tally.decided, self._forecasts.tally.held
        return pb.Coverage(decided50=decided[P50], held50=held[P50], decided90=decided[P90], held90=held[P90])

    async def GetRecordings(  # noqa: N802
        self, request: pb.WantedCycles, context: _Context
    ) -> AsyncIterator[RecordedPiece]:
        """Recorded cycles, read as they are sent."""
        wanted = Wanted(
            shard=request.shard,
            version=request.version,
            epoch=request.epoch,
            since=request.since,
            until=request.until,
        )
        entries = recordings.find(self._database, wanted)
        while (entry := await self._answer(lambda: next(entries, None), context)) is not None:
            for piece in pieces(entry):
                yield piece

    async def _rows(self, kind: type[Found], request: pb.Selection, context: _Context) -> Any:
        def rows() -> Any:
            most = min(request.most or MOST_ROWS, MOST_ROWS)
            found = find(self._database, kind, decode_selection(request, kind), most=most + 1)
            return encode_rows(kind, found[:most], more=len(found) > most)

        return await self._answer(rows, context)

    async def _answer(self, question: Callable[[], T], context: _Context) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question)
        except InvalidSelection as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise
        except (HistoryError, MessageTooLarge) as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise
