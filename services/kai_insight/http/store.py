"""Asks the store, in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import structlog

from kai.history.errors import HistoryError
from kai_insight.http.problems import Problem, Trouble

T = TypeVar("T")
#: Questions that are asked at once. Who asks must not keep threads from who records, and a question that
#: nobody waits for any more keeps its thread until it is answered.
AT_ONCE: Final = 3

_log = structlog.get_logger(__name__)


class AskedStore:
    """Takes questions in turn, and tells whoever asks if the store does not answer."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="http")
        self._answers = True

    async def ask(self, question: Callable[[], T]) -> T:
        """What the store says.

        Raises:
            Problem: it does not answer (503). Where it is and what it lacks stands in the log, for those
                whom that concerns.
        """
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, question)
        except HistoryError as error:
            if self._answers:
                _log.warning("questions over HTTP cannot be answered", reason=str(error))
            self._answers = False
            raise Problem(
                Trouble.STORE_AWAY,
                "the store of the history does not answer; the log of insight says why. Ask again later",
            ) from error
        self._answers = True
        return answer

    def close(self) -> None:
        """Take no more questions."""
        self._threads.shutdown(wait=False, cancel_futures=True)
