"""The binder's side of the conversation with whoever leads the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import structlog

from kai.kube.backoff import Backoff
from kai.kube.leases import Leader
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.decisions import (
    BIND_SECONDS,
    HEARTBEAT_SECONDS,
    MOST_RESULTS,
    SILENCE_SECONDS,
    InFlight,
    Result,
    ResultStatus,
    decode_batch,
    encode_in_flight,
    encode_results,
)
from kai.wire.errors import MalformedMessage, PeerUnavailable
from kai.wire.leader import LeaderTracker
from kai.wire.v1 import decision_pb2 as pb
from kai.wire.v1.decision_pb2_grpc import DecisionServiceStub
from kai_binder.executor import Executor, Fence

_log = structlog.get_logger(__name__)


class Outbox:
    """Results on their way. Between two streams only good news is kept: the rest may be decided anew."""

    def __init__(self) -> None:
        self._results: list[Result] = []
        self._filled = asyncio.Event()
        #: Counts where a stream begins, and where it ends.
        self._turn = 0

    def put(self, result: Result) -> None:
        """Tell this with the next message."""
        self._results.append(result)
        self._filled.set()

    def begin(self) -> int:
        """A stream begins; returns its number. What failed or was prepared for another does not count now."""
        self._results = [result for result in self._results if result.status is ResultStatus.BOUND]
        self._turn += 1
        return self._turn

    def end(self) -> None:
        """The stream is over, whatever may still be read on its behalf."""
        self._turn += 1
        self._filled.set()

    async def take(self, stream: int, *, patience: float) -> list[Result] | None:
        """What fits a message, as soon as there is something; nothing after ``patience`` seconds.

        None: the stream is over. A call that failed goes on reading what it can send no more, and would take
        what is for the next one.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._turn == stream and not self._results:
                    self._filled.clear()
                    await self._filled.wait()
        if self._turn != stream:
            return None
        taken, self._results = self._results[:MOST_RESULTS], self._results[MOST_RESULTS:]
        return taken


class Link:
    """Keeps talking to the leader, whoever that is.

    ``longest_bind``: what the time limits of a bind add up to, in seconds. ``clock`` is monotonic: the one by
    which the executor is given deadlines.
    """

    def __init__(
        self,
        executor: Executor,
        outbox: Outbox,
        *,
        fence: Fence,
        binder_id: str,
        capacity: int,
        longest_bind: float = BIND_SECONDS,
        tls: TlsFiles | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        #: Epoch of the scheduler that we work for now; 0: none.
        self.connected_to = 0
        self._executor = executor
        self._outbox = outbox
        self._fence = fence
        self._binder_id = binder_id
        self._capacity = capacity
        self._longest_bind = longest_bind
        self._tls = tls
        self._clock = clock

    async def run(self, tracker: LeaderTracker) -> None:
        """Work for every leader in turn, until cancelled."""
        backoff = Backoff(initial=0.2, maximum=3.0)
        while True:
            leader = await tracker.present()
            self._fence.see(leader.epoch)
            try:
                await self._talk(leader, tracker, backoff)
            except grpc.aio.AioRpcError as error:
                _log.info(
                    "scheduler lost", endpoint=leader.endpoint, code=error.code().name, reason=error.details()
                )
            except PeerUnavailable as error:
                _log.warning("scheduler cannot be called", endpoint=leader.endpoint, reason=str(error))
            except TimeoutError:
                _log.warning("scheduler is not heard any more", endpoint=leader.endpoint)
            except MalformedMessage as error:
                _log.error("scheduler sends what it must not", endpoint=leader.endpoint, reason=str(error))
            await asyncio.sleep(backoff.next())

    async def _talk(self, leader: Leader, tracker: LeaderTracker, backoff: Backoff) -> None:
        """One stream, from hello to its end; whatever we did for it is dropped then."""
        in_flight = await self._executor.drop()
        async with open_channel(leader.endpoint, tls=self._tls) as channel:
            asked = self._clock()
            call = DecisionServiceStub(channel).Bind(self._requests(in_flight, stream=self._outbox.begin()))
            reading = asyncio.create_task(self._read(call, leader, backoff, asked))
            replaced = asyncio.create_task(tracker.replaced(leader))
            try:
                await asyncio.wait([reading, replaced], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.connected_to = 0
                self._outbox.end()
                for task in (reading, replaced):
                    task.cancel()
                call.cancel()
                # Not a step further for a leader that cannot hear us, before anything else.
                await self._executor.drop()
                await asyncio.gather(reading, replaced, return_exceptions=True)
            for task in (reading, replaced):
                if not task.cancelled():
                    task.result()

    async def _requests(self, in_flight: list[InFlight], *, stream: int) -> AsyncIterator[pb.BindRequest]:
        hello = pb.Hello(
            binder_id=self._binder_id,
            capacity=self._capacity,
            in_flight=encode_in_flight(in_flight),
            epoch=self._fence.epoch,
            longest_bind_seconds=self._longest_bind,
        )
        yield pb.BindRequest(hello=hello)
        while (results := await self._outbox.take(stream, patience=HEARTBEAT_SECONDS)) is not None:
            yield pb.BindRequest(results=encode_results(results))

    async def _read(self, call: Any, leader: Leader, backoff: Backoff, asked: float) -> None:
        first = await _next(call)
        if first is grpc.aio.EOF or not first.HasField("welcome"):
            return
        epoch = first.welcome.epoch
        # The Lease says who leads: what the peer says of itself moves nothing, it can only be wrong.
        if epoch != leader.epoch or not self._fence.admits(epoch):
            _log.info("scheduler is not in the term of the Lease", endpoint=leader.endpoint, epoch=epoch)
            return
        self.connected_to = epoch
        ahead = self._ahead(first.welcome.clock, asked)
        backoff.reset()
        _log.info("working for scheduler", endpoint=leader.endpoint, epoch=epoch)
        while (message := await _next(call)) is not grpc.aio.EOF:
            match message.WhichOneof("message"):
                case "decisions":
                    _check_term(message.decisions.epoch, leader)
                    batch = decode_batch(message.decisions)
                    self._executor.start(replace(batch, deadline=batch.deadline + ahead))
                case "verdict":
                    _check_term(message.verdict.epoch, leader)
                    self._executor.verdict(bind=message.verdict.bind, abandon=message.verdict.abandon)
                case _:
                    pass

    def _ahead(self, clock: float, asked: float) -> float:
        """Seconds by which our clock is ahead, at least, of one that told ``clock`` after we ``asked``.

        With no more than these no decision is begun after its deadline, however late we hear of it, as where
        this process was stopped meanwhile.
        """
        if clock:
            return asked - clock
        return self._clock() - time.time()  # an older scheduler, whose clock has to be as ours


def _check_term(epoch: int, leader: Leader) -> None:
    """Decisions of another term would pass a fence that is there to stop those of this one.

    Raises:
        MalformedMessage: it is another.
    """
    if epoch != leader.epoch:
        raise MalformedMessage(f"it leads with epoch {leader.epoch} and speaks of epoch {epoch}")


async def _next(call: Any) -> Any:
    """The next message, which may be a mere heartbeat.

    Raises:
        TimeoutError: the scheduler is silent.
    """
    async with asyncio.timeout(SILENCE_SECONDS):
        return await call.read()
