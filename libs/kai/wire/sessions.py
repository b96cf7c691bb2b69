"""Following the scheduler's sessions, over lost connections and changes of leader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog

from kai.kube.client import KubeClient
from kai.wire.channel import TlsFiles
from kai.wire.following import follow
from kai.wire.session_codec import SessionUpdate, decode_update
from kai.wire.session_parts import joined_sessions
from kai.wire.v1.session_pb2 import WatchSessionsRequest, WatchSessionsResponse
from kai.wire.v1.session_pb2_grpc import SessionServiceStub

__all__ = ["NOTHING", "SessionUpdate", "take_each", "watch_sessions"]

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
    from_first: bool = False,
    with_evictions: bool = False,
) -> AsyncIterator[SessionUpdate]:
    """Every session of whoever leads, for ever; the first update is full.

    With ``after`` (epoch and version of the last one known) it goes on there instead. After a lost connection
    it goes on where it was. Where the scheduler does not keep that any more, or another one leads, the next
    update is full again; with ``from_first`` it is instead the first session of who leads (version 1), where
    that is still kept. ``with_evictions``: a full update has those of the sessions that are kept.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """
    epoch, version = after or (0, 0)
    position = WatchSessionsRequest(
        after_version=version, epoch=epoch, from_first=from_first, with_evictions=with_evictions
    )

    async def read(messages: AsyncIterator[WatchSessionsResponse]) -> AsyncIterator[SessionUpdate]:
        nonlocal position
        async for message in joined_sessions(messages):
            position = WatchSessionsRequest(
                after_version=message.version,
                epoch=message.epoch,
                from_first=from_first,
                with_evictions=with_evictions,
            )
            yield decode_update(message)

    def begin_anew() -> None:
        """What it said is not known: it is asked for everything as it is now, not again for that."""
        nonlocal position
        position = WatchSessionsRequest()

    async for update in follow(
        client,
        lease_name=lease_name,
        namespace=namespace,
        tls=tls,
        ask=lambda channel: SessionServiceStub(channel).WatchSessions(position),
        read=read,
        what="sessions",
        longest_pause=5.0,
        unreadable=begin_anew,
    ):
        yield update


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
