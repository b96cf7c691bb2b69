"""Whether a Prometheus of the user's own answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import structlog

from kai.prometheus import shown, told
from kai_operator.product import Endpoint

_PATH = "/api/v1/status/config"

_log = structlog.get_logger(__name__)


class PrometheusMonitor:
    """Asks one Prometheus every now and then. ``changed`` is called when it answers no more, or again.

    Before the first answer it counts as answering.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.problem: str | None = None
        self._changed = changed
        self._endpoint: Endpoint | None = None
        self._chosen = asyncio.Event()

    @property
    def follows(self) -> bool:
        """Whether there is one to ask."""
        return self._endpoint is not None

    def follow(self, endpoint: Endpoint | None) -> None:
        """Ask this one from now on; None: nobody."""
        if endpoint == self._endpoint:
            return
        self._endpoint, self.problem = endpoint, None
        self._chosen.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        async with aiohttp.ClientSession() as session:
            while True:
                self._chosen.clear()
                endpoint = self._endpoint
                if endpoint is not None:
                    problem = await ask(session, endpoint)
                    if endpoint == self._endpoint and problem != self.problem:
                        _log.info("prometheus", url=shown(address(endpoint.url)), problem=problem or "none")
                        self.problem = problem
                        self._changed()
                await self._pause(endpoint)

    async def _pause(self, endpoint: Endpoint | None) -> None:
        try:
            async with asyncio.timeout(None if endpoint is None else endpoint.interval):
                await self._chosen.wait()
        except TimeoutError:
            return


async def ask(session: aiohttp.ClientSession, endpoint: Endpoint) -> str | None:
    """What keeps it from answering, after as many tries as are allowed, each later than the one before.

    What is told has no password in it, which the URL may have.
    """
    problem, url = "", address(endpoint.url)
    place = shown(url)
    for attempt in range(endpoint.retries + 1):
        await asyncio.sleep(attempt)
        try:
            limit = aiohttp.ClientTimeout(total=endpoint.timeout)
            async with session.get(f"{url}{_PATH}", timeout=limit) as answer:
                if answer.status == 200:
                    return None
                problem = f"{place} answers with status {answer.status}"
        except TimeoutError:
            problem = f"{place} does not answer within {endpoint.timeout:g} s"
        except (aiohttp.ClientError, ValueError, OSError) as error:
            problem = f"{place} cannot be reached: {told(error)}"
    return problem


def address(url: str) -> str:
    """Where it is; an address without a scheme is one of http."""
    whole = url if "://" in url else f"http://{url}"
    return whole.rstrip("/")
