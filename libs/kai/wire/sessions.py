"""Following the scheduler's sessions, over lost connections and changes of leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import structlog

from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.kube.leases import Leader
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.errors import MalformedMessage
from kai.wire.leader import LeaderTracker
from kai.wire.session_codec import SessionUpdate, decode_update
from kai.wire.v1.session_pb2 import WatchSessionsRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub

__all__ = ["NOTHING", "SessionUpdate", "end_of", "messages", "take_each", "watch_sessions"]

#: What is to be known of a scheduler that is there no more.
NOTHING: Final = SessionUpdate(version=0, epoch=0, opened_at=0.0, full=True)

_log = structlog.get_logger(__name__)


async def watch_sessions(
    client: KubeClient,
    *,
    lease_name: str,
    namespace: str,
    tls: TlsFiles | None = None,
    after: tuple[int, int] | None = None,
) -> AsyncIterator[SessionUpdate]:
    """Every session of whoever leads, for ever; the first update is full.

    With ``after`` (epoch and version of the last one known) it goes on there instead. After a lost connection
    it goes on where it was. Where the scheduler does not keep that any more, or another one leads, the next
    update is full again.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """
    epoch, version = after or (0, 0)
    position = WatchSessionsRequest(after_version=version, epoch=epoch)
    backoff = Backoff(maximum=5.0)
    async with LeaderTracker(client, lease_name=lease_name, namespace=namespace) as tracker:
        while True:
            leader = await tracker.present()
            try:
                async with (
                    open_channel(leader.endpoint, tls=tls) as channel,
                    end_of(tracker, leader) as ended,
                ):
                    call = SessionServiceStub(channel).WatchSessions(position)
                    async for message in messages(call, ended):
                        position = WatchSessionsRequest(after_version=message.version, epoch=message.epoch)
                        update = decode_update(message)
                        backoff.reset()
                        yield update
            except MalformedMessage as error:
                # What it said is not known: it is asked for everything.
                position = WatchSessionsRequest()
                _log.error("session cannot be read", endpoint=leader.endpoint, reason=str(error))
            except grpc.aio.AioRpcError as error:
                tell = _log.warning if error.code() is grpc.StatusCode.PERMISSION_DENIED else _log.debug
                tell(
                    "session stream broke",
                    endpoint=leader.endpoint,
                    code=error.code().name,
                    reason=error.details(),
                )
            await asyncio.sleep(backoff.next())


async def take_each(
    updates: AsyncIterator[SessionUpdate], take: Callable[[str, SessionUpdate], None], *, shard: str
) -> None:
    """Have ``take`` take in what the scheduler of a shard publishes, for as long as it does.

    One session that cannot be taken in is logged, and does not keep all later ones away.
    """
    async for update in updates:
        try:
            take(shard, update)
        except Exception:  # noqa: BLE001 (whatever is wrong with one, the next may be right)
            _log.exception("session cannot be taken in", shard=shard, version=update.version)


@asynccontextmanager
async def end_of(tracker: LeaderTracker, leader: Leader) -> AsyncIterator[asyncio.Task[None]]:
    """A task that ends when the Lease names another leader or term."""
    ended = asyncio.create_task(tracker.replaced(leader), name="end of the leader's term")
    try:
        yield ended
    finally:
        ended.cancel()
        await asyncio.wait([ended])


async def messages(call: Any, ended: asyncio.Task[None]) -> AsyncIterator[Any]:
    """What the leader says while it leads; one that was replaced may go on to talk, but not to us."""
    while not ended.done():
        reading = asyncio.ensure_future(call.read())
        try:
            await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not reading.done():
                reading.cancel()
        if not reading.done():
            break
        if (message := reading.result()) is grpc.aio.EOF:
            return
        yield message
    ended.result()
