"""Past use of queues, for time-based fair share: read in the background, and used as last known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from prometheus_client import Histogram

from kai.engine.usage.params import InvalidUsageParams, UsageParams
from kai.engine.usage.window import staleness, used_shares, window_start
from kai.model.decisions import ResourceVector
from kai.runtime import SettingsError
from kai.session.errors import CacheUnavailable
from kai.session.usage import BUCKET_SECONDS, UsageRecord
from kai_scheduler.troubles import Troubles

_log = structlog.get_logger(__name__)


class UsageReader:
    """Reads the buckets that the queue controller records. ``clock`` gives Unix seconds."""

    def __init__(
        self,
        record: UsageRecord,
        params: UsageParams,
        *,
        latency: Histogram,
        troubles: Troubles,
        clock: Callable[[], float] = time.time,
    ) -> None:
        #: By queue: part of the cluster's CPU, memory and GPUs that it used.
        self.shares: dict[str, ResourceVector] = {}
        self._record = record
        self._params = params
        self._latency = latency
        self._troubles = troubles
        self._clock = clock
        self._read_at: float | None = None
        self._complaint: str | None = None

    async def run(self) -> None:
        """Read now and then, until cancelled. Without Redis the last known shares stay in use."""
        while True:
            try:
                await self.read()
            except CacheUnavailable as error:
                _log.debug("usage not read", reason=str(error))
            except Exception as error:  # noqa: BLE001 (whatever somebody wrote there, shares stay as they were)
                self._troubles.note("usage", error)
            self._complain()
            await asyncio.sleep(self._params.fetch_interval)

    async def read(self) -> None:
        """Read once.

        Raises:
            CacheUnavailable: Redis is away.
        """
        now = self._clock()
        started = time.perf_counter()
        history = await self._record.read(since=window_start(self._params, now=now) - BUCKET_SECONDS)
        self._latency.observe((time.perf_counter() - started) * 1000)
        self.shares = used_shares(
            history.queues, history.capacity, params=self._params, now=now, bucket_seconds=BUCKET_SECONDS
        )
        self._read_at = now

    def _complain(self) -> None:
        """Say once that the data is old, not with every read."""
        complaint = staleness(self._params, fetched_at=self._read_at, now=self._clock())
        if complaint is not None and self._complaint is None:
            _log.warning("usage is out of date", reason=complaint)
        self._complaint = complaint


def usage_params(usage_db: Mapping[str, Any]) -> UsageParams:
    """Window and decay from ``usageDBConfig``.

    Raises:
        SettingsError: a field cannot be used.
    """
    try:
        return UsageParams.parse(usage_db.get("usageParams") or {})
    except InvalidUsageParams as error:
        raise SettingsError(f"scheduler configuration: usageDBConfig.{error}") from error
