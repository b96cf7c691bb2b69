"""Following the scheduler's sessions, over lost connections and changes of leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import structlog

from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.errors import MalformedMessage
from kai.wire.leader import LeaderTracker
from kai.wire.session_codec import SessionUpdate, decode_update
from kai.wire.v1.session_pb2 import WatchSessionsRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub

__all__ = ["SessionUpdate", "watch_sessions"]

_log = structlog.get_logger(__name__)


async def watch_sessions(
    client: KubeClient, *, lease_name: str, namespace: str, tls: TlsFiles | None = None
) -> AsyncIterator[SessionUpdate]:
    """Every session of whoever leads, for ever; the first update is full.

    After a lost connection it goes on where it was; where the scheduler does not keep that any more, or
    another one leads, the next update is full again.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """
    position = WatchSessionsRequest()
    backoff = Backoff(maximum=5.0)
    async with LeaderTracker(client, lease_name=lease_name, namespace=namespace) as tracker:
        while True:
            leader = await tracker.present()
            try:
                async with open_channel(leader.endpoint, tls=tls) as channel:
                    async for message in SessionServiceStub(channel).WatchSessions(position):
                        position = WatchSessionsRequest(after_version=message.version, epoch=message.epoch)
                        update = decode_update(message)
                        backoff.reset()
                        yield update
            except MalformedMessage as error:
                # What it said is not known: it is asked for everything.
                position = WatchSessionsRequest()
                _log.error("session cannot be read", endpoint=leader.endpoint, reason=str(error))
            except grpc.aio.AioRpcError as error:
                _log.debug("session stream broke", endpoint=leader.endpoint, code=error.code().name)
            await asyncio.sleep(backoff.next())
