"""One request and its answer: deadline, repetition, credentials, errors, metrics.

Every call has a deadline, within which it is tried again with jitter. After a failure to connect,
429 and 503 that is always right; after other failures the server may have carried the request out,
so it is repeated only if that is harmless. Writes go through the dispatcher, and their deadline begins
when it is their turn.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from kai.kube import errors
from kai.kube.answers import decoded
from kai.kube.authorities import aiohttp
from kai.kube.backoff import Backoff
from kai.kube.dispatcher import Dispatcher
from kai.kube.metrics import RequestMetrics
from kai.kube.pace import Pace
from kai.kube.ranks import Rank
from kai.kube.request import DEADLINE_SECONDS, Request
from kai.kube.transport import Transport

_LEASES: Final = "leases"


class Exchange:
    """Sends requests over one transport."""

    def __init__(self, transport: Transport, metrics: RequestMetrics, *, pace: Pace | None = None) -> None:
        self.transport = transport
        self.metrics = metrics
        self.pace = pace
        #: Held by the read that has the next turn of the pace: one that gives up waiting takes none away.
        self._next_read = asyncio.Lock()
        self.dispatcher = Dispatcher(metrics.writes, pace=pace)

    async def call(self, request: Request, *, deadline: float) -> bytes:
        """The body of the answer.

        Raises:
            ApiError: the server refused, for good or until the deadline.
            TransportError: there was no whole answer.
            DeadlineExceeded: there was none in time.
            NotSent: a write that is not urgent, where too many wait.
        """
        if request.rank in (None, Rank.LEASE):
            return await self._insist(request, lambda: self.once(request), deadline=deadline)
        return await self.dispatcher.write(
            request,
            lambda turn: self._insist(request, lambda: turn.attempt(self.once), deadline=deadline),
        )

    async def _insist(
        self, request: Request, attempt: Callable[[], Awaitable[bytes]], *, deadline: float
    ) -> bytes:
        backoff = Backoff()
        now = asyncio.get_running_loop().time
        give_up = now() + deadline
        try:
            async with asyncio.timeout_at(give_up):
                while True:
                    try:
                        return await attempt()
                    except errors.KubeError as error:
                        if not _may_repeat(request, error):
                            raise
                        delay = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
                        if now() + delay >= give_up:
                            raise
                    self.metrics.retried(request.verb, request.resource)
                    await asyncio.sleep(delay)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"{request}: no answer of {self.transport.server} in {deadline:g} s"
            ) from None

    async def reach(self, *, wait: float) -> None:
        """One question that everyone may ask, so that a wrong address or credential is told at once.

        A server that cannot be reached, or is silent, is asked again for up to ``wait`` seconds.
        """
        now = asyncio.get_running_loop().time
        give_up = now() + wait
        backoff = Backoff(initial=0.5, maximum=3.0)
        server = self.transport.server
        while True:
            try:
                await self._greet()
            except (errors.TransportError, errors.ServerError, errors.TooManyRequests) as error:
                delay = backoff.next()
                if now() + delay > give_up:
                    raise
                _warn("api server not reachable yet", server=server, error=str(error))
                await asyncio.sleep(delay)
            else:
                return

    async def _greet(self) -> None:
        server = self.transport.server
        request = Request(verb="get", resource="version", path="/version")
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                body = await self.once(request)
            decoded(body, dict, request=request)
        except TimeoutError:
            raise errors.DeadlineExceeded(f"{server} accepts connections but does not answer") from None
        except errors.NotFound as error:
            raise _of_another(server, "it has no /version") from error
        except errors.Unintelligible as error:
            raise _of_another(server, "its answer to /version is no JSON object") from error
        except errors.ServerError as error:
            said = "a page for browsers" if error.message.startswith("<") else error.message
            raise type(error)(
                f"{server} answers {error.status}: {said}",
                status=error.status,
                reason=error.reason,
                details=error.details,
                request=error.request,
                retry_after=error.retry_after,
            ) from error

    async def once(self, request: Request) -> bytes:
        """The body of the answer to a single attempt."""
        with self.metrics.timed(request.verb, request.resource):
            try:
                response = await self.open(request)
                async with response:
                    return await response.read()
            except (aiohttp.ClientError, OSError) as error:
                self._answered(request, "error")
                raise self.failure(request, error) from error

    async def open(
        self, request: Request, *, limits: aiohttp.ClientTimeout | None = None
    ) -> aiohttp.ClientResponse:
        """Send once; an answer that is not a refusal.

        After 401 it is sent once more with fresh credentials, and where the server's certificate is not
        trusted with fresh authorities: those of a cluster are replaced, too.
        """
        await self._wait_for_turn(request)
        headers = {"Content-Type": request.content_type} if request.data is not None else {}
        if request.accept:
            headers["Accept"] = request.accept
        for last in (False, True):
            generation = self.transport.generation
            try:
                response = await self.transport.request(
                    request.method,
                    request.path,
                    params=request.params,
                    data=request.data,
                    headers=headers,
                    limits=limits,
                )
            except aiohttp.ClientConnectorCertificateError:
                if last or not await self.transport.reload(generation):
                    raise
                continue
            self._answered(request, str(response.status))
            if response.status < 400:
                return response
            async with response:
                body = await response.read()
            if response.status != 401 or last or not await self.transport.reload(generation):
                break
        raise errors.api_error(
            response.status, body, request=str(request), retry_after=_retry_after(response)
        )

    async def _wait_for_turn(self, request: Request) -> None:
        """Leases go first: who renews one late leads no longer. Writes had their turn from the dispatcher."""
        if self.pace is not None and request.rank is None and request.resource != _LEASES:
            async with self._next_read:
                await asyncio.sleep(self.pace.turn())

    def _answered(self, request: Request, code: str) -> None:
        host = self.transport.server.partition("://")[2]
        self.metrics.answered(request.verb, request.resource, code, method=request.method, host=host)

    def failure(self, request: Request, error: Exception) -> errors.TransportError:
        """What went wrong below HTTP, in our words; raise it ``from`` the error."""
        server = self.transport.server
        match error:
            case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
                return errors.TransportError(f"{request}: certificate of {server} is not trusted: {error}")
            case aiohttp.ClientConnectorError():
                return errors.TransportError(f"{request}: cannot connect to {server}: {error.os_error}")
            case aiohttp.ServerTimeoutError():
                return errors.DeadlineExceeded(f"{request}: {server} is silent")
            case _:
                reason = str(error) or type(error).__name__
                return errors.TransportError(f"{request}: connection to {server} broke: {reason}")


def _of_another(server: str, why: str) -> errors.TransportError:
    return errors.TransportError(
        f"{server} is no Kubernetes API server ({why}); see the server of the kubeconfig's cluster"
    )


def _warn(event: str, **values: str) -> None:
    """Say something; what writes it is loaded only now, as programs that live for a moment never get here."""
    import structlog

    structlog.get_logger(__name__).warning(event, **values)


def _may_repeat(request: Request, error: errors.KubeError) -> bool:
    match error:
        case errors.TooManyRequests():
            return request.retry_throttled
        case errors.ServerError(status=503):
            return True
        case errors.ServerError():
            return request.repeatable
        case errors.TransportError():
            return request.repeatable or isinstance(error.__cause__, aiohttp.ClientConnectorError)
        case _:
            return False


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    try:
        return float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        return None
