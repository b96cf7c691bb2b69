"""Questions that are tried: the engine answers them on copies of a state, in a thread of their own.

A copy takes time and memory by the number of pods, so it is kept for those who ask on, and dropped once
nobody does; a question is about the cluster as it was a moment ago.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from kai.answers.situation import Situation
from kai.live.board import Board
from kai.replay import remainder
from kai.snapshot import codec
from kai_insight.live.shard import Course, LiveShard

T = TypeVar("T")
#: A copy that is no older is as good as another.
FRESH_SECONDS: Final = 5.0
#: A copy of a cluster in which nothing changes; after so long without a question nothing is kept.
KEPT_SECONDS: Final = 60.0
#: Questions that wait for their turn, the one that is answered included.
MOST_WAITING: Final = 6


class TooManyPods(Exception):
    """A copy would take too much memory; the message says so."""


class TooManyAsk(Exception):
    """So many questions wait already."""


def situation_of(course: Course, *, now: float) -> Situation:
    """All that a state's engine would go by ``now`` (Unix seconds); where it changes later, this does not."""
    state, engine = course.state, course.engine
    return Situation(
        snapshot=codec.cut(state),
        now=now,
        config=engine.config,
        usage=engine.last_usage,
        faults={(each.kind, each.key): each for each in state.faults.values()},
        remainder=remainder.take(state, engine.turns),
    )


@dataclass(slots=True)
class _Kept:
    shard: LiveShard
    version: str
    situation: Situation
    #: When it was made, by the loop's clock.
    made: float


class Copies:
    """Of the shards of one process; at most one is kept. ``now`` gives Unix seconds, ``clock`` is monotonic.

    Args:
        most_pods: of a cluster with more of them there are no copies.
    """

    def __init__(
        self,
        *,
        most_pods: int,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._most_pods = most_pods
        self._now = now
        self._clock = clock or asyncio.get_running_loop().time
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._kept: _Kept | None = None
        self._forgetting: asyncio.TimerHandle | None = None

    async def ask(self, shard: LiveShard, question: Callable[[Situation], T]) -> T:
        """What a question finds. It may try what it likes, and takes all of it back.

        Raises:
            NoState: there is no state.
            TooManyPods: there is too much to copy.
            TooManyAsk: too many questions wait.
        """
        if self._waiting >= MOST_WAITING:
            raise TooManyAsk
        self._waiting += 1
        try:
            async with self._turn:  # whoever asks meanwhile has the copy of this one, and makes no other
                return await self._answered(await self._situation(shard), question)
        finally:
            self._waiting -= 1
            self._forget_later()

    async def _answered(self, situation: Situation, question: Callable[[Situation], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._worker, question, situation)
        except Exception:
            self._kept = None  # nobody knows how it left what it tried
            raise

    async def _situation(self, shard: LiveShard) -> Situation:
        kept, version = self._kept, shard.glance.version
        if kept is not None and kept.shard is shard:
            # Where nothing changes time passes all the same, and answers go by that at which it was made.
            lasts = KEPT_SECONDS if kept.version == version else FRESH_SECONDS
            if self._clock() - kept.made < lasts:
                return kept.situation
        self._kept = None  # before another one takes memory as well
        found = await shard.look(self._taken)
        self._kept = _Kept(shard, version, found, self._clock())
        return found

    def _taken(self, course: Course, board: Board) -> Situation:
        del board
        pods = len(course.state.tasks)
        if pods > self._most_pods:
            raise TooManyPods(
                f"the cluster has {pods} pods, and copies are made of up to {self._most_pods} "
                "(--answer-pods); ask with kai explain and kai what-if, which copy on your machine"
            )
        return situation_of(course, now=self._now())

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        if not self._waiting:
            self._kept = None

    def close(self) -> None:
        """Take no more questions."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._kept = None
        self._worker.shutdown(wait=False, cancel_futures=True)
