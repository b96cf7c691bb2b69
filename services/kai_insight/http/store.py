"""Asks the store, in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

import structlog

from kai.history.errors import STORE_AWAY, HistoryError
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.turns import Turns

T = TypeVar("T")
#: Questions that are asked at once. Who asks must not keep threads from who records, and a question that
#: nobody waits for any more keeps its thread until it is answered.
AT_ONCE: Final = 3
#: Of one who asks: the last thread is for somebody else.
OF_ONE: Final = AT_ONCE - 1

_log = structlog.get_logger(__name__)


class AskedStore:
    """Takes questions in turn, and tells whoever asks if the store does not answer."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="http")
        self._own = Turns(OF_ONE)
        self._answers = True

    async def ask(self, question: Callable[[], T], *, asker: str = "") -> T:
        """What the store says to somebody.

        Raises:
            Problem: it does not answer (503). Where it is and what it lacks stands in the log, for those
                whom that concerns.
        """
        try:
            answer = await self._asked(question, asker)
        except HistoryError as error:
            if self._answers:
                _log.warning("questions over HTTP cannot be answered", reason=str(error))
            self._answers = False
            raise Problem(
                Trouble.STORE_AWAY,
                f"{STORE_AWAY}. Ask again later",
            ) from error
        self._answers = True
        return answer

    async def _asked(self, question: Callable[[], T], asker: str) -> T:
        loop, turn = asyncio.get_running_loop(), self._own.of(asker)

        def give_back(job: Future[T]) -> None:
            with suppress(RuntimeError):  # nobody waits for it any more: the loop has ended
                loop.call_soon_threadsafe(turn.release)

        await turn.acquire()
        try:
            job = self._threads.submit(question)
        except BaseException:
            turn.release()
            raise
        job.add_done_callback(give_back)  # not before its thread is free, whoever went away meanwhile
        return await asyncio.wrap_future(job)

    def close(self) -> None:
        """Take no more questions."""
        self._threads.shutdown(wait=False, cancel_futures=True)
