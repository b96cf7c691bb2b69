"""Where past use of queues is read from: Redis, where the queue-controller records it, or a Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, Protocol

from kai.config import UsageClient, UsageDatabase
from kai.config.arguments import ConfigError
from kai.config.usage_database import url_of
from kai.config.usage_params import UsageParams
from kai.engine.usage import prometheus
from kai.engine.usage.prometheus import QUEUE_LABEL, Answer, Question, Shares, Window
from kai.engine.usage.window import used_shares, window_start
from kai.prometheus import PrometheusClient, PrometheusError
from kai.runtime import SettingsError
from kai.session.cache import SessionCache
from kai.session.errors import CacheUnavailable
from kai.session.usage import BUCKET_SECONDS
from kai.session.usage_history import UsageBuckets
from kai.session.usage_view import UsageView

_NOTHING: Final = Shares(by_queue={}, notes=())


class UsageUnavailable(Exception):
    """Past use cannot be read now; the message says why."""


class UsageSource(Protocol):
    """Whoever knows what queues used."""

    async def read(self, *, now: float) -> Shares:
        """The part of the cluster that each queue used in the window that ends ``now`` (Unix seconds).

        Raises:
            UsageUnavailable: it cannot be known now.
        """


class RecordedUsage:
    """The buckets that the queue-controller keeps in Redis."""

    def __init__(self, buckets: UsageBuckets, params: UsageParams) -> None:
        self._view = UsageView(buckets)
        self._params = params

    async def read(self, *, now: float) -> Shares:
        """See :class:`UsageSource`."""
        since = window_start(self._params, now=now) - BUCKET_SECONDS
        try:
            history = await self._view.read(since=since, now=now)
        except CacheUnavailable as error:
            raise UsageUnavailable(str(error)) from error
        found = used_shares(
            history.queues, history.capacity, params=self._params, now=now, bucket_seconds=BUCKET_SECONDS
        )
        return Shares(by_queue=found, notes=())


class PrometheusUsage:
    """The series of the queue-controller and of kube-state-metrics in a Prometheus."""

    def __init__(self, client: PrometheusClient, params: UsageParams) -> None:
        self._client = client
        self._params = params

    async def read(self, *, now: float) -> Shares:
        """See :class:`UsageSource`. All queries are as of ``now``, so that what they sum is the same time."""
        asked = self._params.prometheus
        window = Window(
            since=window_start(self._params, now=now), until=now, half_life=self._params.half_life
        )
        if not window.has_begun(asked):
            return _NOTHING
        try:
            async with asyncio.timeout(asked.query_timeout):
                answers = [await self._answer(each, now) for each in prometheus.questions(asked, window)]
        except PrometheusError as error:
            raise UsageUnavailable(str(error)) from error
        except TimeoutError as error:
            raise UsageUnavailable(
                f"{self._client.place} does not answer within {asked.query_timeout:g} s"
                " (usageQueryTimeout of extraParams)"
            ) from error
        if all(answer.capacity is None for answer in answers):
            raise UsageUnavailable(
                f"{self._client.place} has no series of what the cluster's nodes offer: let it scrape"
                " kube-state-metrics, or name other metrics in extraParams (gpuCapacityMetric and its like)"
            )
        found = prometheus.shares(answers)
        if any(answer.used for answer in answers):
            return found
        unheard = (
            f"{self._client.place} has no series of what queues hold: let it scrape the queue-controller"
        )
        return replace(found, notes=(unheard, *found.notes))

    async def _answer(self, question: Question, now: float) -> Answer:
        seconds = self._params.prometheus.query_timeout
        capacity = await self._client.query(question.capacity, at=now, seconds=seconds)
        used = await self._client.query(question.allocation, at=now, seconds=seconds)
        return Answer(
            resource=question.resource,
            used=[(queue, each.value) for each in used if (queue := each.labels.get(QUEUE_LABEL))],
            capacity=sum(each.value for each in capacity) if capacity else None,
        )


def connection(database: UsageDatabase, environment: Mapping[str, str]) -> str:
    """The URL that was configured; empty where Redis is that of the flag ``--redis-url``.

    Raises:
        SettingsError: none is told for a Prometheus, or the variable that is named does not hold one.
    """
    where = "scheduler configuration: usageDBConfig"
    if name := database.connection_variable:
        if not (value := environment.get(name, "").strip()):
            raise SettingsError(
                f"{where}.connectionStringEnvVar: the variable {name} is not set; set it to a URL"
            )
        try:
            return url_of(
                database.client, value, where=f"{where}.connectionStringEnvVar: the variable {name}"
            )
        except ConfigError as error:
            raise SettingsError(str(error)) from error
    if database.client is UsageClient.PROMETHEUS and not database.connection:
        raise SettingsError(
            f"{where}.connectionString: say where the Prometheus is, for example http://prometheus:9090"
        )
    return database.connection


async def open_source(
    database: UsageDatabase,
    url: str,
    *,
    cache: SessionCache | None,
    shard: str,
    stack: AsyncExitStack,
) -> UsageSource | None:
    """The source that was configured, open until the stack is closed; None where there is no Redis to ask.

    Args:
        database: what was configured.
        url: its :func:`connection`; that of a Redis says all there is to say, the password among it.
        cache: the Redis of ``--redis-url``, if that is given.
        shard: whose usage it is.
        stack: closes what is opened.
    """
    if database.client is UsageClient.PROMETHEUS:
        client = await stack.enter_async_context(PrometheusClient.connect(url))
        return PrometheusUsage(client, database.params)
    if url:
        cache = await stack.enter_async_context(SessionCache.connect(url, shard=shard))
    return RecordedUsage(UsageBuckets(cache), database.params) if cache is not None else None
