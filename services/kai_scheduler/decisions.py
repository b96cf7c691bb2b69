"""DecisionService: one stream per binder, and the dispatcher's instructions carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import structlog

from kai.model.decisions import BindDecision
from kai.wire.channel import MAX_MESSAGE_BYTES
from kai.wire.decisions import (
    HEARTBEAT_SECONDS,
    PART_BYTES,
    SILENCE_SECONDS,
    Assignment,
    DecisionBatch,
    Result,
    ResultStatus,
    decode_in_flight,
    decode_results,
    encode_batch,
)
from kai.wire.errors import MalformedMessage, MessageTooLarge
from kai.wire.v1 import decision_pb2 as pb
from kai.wire.v1.decision_pb2_grpc import DecisionServiceServicer
from kai_scheduler.dispatch import Cut, Dispatcher, Inherited, Instruction, Send, Settled, Verdict
from kai_scheduler.troubles import Troubles

TICK_SECONDS: Final = 1.0
#: A defect lasts; it is told again after so long.
PAUSE_AFTER_DEFECT_SECONDS: Final = 10.0
#: Messages that may wait for a binder; one that does not read is cut off.
WAITING_AT_MOST: Final = 4096

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Stream:
    binder: str
    outbox: asyncio.Queue[pb.BindResponse] = field(default_factory=lambda: asyncio.Queue(WAITING_AT_MOST))
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    #: When it was last heard, and last told something; Unix seconds.
    heard_at: float = 0.0
    told_at: float = 0.0


class BinderStreams:
    """The leader's side of the conversation with binders, for one term.

    ``ended`` is told each end of a decision, and what binders still did for an earlier leader. ``clock``
    gives Unix seconds, and is never set (:mod:`kai_scheduler.steady`).
    """

    def __init__(
        self,
        *,
        epoch: int,
        identity: str,
        clock: Callable[[], float],
        ended: Callable[[Settled | Inherited], None],
        troubles: Troubles,
    ) -> None:
        self.epoch = epoch
        self._troubles = troubles
        self._identity = identity
        self._clock = clock
        self._ended = ended
        self._dispatcher = Dispatcher(epoch=epoch)
        self._streams: dict[str, _Stream] = {}
        self._connected = asyncio.Event()

    def __len__(self) -> int:
        """Decisions that are not settled."""
        return len(self._dispatcher)

    @property
    def binders(self) -> int:
        """How many are connected."""
        return len(self._streams)

    @property
    def outstanding(self) -> dict[str, tuple[BindDecision, float]]:
        """Decisions that are not settled, with their deadlines, by id."""
        return self._dispatcher.outstanding()

    async def some_binder(self) -> None:
        """Return once a binder has connected."""
        await self._connected.wait()

    def decide(
        self,
        decisions: Sequence[BindDecision],
        *,
        needs_preparation: Callable[[BindDecision], bool],
        is_gang: Callable[[str], bool],
    ) -> None:
        """Give decisions out."""
        told = self._dispatcher.decide(
            decisions, now=self._clock(), needs_preparation=needs_preparation, is_gang=is_gang
        )
        self._carry_out(told)

    async def run(self) -> None:
        """Let time pass, until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self._carry_out(self._dispatcher.tick(now=self._clock()))
                self._keep_in_touch()
            except Exception:  # noqa: BLE001 (a defect over one decision must not end the term of all)
                _log.exception("decisions are not followed")
                await asyncio.sleep(PAUSE_AFTER_DEFECT_SECONDS)

    def _keep_in_touch(self) -> None:
        """Let binders hear us, and break with those that we do not hear."""
        now = self._clock()
        for stream in list(self._streams.values()):
            if now - stream.heard_at > SILENCE_SECONDS:
                _log.warning("binder is not heard any more", binder=stream.binder)
                self._cut(stream.binder)
            elif now - stream.told_at >= HEARTBEAT_SECONDS:
                self._tell(stream.binder, pb.BindResponse(verdict=pb.GangVerdict(epoch=self.epoch)))

    def close(self) -> None:
        """End all streams; binders then stop working for us."""
        for stream in self._streams.values():
            stream.cut.set()

    # --- one binder ----------------------------------------------------------------------------
    async def serve(
        self, requests: AsyncIterator[pb.BindRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.BindResponse]:
        """Talk to one binder for as long as its stream holds."""
        hello = await _hello(requests, context)
        if hello.epoch > self.epoch:
            # Who leads is what the Lease says, and it is read all the time: no peer's word ends a term.
            _log.warning("binder works for a later leader", binder=hello.binder_id, epoch=hello.epoch)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"epoch {self.epoch} is over")
        stream = _Stream(hello.binder_id, heard_at=self._clock(), told_at=self._clock())
        if (older := self._streams.get(hello.binder_id)) is not None:
            older.cut.set()
        welcome = pb.Welcome(epoch=self.epoch, scheduler_id=self._identity, clock=self._clock())
        yield pb.BindResponse(welcome=welcome)
        self._streams[hello.binder_id] = stream
        self._connected.set()
        _log.info("binder connected", binder=stream.binder, in_flight=len(hello.in_flight))
        told = self._dispatcher.connect(
            stream.binder,
            capacity=hello.capacity,
            longest_bind=hello.longest_bind_seconds,
            in_flight=decode_in_flight(hello.in_flight),
            now=self._clock(),
        )
        self._carry_out(told)
        reader = asyncio.create_task(self._read(stream, requests), name=f"results of {stream.binder}")
        cut = asyncio.create_task(stream.cut.wait(), name=f"stream of {stream.binder}")
        try:
            async for message in _until(stream.outbox, [reader, cut]):
                yield message
        finally:
            for task in (reader, cut):
                task.cancel()
            await asyncio.wait([reader, cut])
            if not reader.cancelled() and (error := reader.exception()) is not None:
                _log.info("stream of a binder broke", binder=stream.binder, reason=repr(error))
            self._disconnect(stream)

    async def _read(self, stream: _Stream, requests: AsyncIterator[pb.BindRequest]) -> None:
        """Take in what a binder tells; on its next stream it tells anew what it had in hand here."""
        async for request in requests:
            stream.heard_at = self._clock()
            if self._streams.get(stream.binder) is not stream:
                return
            try:
                results = decode_results(request.results)
                self._carry_out(self._dispatcher.results(stream.binder, results, now=self._clock()))
            except MalformedMessage as error:
                _log.error("binder sends what it must not", binder=stream.binder, reason=str(error))
                return
            except Exception as error:  # noqa: BLE001 (whatever it is about, nobody else's binds stop for it)
                self._troubles.note("results of a binder", error, about=stream.binder)
                return

    def _disconnect(self, stream: _Stream) -> None:
        if self._streams.get(stream.binder) is not stream:
            return  # it is back already, on another stream
        del self._streams[stream.binder]
        if not self._streams:
            self._connected.clear()
        _log.info("binder disconnected", binder=stream.binder)
        self._carry_out(self._dispatcher.disconnect(stream.binder, now=self._clock()))

    # --- instructions --------------------------------------------------------------------------
    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        """Do what the dispatcher says; it says each thing once, so one that fails keeps back no other."""
        for instruction in instructions:
            with self._troubles.cut_off("decision", about=_about(instruction)):
                self._do(instruction)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Send(binder, deadline, assignments):
                self._send(binder, deadline, assignments)
            case Verdict(binder, bind, abandon):
                verdict = pb.GangVerdict(epoch=self.epoch, bind=bind, abandon=abandon)
                self._tell(binder, pb.BindResponse(verdict=verdict))
            case Settled() | Inherited():
                self._ended(instruction)
            case Cut(binder):
                _log.error("binder is silent", binder=binder)
                self._cut(binder)

    def _send(self, binder: str, deadline: float, assignments: tuple[Assignment, ...]) -> None:
        """Tell a binder, in several messages where one would be too large or one decision cannot be told."""
        told = self._message(deadline, assignments)
        if isinstance(told, pb.BindResponse):
            self._tell(binder, told)
        elif len(assignments) == 1:
            self._refuse(binder, assignments[0], told)
        else:  # by halves, which makes fewer messages than one for each
            middle = len(assignments) // 2
            self._send(binder, deadline, assignments[:middle])
            self._send(binder, deadline, assignments[middle:])

    def _message(self, deadline: float, assignments: tuple[Assignment, ...]) -> pb.BindResponse | Exception:
        """The message, or why there is none."""
        batch = DecisionBatch(epoch=self.epoch, deadline=deadline, assignments=assignments)
        most = PART_BYTES if len(assignments) > 1 else MAX_MESSAGE_BYTES
        try:
            message = pb.BindResponse(decisions=encode_batch(batch))
            size = message.ByteSize()
        except Exception as error:  # noqa: BLE001 (anything about one decision; the others are to be told)
            return error
        if size <= most:
            return message
        return MessageTooLarge(f"it takes {size >> 20} MiB, and a message may have {most >> 20} MiB")

    def _refuse(self, binder: str, assignment: Assignment, error: Exception) -> None:
        pod = assignment.decision.pod
        _log.error("decision cannot be told", pod=f"{pod.namespace}/{pod.name}", exc_info=error)
        result = Result(
            decision_id=assignment.decision_id,
            pod_uid=pod.uid,
            status=ResultStatus.FAILED,
            reason=f"the decision cannot be told to a binder ({type(error).__name__}: {error})",
        )
        self._carry_out(self._dispatcher.results(binder, [result], now=self._clock()))

    def _tell(self, binder: str, message: pb.BindResponse) -> None:
        stream = self._streams.get(binder)
        if stream is None:
            return
        stream.told_at = self._clock()
        try:
            stream.outbox.put_nowait(message)
        except asyncio.QueueFull:
            _log.error("binder does not read", binder=binder)
            self._cut(binder)

    def _cut(self, binder: str) -> None:
        """Break with a binder. What it had is for the others at once.

        gRPC may hold on to a message for one that does not read, or that died meanwhile, and then nobody
        asks its stream for the next.
        """
        if (stream := self._streams.get(binder)) is not None:
            stream.cut.set()
            asyncio.get_running_loop().call_soon(self._disconnect, stream)


