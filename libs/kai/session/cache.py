"""Reading and writing the session cache. Only commands of Redis 6.2, so that any server does.

Writes go through one script that refuses an epoch older than the last one seen, and is atomic for
readers. Values are bytes: messages of ``kai.wire.v1`` and encoded snapshots, which this package
neither makes nor reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final, Self

import msgspec
import redis.asyncio as redis
from redis.exceptions import RedisError, ResponseError

from kai.session.credentials import RedisCredentials, remedy, speaks_tls
from kai.session.errors import CacheUnavailable, Fenced
from kai.session.keys import Keys

#: For one connection, and for one operation with all attempts at it.
CONNECT_SECONDS: Final = 5.0
DEADLINE_SECONDS: Final = 10.0
SNAPSHOTS_KEPT: Final = 3
SNAPSHOT_TTL_SECONDS: Final = 3600
SESSIONS_KEPT: Final = 10_000
HISTORY_SECONDS: Final = 6 * 3600

_SCRIPT: Final = resources.files(__package__).joinpath("publish.lua").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest published session; ``snapshot`` is the newest version that has a blob (0: none)."""

    version: int
    epoch: int
    digest: str
    snapshot: int = 0


class InFlightDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that was given out and is not settled."""

    pod: str
    pod_uid: str
    node: str
    epoch: int
    deadline: float
    gpu_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One session to publish. ``in_flight`` is all that is given out now, by decision id."""

    version: int
    epoch: int
    #: Unix seconds.
    opened_at: float
    digest: str = ""
    update: bytes = b""
    decisions: bytes = b""
    snapshot: bytes = b""
    in_flight: Mapping[str, InFlightDecision] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One session of the past; ``at`` is the Unix time in seconds at which Redis got it."""

    at: float
    version: int
    epoch: int
    update: bytes
    decisions: bytes


class SessionCache:
    """The session cache of one shard. Every method may raise ``CacheUnavailable``."""

    def __init__(self, connection: redis.Redis, *, shard: str) -> None:
        self.keys = Keys(shard)
        # Redis' stubs cannot say that we read bytes; the annotations of our methods do.
        self.connection: Any = connection
        self._tls = speaks_tls(connection)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, url: str, *, shard: str, credentials: RedisCredentials | None = None
    ) -> AsyncIterator[Self]:
        """A cache at ``redis://…``, ``rediss://…`` or ``unix://…``. Nothing is sent before the first call."""
        # With a timeout of its own the client sends by `asyncio.wait_for`, which before Python 3.12 loses a
        # cancellation that comes just when all is sent: whoever waits for the task then waits for ever.
        connection = (credentials or RedisCredentials()).connection(
            url, socket_timeout=None, socket_connect_timeout=CONNECT_SECONDS, max_connections=4
        )
        try:
            yield cls(connection, shard=shard)
        finally:
            await connection.aclose()

    @asynccontextmanager
    async def translated(self, operation: str, *, epoch: int = 0) -> AsyncIterator[None]:
        """Errors of the Redis client as ours, with what to do about them; an answer that is late is one."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                yield
        except ResponseError as error:
            if str(error).startswith("FENCED"):
                newer = str(error).partition(" ")[2]
                raise Fenced(f"epoch {epoch} is over: a leader of epoch {newer} has published") from error
            if "READONLY" in str(error):
                # Another leads now, and may have the address already: connections that are kept do not know.
                await self.connection.connection_pool.disconnect(inuse_connections=False)
            raise CacheUnavailable(f"redis refuses {operation}: {error}") from error
        except (RedisError, OSError) as error:
            failure = f"{str(error) or 'nothing came in time'}{remedy(error, tls=self._tls)}"
            raise CacheUnavailable(f"redis does not answer {operation}: {failure}") from error

    async def ping(self) -> None:
        """Ask whether it is there."""
        async with self.translated("PING"):
            await self.connection.ping()

    async def publish(self, publication: Publication) -> bool:
        """Publish; false if this version had been published already.

        Raises:
            Fenced: a leader with a greater epoch has published.
        """
        oldest_ms = max(0, int((publication.opened_at - HISTORY_SECONDS) * 1000))
        arguments: list[Any] = [
            publication.epoch,
            publication.version,
            publication.digest,
            publication.update,
            publication.decisions,
            SESSIONS_KEPT,
            oldest_ms,
            publication.snapshot,
            SNAPSHOT_TTL_SECONDS,
            SNAPSHOTS_KEPT,
            f"{self.keys.prefix}snap:",
            HISTORY_SECONDS,
        ]
        for decision_id, decision in publication.in_flight.items():
            arguments += [decision_id, msgspec.json.encode(decision)]
        keys = [
            self.keys.head,
            self.keys.sessions,
            self.keys.inflight,
            self.keys.snapshots,
            self.keys.snapshot(publication.version),
        ]
        async with self.translated("publish", epoch=publication.epoch):
            return bool(await self.connection.eval(_SCRIPT, len(keys), *keys, *arguments))

    async def forget_head(self) -> None:
        """Let the next publication be the first, whatever its epoch."""
        async with self.translated("forget head"):
            await self.connection.delete(self.keys.head)

    async def head(self) -> Head | None:
        """The newest session; None if nothing was published."""
        async with self.translated("head"):
            values = await self.connection.hgetall(self.keys.head)
        if not values:
            return None
        return Head(
            version=int(values[b"version"]),
            epoch=int(values[b"epoch"]),
            digest=values[b"digest"].decode(),
            snapshot=int(values.get(b"snapshot", 0)),
        )

    async def snapshot(self, version: int) -> bytes | None:
        """The encoded snapshot of a version; None if it is not kept (any more)."""
        async with self.translated("snapshot"):
            blob: bytes | None = await self.connection.get(self.keys.snapshot(version))
        return blob

    async def in_flight(self) -> dict[str, InFlightDecision]:
        """Decisions by id that were given out and not settled, as far as the cache was told."""
        async with self.translated("inflight"):
            values = await self.connection.hgetall(self.keys.inflight)
        return {
            decision_id.decode(): msgspec.json.decode(value, type=InFlightDecision)
            for decision_id, value in values.items()
        }

    async def history(self, *, since: float = 0.0, limit: int = SESSIONS_KEPT) -> list[HistoryEntry]:
        """The newest ``limit`` sessions that came after ``since`` (Unix seconds), oldest first."""
        async with self.translated("sessions"):
            entries = await self.connection.xrevrange(
                self.keys.sessions, min=str(int(since * 1000)), max="+", count=limit
            )
        return [_history_entry(entry_id, values) for entry_id, values in reversed(entries)]


def _history_entry(entry_id: bytes, values: dict[bytes, bytes]) -> HistoryEntry:
    return HistoryEntry(
        at=int(entry_id.partition(b"-")[0]) / 1000,
        version=int(values[b"version"]),
        epoch=int(values[b"epoch"]),
        update=values[b"update"],
        decisions=values[b"decisions"],
    )
