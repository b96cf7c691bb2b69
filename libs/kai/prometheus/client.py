"""Instant queries over HTTP. Each has a deadline; nothing is tried twice here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kai.prometheus.errors import PrometheusUnavailable, QueryRefused, UnreadableAnswer

#: An answer that is longer is not taken.
LONGEST_ANSWER_BYTES: Final = 32 * 2**20
_SHOWN: Final = 300
#: What those answer who take no POST.
_GET_ONLY: Final = (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a vector; the value may be NaN or infinite."""

    labels: dict[str, str]
    value: float


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


class PrometheusClient:
    """Asks the Prometheus at one URL."""

    def __init__(self, url: str, *, session: aiohttp.ClientSession) -> None:
        self._query = f"{url.rstrip('/')}/api/v1/query"
        self._session = session
        #: As it may be told.
        self.place = f"Prometheus at {shown(url)}"

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str) -> AsyncIterator[Self]:
        """A client for ``http://…`` or ``https://…``, with user and password in it where that asks for them.

        Nothing is sent before the first query.
        """
        connector = aiohttp.TCPConnector(limit=4)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield cls(url, session=session)

    async def query(self, expression: str, *, at: float, seconds: float) -> list[Sample]:
        """The vector that an expression comes to at a time (Unix seconds), within so many seconds.

        Raises:
            PrometheusUnavailable: nobody answers in time, or who answers cannot now.
            QueryRefused: the expression is wrong, or we may not ask.
            UnreadableAnswer: the answer is no vector of samples.
        """
        form = {"query": expression, "time": f"{at:.3f}", "timeout": f"{max(1, round(seconds * 1000))}ms"}
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            status, body = await self._ask("POST", limit, data=form)
            if status in _GET_ONLY:
                status, body = await self._ask("GET", limit, params=form)
        except TimeoutError as error:
            raise PrometheusUnavailable(f"{self.place} does not answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PrometheusUnavailable(f"{self.place} does not answer: {told(error)}") from error
        return self._read(status, body)

    async def _ask(self, method: str, limit: aiohttp.ClientTimeout, **form: Any) -> tuple[int, bytes]:
        async with self._session.request(method, self._query, timeout=limit, **form) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > LONGEST_ANSWER_BYTES:
                    raise UnreadableAnswer(
                        f"{self.place} answers with more than {LONGEST_ANSWER_BYTES // 2**20} MiB; ask for"
                        " fewer series"
                    )
            return response.status, bytes(body)

    def _read(self, status: int, body: bytes) -> list[Sample]:
        answer = _decoded(body)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise PrometheusUnavailable(f"{self.place} answers {status}: {_reason(answer, body)}")
        if status != HTTPStatus.OK:
            raise QueryRefused(f"{self.place} answers {status}: {_reason(answer, body)}")
        if answer is None or answer.status != "success" or answer.data is None:
            raise UnreadableAnswer(f"{self.place} does not answer as a Prometheus: {_reason(answer, body)}")
        if answer.data.result_type != "vector":
            raise UnreadableAnswer(
                f"{self.place} answers with a {answer.data.result_type}, not with a vector"
            )
        try:
            found = msgspec.json.decode(answer.data.result, type=list[_Series])
            return [Sample(labels=each.metric, value=float(each.value[1])) for each in found]
        except ValueError as error:
            raise UnreadableAnswer(f"{self.place} answers with what is no sample: {error}") from error


def _decoded(body: bytes) -> _Answer | None:
    try:
        return msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        return None


def _reason(answer: _Answer | None, body: bytes) -> str:
    if answer is not None and answer.error:
        return f"{answer.error_type}: {answer.error}"[:_SHOWN]
    return repr(body[:_SHOWN].decode(errors="replace")) if body else "nothing"


def told(error: Exception) -> str:
    """Why nobody answers; without a URL, which may have a password in it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    return type(error).__name__


def shown(url: str) -> str:
    """A URL as it may be told: without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
