"""Publishing in the background: bounded, in order, and never waited for.

While Redis is away sessions are dropped (oldest first) and counted. Each carries all that is in flight,
so that a Redis that comes back empty is right again with the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from kai.kube.backoff import Backoff
from kai.session.cache import Publication, SessionCache
from kai.session.errors import CacheUnavailable, Fenced

WAITING_AT_MOST: Final = 64
#: By then a leader that was replaced knows it from its Lease, and offers nothing more.
TERM_ENDS_SECONDS: Final = 30.0

_log = structlog.get_logger(__name__)


class PublisherMetrics:
    """How the session cache does."""

    def __init__(self, registry: CollectorRegistry, *, namespace: str = "kai") -> None:
        self._registry = registry
        self._up = Gauge(
            f"{namespace}_session_cache_up", "Whether the last write to Redis succeeded", registry=None
        )
        self._has_written = False
        self.published = Counter(
            f"{namespace}_session_cache_published_total", "Sessions written to Redis", registry=registry
        )
        self.dropped = Counter(
            f"{namespace}_session_cache_dropped_total",
            "Sessions not written to Redis because it was away or too slow",
            registry=registry,
        )

    def wrote(self, *, succeeded: bool) -> None:
        """A write ended so. Who waits to lead writes nothing, and tells nothing of Redis."""
        self._up.set(succeeded)
        if not self._has_written:
            self._registry.register(self._up)
            self._has_written = True


class SessionPublisher:
    """Takes sessions with :meth:`offer`, which returns at once, and writes them while :meth:`run` runs.

    ``failed`` is told why a session could not be written, where that is not for want of Redis.
    """

    def __init__(
        self, cache: SessionCache, *, metrics: PublisherMetrics, failed: Callable[[Exception], None]
    ) -> None:
        self._failed = failed
        self._cache = cache
        self._metrics = metrics
        self._waiting: deque[Publication] = deque()
        self._offered = asyncio.Event()
        #: Since when Redis says that a later leader has published, by the clock of the event loop.
        self._fenced_since: float | None = None

    def offer(self, publication: Publication) -> None:
        """Publish this soon. If too many wait already, the oldest is dropped."""
        self._waiting.append(publication)
        if len(self._waiting) > WAITING_AT_MOST:
            self._waiting.popleft()
            self._metrics.dropped.inc()
        self._offered.set()

    async def run(self) -> None:
        """Write what is offered, until cancelled."""
        backoff = Backoff(initial=0.5, maximum=10.0)
        while True:
            if not self._waiting:
                self._offered.clear()
                await self._offered.wait()
            publication = self._waiting[0]
            try:
                await self._publish(publication)
            except Fenced as error:
                if self._fenced_since is None:
                    _log.warning("session cache is fenced", reason=str(error))
                    self._fenced_since = asyncio.get_running_loop().time()
                self._metrics.wrote(succeeded=False)
                self._metrics.dropped.inc()
                self._drop(publication)
                continue
            except CacheUnavailable as error:
                if backoff.failures == 0:
                    _log.warning("session cache is away; scheduling goes on", reason=str(error))
                self._metrics.wrote(succeeded=False)
                await asyncio.sleep(backoff.next())
                continue
            except Exception as error:  # noqa: BLE001 (one that cannot be written costs nobody the others)
                self._failed(error)
                self._metrics.dropped.inc()
                self._drop(publication)
                continue
            # An overflow during the write may have dropped it already.
            self._drop(publication)
            self._fenced_since = None
            if backoff.failures:
                _log.info("session cache is back")
                backoff.reset()
            self._metrics.wrote(succeeded=True)
            self._metrics.published.inc()

    async def _publish(self, publication: Publication) -> None:
        """Only the Lease ends a term: a fence that outlasts that has been made up, and is taken away."""
        since = self._fenced_since
        if since is not None and asyncio.get_running_loop().time() - since > TERM_ENDS_SECONDS:
            _log.warning("session cache tells of a leader that the Lease does not know; it is begun anew")
            await self._cache.forget_head()
        await self._cache.publish(publication)

    def _drop(self, publication: Publication) -> None:
        if self._waiting and self._waiting[0] is publication:
            self._waiting.popleft()
