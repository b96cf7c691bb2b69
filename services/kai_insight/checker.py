"""Decides recorded cycles again as they come, and says where it comes to another end.

What waits in the state that it comes to is looked at beside, in copies (:mod:`kai_insight.examiner`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import structlog

from kai.answers.situation import Situation
from kai.history.recordings import Entry
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.replay.cycles import RecordingError, Replay, read_cycle
from kai_insight.backlog import bounded
from kai_insight.examiner import Examiner
from kai_insight.live.live import Live
from kai_insight.metrics import ReplayMetrics
from kai_insight.verdicts import Verdicts

T = TypeVar("T")
#: Cycles that wait to be looked at, and bases; with more, the next base is waited for, which may be larger by
#: itself, and takes the place of earlier ones and their cycles.
MOST_WAITING_BYTES: Final = 64 << 20
#: Lines of a difference that the log is told.
_SHOWN: Final = 10
_NICENESS: Final = 10
#: What looks at what waits, rests so many times as long.
_REST: Final = 4.0

_log = structlog.get_logger(__name__)


class Examination:
    """When what waits is looked at, and where to it is told.

    Args:
        interval: seconds from one look to the next; after one that took long it is longer.
    """

    def __init__(self, examiner: Examiner, verdicts: Verdicts, *, interval: float) -> None:
        self.examiner, self.verdicts = examiner, verdicts
        self._interval = interval
        self._clock = asyncio.get_running_loop().time
        self._due = self._clock() + interval

    @property
    def wait(self) -> float:
        """Seconds until the next look."""
        return max(self._due - self._clock(), 0.0)

    def done(self, took: float) -> None:
        """A look took so many seconds."""
        self._due = self._clock() + max(self._interval, took * _REST)


class Checker:
    """Of one shard. It works in threads of its own, behind those that have something to answer."""

    def __init__(
        self,
        shard: str,
        metrics: ReplayMetrics,
        *,
        examination: Examination | None = None,
        live: Live | None = None,
    ) -> None:
        self._shard = shard
        self._metrics = metrics
        self._examination = examination
        self._waiting: deque[Entry] = deque()
        #: Bytes of cycles that wait.
        self._size = 0
        self._replay: Replay | None = None
        #: Number of the last cycle that was decided again.
        self._last = 0
        self._news = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="replay", initializer=_give_way)
        #: Looks at copies. Its thread is made when there is one.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="examine", initializer=_give_way)
        self._lives = live or Live()
        self._live = self._lives.open(shard, self._asked)
        self._tasks = [asyncio.create_task(self._run(), name=f"replay {shard}")]
        if examination is not None:
            self._tasks.append(asyncio.create_task(self._examine(examination), name=f"examine {shard}"))

    def put(self, entry: Entry) -> None:
        """Have a base, or a cycle, looked at soon."""
        if entry.base:
            kept, dropped = bounded((*self._waiting, entry), self._shard, most=MOST_WAITING_BYTES)
            self._waiting = deque(kept)
            cycles = [len(each.data) for each in dropped if not each.base]
            self._size -= sum(cycles)
            self._metrics.skipped.inc(len(cycles))
            self._news.set()
            return
        if self._size > 0 and self._size + len(entry.data) > MOST_WAITING_BYTES:
            self._metrics.skipped.inc()  # the one after it does not follow, and is skipped as well
            return
        self._size += len(entry.data)
        self._waiting.append(entry)
        self._news.set()

    async def close(self) -> None:
        """Look at nothing any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lives.close(self._live)
        for worker in (self._worker, self._reader):
            worker.shutdown(wait=False, cancel_futures=True)
        if self._examination is not None:
            self._examination.verdicts.drop(self._shard)

    async def _asked(self, question: Callable[[], T]) -> T:
        """What somebody who looks at the state finds, between two cycles."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, question)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            entry = self._waiting.popleft()
            self._size -= 0 if entry.base else len(entry.data)
            await loop.run_in_executor(self._worker, self._look, entry)

    async def _examine(self, examination: Examination) -> None:
        """Look at what waits as often as is due: at copies of the state that the last cycle left.

        They are looked at in another thread, so that neither cycles nor who looks on have to wait for it.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(examination.wait)
            began = loop.time()
            try:
                await self._examine_once(examination)
            except Exception:  # noqa: BLE001 (replays go on, and the next look may be right)
                _log.exception("what waits cannot be looked at", shard=self._shard)
            examination.done(loop.time() - began)

    async def _examine_once(self, examination: Examination) -> None:
        examiner = examination.examiner

        def take() -> Situation | None:
            replay = self._replay
            return None if replay is None else examiner.take(replay)

        if self._replay is None:  # without a state what was found before stands
            return
        taken = await self._asked(take)
        found: Mapping[PodGroupKey, GroupVerdict | None] = {}
        if taken is not None:
            found = await asyncio.get_running_loop().run_in_executor(self._reader, examiner.find, taken)
        examination.verdicts.take(self._shard, found, waiting=examiner.waiting)
        examination.verdicts.place(self._shard, examiner.places)

    def _look(self, entry: Entry) -> None:
        try:
            if entry.base:
                self._begin(entry)
            else:
                self._decide(entry)
        except RecordingError as error:  # of a scheduler of another version, while all are replaced
            self._lose("the last cycle that its scheduler told of cannot be read by this release")
            self._metrics.skipped.inc(not entry.base)
            _log.warning("a recorded cycle cannot be read", shard=self._shard, reason=str(error))
        except Exception:  # noqa: BLE001 (whatever is wrong with one, the next base may be right)
            self._lose("the last cycle could not be decided again")
            self._metrics.differing.labels(self._shard).inc()
            _log.exception(
                "a recorded cycle cannot be decided again",
                shard=self._shard,
                epoch=entry.epoch,
                cycle=entry.version,
            )

    def _begin(self, entry: Entry) -> None:
        """From this base on; the state so far would do as well, but the base is what others begin with."""
        # Of a large cluster one state is enough at a time; rows refer to each other.
        self._replay = None
        self._live.release("its scheduler's next base is read")
        gc.collect()
        self._replay, self._last = Replay(entry.data), entry.number
        self._live.begin(self._replay, at=entry.at)

    def _lose(self, why: str) -> None:
        """Without a state until the next base."""
        self._replay = None
        self._live.lose(f"{why}; the next base is waited for, which comes within minutes")

    def _decide(self, entry: Entry) -> None:
        replay = self._replay
        if replay is None or entry.number != self._last + 1:
            self._lose("cycles came faster than they could be decided again")
            self._metrics.skipped.inc()
            return
        again = replay.decide(read_cycle(entry.data))
        self._last = entry.number
        self._metrics.replayed.inc()
        took = sum(again.result.timings.values())
        self._live.pulse.beat(at=again.record.now, took=took, same=again.same)
        if again.same:
            self._live.move(replay, again.touched, at=again.record.now, shares=again.result.shares)
            return
        self._lose("the last cycle came out otherwise")  # what follows builds on what was decided then
        _log.error(
            "a cycle would be decided otherwise if it were decided again; please report this, with "
            "`kai replay --cycle`",
            shard=self._shard,
            epoch=entry.epoch,
            cycle=entry.version,
            differences=list(again.differences())[:_SHOWN],
        )
        self._metrics.differing.labels(self._shard).inc()


def _give_way() -> None:
    """Where the system knows threads by number, this one comes after others."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
