"""Reading one stream of whoever leads by a Lease, over lost connections and changes of leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
import structlog

from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.kube.leases import Leader
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.errors import MalformedMessage, PeerUnavailable
from kai.wire.leader import LeaderTracker
from kai.wire.permissions import Role

T = TypeVar("T")

_log = structlog.get_logger(__name__)


def one_by_one(decode: Callable[..., T]) -> Callable[[AsyncIterator[Any]], AsyncIterator[T]]:
    """Reads a stream message by message: ``decode(message, anew=…)``, which is true of the first one."""

    async def read(messages: AsyncIterator[Any]) -> AsyncIterator[T]:
        anew = True
        async for message in messages:
            yield decode(message, anew=anew)
            anew = False

    return read


async def follow(
    client: KubeClient,
    *,
    lease_name: str,
    namespace: str,
    tls: TlsFiles | None,
    ask: Callable[[grpc.aio.Channel], Any],
    read: Callable[[AsyncIterator[Any]], AsyncIterator[T]],
    what: str,
    longest_pause: float,
    unreadable: Callable[[], None] = lambda: None,
    server: Role = Role.SCHEDULER,
) -> AsyncIterator[T]:
    """What is read of the stream, for ever.

    Args:
        client: for the Lease that says who leads.
        lease_name: of that Lease.
        namespace: of that Lease.
        tls: for the stream; None without.
        ask: begins the stream, each time anew.
        read: what its messages say.
        what: the stream is called so in the log.
        longest_pause: seconds between two tries, at most.
        unreadable: is told before the next try that a message could not be read.
        server: who has to be at the other end.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """
    backoff = Backoff(maximum=longest_pause)
    async with LeaderTracker(client, lease_name=lease_name, namespace=namespace) as tracker:
        while True:
            leader = await tracker.present()
            try:
                async with (
                    open_channel(leader.endpoint, tls=tls, server=server) as channel,
                    _end_of(tracker, leader) as ended,
                ):
                    async for item in read(_messages(ask(channel), ended)):
                        backoff.reset()
                        yield item
            except MalformedMessage as error:
                unreadable()
                _log.error(f"{what} cannot be read", endpoint=leader.endpoint, reason=str(error))
            except PeerUnavailable as error:
                _log.warning(f"{what} cannot be asked for", endpoint=leader.endpoint, reason=str(error))
            except grpc.aio.AioRpcError as error:
                tell = _log.warning if error.code() is grpc.StatusCode.PERMISSION_DENIED else _log.debug
                tell(
                    f"stream of {what} broke",
                    endpoint=leader.endpoint,
                    code=error.code().name,
                    reason=error.details(),
                )
            await asyncio.sleep(backoff.next())


@asynccontextmanager
async def _end_of(tracker: LeaderTracker, leader: Leader) -> AsyncIterator[asyncio.Task[None]]:
    """A task that ends when the Lease names another leader or term."""
    ended = asyncio.create_task(tracker.replaced(leader), name="end of the leader's term")
    try:
        yield ended
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def _messages(call: Any, ended: asyncio.Task[None]) -> AsyncIterator[Any]:
    """What the leader says while it leads; one that was replaced may go on to talk, but not to us."""
    while not ended.done():
        reading = asyncio.ensure_future(call.read())
        try:
            await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                break
            message = reading.result()
        finally:  # how it ends is no matter of who does not listen any more
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if message is grpc.aio.EOF:
            return
        yield message
    ended.result()