def _about(instruction: Instruction) -> str:
    """Whom an instruction is about."""
    match instruction:
        case Settled(decision=decision):
            return f"{decision.pod.namespace}/{decision.pod.name}"
        case Inherited(pod_uid=uid):
            return f"pod {uid}"
        case Send(binder=binder) | Verdict(binder=binder) | Cut(binder=binder):
            return binder


async def _hello(
    requests: AsyncIterator[pb.BindRequest], context: grpc.aio.ServicerContext[Any, Any]
) -> pb.Hello:
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            async for request in requests:
                if request.hello.binder_id:
                    return request.hello
                break
    except TimeoutError:
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no hello within {SILENCE_SECONDS:g} s")
    await context.abort(
        grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a hello with a binder_id"
    )
    raise AssertionError("abort raises")


async def _until(
    outbox: asyncio.Queue[pb.BindResponse], ends: Sequence[asyncio.Task[Any]]
) -> AsyncIterator[pb.BindResponse]:
    """What comes into the outbox, until one of ``ends`` is done."""
    while True:
        take = asyncio.create_task(outbox.get())
        try:
            await asyncio.wait([take, *ends], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            take.cancel()
            raise
        if not take.done():
            take.cancel()
            return
        yield take.result()


class DecisionServicer(DecisionServiceServicer):
    """Passes binders on to whoever leads in this process; turns them away while nobody does."""

    def __init__(self) -> None:
        self.term: BinderStreams | None = None

    async def Bind(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.BindRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.BindResponse]:
        """One binder's stream."""
        if self.term is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler does not lead")
            return
        async for message in self.term.serve(request_iterator, context):
            yield message
