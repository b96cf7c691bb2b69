"""Server-sent events: what changes, told as it comes, to so many at most."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Final

from aiohttp import web

from kai_insight.http.access import Caller
from kai_insight.http.problems import Problem, Trouble

#: Streams that are open at once, those of one user, and those of all service accounts of a namespace.
MOST_STREAMS: Final = 200
MOST_OF_ONE: Final = 20
MOST_OF_NAMESPACE: Final = MOST_STREAMS // 3
#: Whether somebody still may see what he is told is looked at so often.
RECHECK_SECONDS: Final = 30.0
#: Who takes nothing for so long is not written to any more.
_STUCK_SECONDS: Final = 60.0

_ANEW: Final = b"event: anew\ndata: {}\n\n"
_STILL_THERE: Final = b": still there\n\n"


class Streams:
    """The places that there are."""

    def __init__(self) -> None:
        self._open = 0
        self._of: Counter[str] = Counter()

    def check(self, caller: Caller) -> None:
        """See to it that there is one for who asks.

        Raises:
            Problem: there is none (503).
        """
        own, of_all = self._of[caller.user], self._of[caller.asker]
        if self._open >= MOST_STREAMS or own >= MOST_OF_ONE or of_all >= MOST_OF_NAMESPACE:
            told = f"{MOST_STREAMS} streams are open, or {MOST_OF_ONE} of yours"
            if caller.asker != caller.user:
                told += f", or {MOST_OF_NAMESPACE} of all service accounts of your namespace"
            raise Problem(Trouble.BUSY, f"{told}; close some, or ask again later")

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Take one of them."""
        of = {caller.user, caller.asker}
        self._open += 1
        self._of.update(of)
        try:
            yield
        finally:
            self._open -= 1
            self._of.subtract(of)
            for each in of:
                if not self._of[each]:
                    del self._of[each]


class Streamed(web.StreamResponse):
    """An answer that comes bit by bit. Whoever answers returns it, and :meth:`send` is called on it."""

    async def send(self, request: web.Request) -> None:
        """All of it, after the answer was found; it has no deadline, and takes no place of a question."""
        raise NotImplementedError

    async def tell(self, data: bytes) -> None:
        """Some of it; raises where nobody takes it."""
        async with asyncio.timeout(_STUCK_SECONDS):
            await self.write(data)


class EventStream(Streamed):
    """Changes as events.

    Args:
        place: held while it is sent.
        changes: as JSON; None to say that one is still there. Where they end one has to begin anew.
        still: whether who listens may see the same as in the beginning; raises where he may see nothing.
    """

    def __init__(
        self,
        place: AbstractContextManager[None],
        changes: AsyncGenerator[bytes | None],
        still: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__()
        self.content_type = "text/event-stream"
        self.charset = "utf-8"
        # Of reverse proxies that collect answers some look at this.
        self.headers["X-Accel-Buffering"] = "no"
        self._place = place
        self._changes = changes
        self._still = still

    async def send(self, request: web.Request) -> None:
        """Until the changes end, or nobody takes them any more."""
        clock = asyncio.get_running_loop().time
        with self._place:
            await self.prepare(request)
            due = clock() + RECHECK_SECONDS
            try:
                async with aclosing(self._changes) as changes:
                    async for each in changes:
                        if clock() >= due:
                            if not await self._still():
                                break
                            due = clock() + RECHECK_SECONDS
                        await self.tell(_STILL_THERE if each is None else _event(each))
                await self.tell(_ANEW)
            except (Problem, TimeoutError, ConnectionError):
                # He may see nothing of it any more, or takes nothing: he will ask again, and be told why.
                if request.transport is not None:
                    request.transport.abort()


def _event(data: bytes) -> bytes:
    return b"event: change\ndata: " + data + b"\n\n"
