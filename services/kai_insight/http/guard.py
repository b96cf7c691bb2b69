"""Around every answer over HTTP: bounds, what is told where there is none, and what monitoring knows."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from kai_insight.http.metrics import ELSEWHERE, HttpMetrics
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.streams import Streamed

#: A question that takes longer is not answered.
DEADLINE_SECONDS: Final = 20.0
#: Questions that are under way, waiting for their turn included. Streams have bounds of their own.
MOST_AT_ONCE: Final = 64
#: Of one who asks: a third of them.
OF_ONE: Final = MOST_AT_ONCE // 3
#: What every answer says, unless it says otherwise: nothing is kept, and a browser loads nothing from
#: elsewhere, shows it within no other page, and sends no form.
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = structlog.get_logger(__name__)


class Guard:
    """Gives :meth:`middleware` to an application; ``deadline`` are the seconds that an answer may take."""

    def __init__(self, metrics: HttpMetrics | None = None, *, deadline: float = DEADLINE_SECONDS) -> None:
        self._metrics = metrics
        self._deadline = deadline
        self._under_way = 0
        self._of: Counter[str] = Counter()

    @contextmanager
    def place(self, asker: str) -> Iterator[None]:
        """One of the places that are there for all, once it is known who asks.

        Raises:
            Problem: he has his share already (503).
        """
        if self._of[asker] >= OF_ONE:
            raise Problem(Trouble.BUSY, f"{OF_ONE} questions of yours are under way; ask again later")
        self._of[asker] += 1
        try:
            yield
        finally:
            self._of[asker] -= 1
            if not self._of[asker]:
                del self._of[asker]

    @property
    def middleware(self) -> Middleware:
        """For all paths of an application."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            began = time.monotonic()
            response = await self._answered(request, handler)
            for name, said in HEADERS.items():
                response.headers.setdefault(name, said)
            resource = request.match_info.route.resource
            path = resource.canonical if resource is not None else ELSEWHERE
            if self._metrics is not None:
                self._metrics.answered(path, response.status, seconds=time.monotonic() - began)
            if isinstance(response, Streamed):
                await response.send(request)
            return response

        return guarded

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._under_way >= MOST_AT_ONCE:
            return told(Problem(Trouble.BUSY, f"{MOST_AT_ONCE} questions are under way; ask again later"))
        self._under_way += 1
        try:
            async with asyncio.timeout(self._deadline):
                return await handler(request)
        except Problem as problem:
            return told(problem)
        except web.HTTPMethodNotAllowed:
            return told(Problem(Trouble.METHOD_NOT_ALLOWED, "this is only read: use GET"))
        except web.HTTPNotFound:
            return told(
                Problem(Trouble.NOT_FOUND, "there is nothing here; /api/v1/openapi.json says what there is")
            )
        except TimeoutError:
            return told(
                Problem(
                    Trouble.TOO_SLOW,
                    f"no answer in {self._deadline:g} s; ask about less time, or later",
                )
            )
        except Exception:  # noqa: BLE001 (whoever asks is told, and the others are answered)
            _log.exception("a question over HTTP failed", path=request.path[:100])
            return told(Problem(Trouble.INTERNAL, "this failed; the log says why"))
        finally:
            self._under_way -= 1


def told(problem: Problem) -> web.Response:
    """A problem as an answer."""
    response = web.Response(body=problem.body, content_type="application/json")
    response.set_status(problem.trouble.status)
    response.headers.update(problem.headers)
    return response
