"""One shard as it is looked at.

Its state belongs to somebody, who works on it in a thread of his own; whatever is asked of it runs there, one
after the other. Nothing is worked out while nobody looks, but for what has to be looked at again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol, TypeVar

import structlog

from kai.engine import Engine
from kai.engine.explain import outcomes
from kai.live.board import Board
from kai.live.views import Sight, View
from kai.model.decisions import QueueShare, ResourceVector
from kai.model.ids import PodGroupKey
from kai.snapshot.state import ClusterState
from kai_insight.live.told import CycleTimes

T = TypeVar("T")
#: At most two changes a second are told; what changes in between is one.
PAUSE_SECONDS: Final = 0.5
#: Nothing is told for so long, then that one is still there.
HEARTBEAT_SECONDS: Final = 15.0
#: Different sets of namespaces that are looked at at once.
MOST_VIEWS: Final = 64
#: Who begins to follow after he has got his frame does so within this time.
_UNREAD_SECONDS: Final = 60.0
#: More groups than that are not noted one by one.
_MOST_TOUCHED: Final = 10_000
#: Cycles of so many seconds, at most so many, are looked at to tell how long they take.
_RECENT_SECONDS: Final = 600.0
_MOST_RECENT: Final = 1200

_NO_MORE: Final = "this insight does not follow the shard any more"
_epochs: Final = count(1)
_log = structlog.get_logger(__name__)


class Course(Protocol):
    """A state, and the engine that decides on it."""

    state: ClusterState
    engine: Engine


class NoState(Exception):
    """There is nothing to look at; the message says why."""


@dataclass(slots=True)
class _Kept:
    """A view, how many follow it, and when it was last asked for (by the loop's clock)."""

    view: View
    used: float
    readers: int = 0


@dataclass(frozen=True, slots=True)
class Glance:
    """What can be said of a shard without looking at it."""

    version: str
    reason: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame, by the version of which one goes on."""

    version: str
    data: bytes


@dataclass(slots=True)
class _Behind:
    """What of the state is not on the board yet."""

    course: Course
    #: When it was like this, Unix seconds.
    at: float
    #: None: any group may have changed.
    touched: set[PodGroupKey] | None = None
    #: Fair shares by queue; None: they have to be worked out.
    fair: Mapping[str, ResourceVector] | None = None
    #: Whether the state may have to be settled before it is read.
    settled: bool = field(default=True)


class Pulse:
    """How the cycles of a shard are followed: written by one thread, read by any."""

    def __init__(self) -> None:
        self.replayed = 0
        self.differing = 0
        #: From the last cycle to when it was known here, in seconds.
        self.lag = 0.0
        #: When each of the last ones was (Unix seconds), and what it took.
        self._recent: deque[tuple[float, float]] = deque(maxlen=_MOST_RECENT)

    def beat(self, *, at: float, took: float, same: bool) -> None:
        """A cycle of then was decided again."""
        self.replayed += 1
        self.differing += not same
        self.lag = max(0.0, time.time() - at)
        self._recent.append((at, took))

    def times(self, *, now: float) -> CycleTimes | None:
        """Of the last minutes; None if there was no cycle."""
        took = sorted(each for at, each in list(self._recent) if at > now - _RECENT_SECONDS)
        if not took:
            return None
        return CycleTimes(
            per_minute=round(len(took) / (_RECENT_SECONDS / 60), 2),
            p50_seconds=took[len(took) // 2],
            p99_seconds=took[min(len(took) - 1, len(took) * 99 // 100)],
        )


class LiveShard:
    """``run`` has something done in the thread that owns the state; ``boot`` is this process's own word."""

    def __init__(
        self,
        name: str,
        run: Callable[[Callable[[], Any]], Awaitable[Any]],
        *,
        boot: str,
        reason: str,
        lacks: str,
    ) -> None:
        self.name = name
        self._run = run
        self._boot = boot
        self._loop = asyncio.get_running_loop()
        self._board = Board()
        self._views: OrderedDict[Sight, _Kept] = OrderedDict()
        self._course: Course | None = None
        self._behind: _Behind | None = None
        self._moves = 0
        self._reason = reason
        self._lacks = lacks
        #: Whether anybody follows; then changes are told as they come.
        self._followed = 0
        self._moved = asyncio.Event()
        self._told = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self.closed = False
        #: When somebody looked last, by the loop's clock.
        self.looked_at = -math.inf
        #: How cycles are followed.
        self.pulse = Pulse()

    # --- by who owns the state, in his thread --------------------------------------------------------
    def begin(self, course: Course, *, at: float) -> None:
        """The state is another one from now on, as of ``at`` (Unix seconds)."""
        self._note(_Behind(course, at, settled=False))

    def release(self, reason: str) -> None:
        """Let go of the state, which another one follows; until then there is nothing to look at."""
        self._course = self._behind = None
        self._board.release()
        self._reason = reason

    def move(
        self,
        course: Course,
        touched: Iterable[PodGroupKey] | None,
        *,
        at: float,
        shares: Iterable[QueueShare] | None,
    ) -> None:
        """These groups of the state changed, and it is settled; None: any may have.

        ``shares`` are None where they have to be worked out.
        """
        behind = self._behind
        same = self._course is course
        before = behind.touched if behind is not None and same else set()
        changed: set[PodGroupKey] | None = None
        if touched is not None and before is not None and same:
            changed = before | set(touched)
            if len(changed) > _MOST_TOUCHED:
                changed = None
        fair = None if shares is None else {each.queue: each.fair_share for each in shares}
        self._note(_Behind(course, at, changed, fair))

    def lose(self, reason: str) -> None:
        """The state will not be brought up to date for now; what is known stays to be looked at."""
        self._reason = reason

    def _note(self, behind: _Behind) -> None:
        self._course, self._behind, self._reason = behind.course, behind, ""
        self._moves += 1
        if self._followed:
            self._loop.call_soon_threadsafe(self._moved.set)

    # --- by who looks, in the loop -------------------------------------------------------------------
    @property
    def followers(self) -> int:
        """How many follow what changes."""
        return self._followed

    @property
    def glance(self) -> Glance:
        """How far it is known; the version is empty where there is nothing to look at."""
        version = f"{self._boot}/{self._moves}" if self._course is not None else ""
        return Glance(version, self._why, self._board.at)

    @property
    def _why(self) -> str:
        """Why it is not known, or not to the last; empty where nothing is missing."""
        return "; ".join(filter(None, (self._reason, self._lacks)))

    async def look(self, question: Callable[[Course, Board], T]) -> T:
        """What a question finds in the state and on the board as they are now.

        Raises:
            NoState: there is no state.
        """
        if self.closed:
            raise NoState(_NO_MORE)
        self.looked_at = self._loop.time()
        try:
            found: T = await self._run(lambda: question(self._course_now(), self._board))
        except asyncio.CancelledError:
            # The thread takes no more questions: those that wait are dropped with it, whoever asked them.
            task = asyncio.current_task()
            if not self.closed or (task is not None and task.cancelling()):
                raise
            raise NoState(_NO_MORE) from None
        return found

    def _course_now(self) -> Course:
        """In the thread that owns the state: bring the board up to date."""
        if self._course is None:
            raise NoState(self._why)
        behind, self._behind = self._behind, None
        if behind is not None:
            try:
                self._refresh(behind)
            except Exception:
                self._restart(behind)
                raise
        return self._course

    def _restart(self, behind: _Behind) -> None:
        """The board may be half of one moment and half of another: the next look makes another one."""
        self._board = Board()
        self._behind = _Behind(behind.course, behind.at, settled=False)
        for kept in self._views.values():
            kept.view.ended = True
        self._views.clear()

    def _refresh(self, behind: _Behind) -> None:
        state = behind.course.state
        if not behind.settled:
            state.settle(behind.at)
        fair = behind.fair if behind.fair is not None else _fair(behind.course, behind.at)
        news = self._board.refresh(state, behind.touched, fair=fair)
        if not news:
            return
        for sight, kept in list(self._views.items()):
            if news.anew or self._is_unread(kept) or not kept.view.take(news):
                kept.view.ended = True
                del self._views[sight]

    def _is_unread(self, kept: _Kept) -> bool:
        return not kept.readers and self._loop.time() - kept.used > _UNREAD_SECONDS

    async def frame(self, sight: Sight) -> Seen:
        """All of it for a sight; raises as :meth:`look`."""

        def taken(course: Course, board: Board) -> Seen:
            del course
            view = self._view(sight, board).view
            return Seen(view.version, view.frame(self.name))

        return await self.look(taken)

    def _view(self, sight: Sight, board: Board) -> _Kept:
        kept = self._views.pop(sight, None)
        if kept is None:
            view = View(board, sight, name=f"{self._boot}-{next(_epochs)}")
            kept = _Kept(view, self._loop.time())
            for other in [each for each, used in self._views.items() if not used.readers][
                : max(0, len(self._views) - MOST_VIEWS + 1)
            ]:
                self._views.pop(other).view.ended = True
        kept.used = self._loop.time()
        self._views[sight] = kept
        return kept

    async def changes(
        self, sight: Sight, version: str, *, heartbeat: float | None = None
    ) -> AsyncGenerator[bytes | None]:
        """What changes after a version, as JSON; None after a while without anything.

        It ends where one has to begin anew: the version is too old, or indices mean others. Raises as
        :meth:`look`.
        """

        def found(course: Course, board: Board) -> tuple[_Kept, int] | None:
            del course, board
            kept = self._views.get(sight)
            serial = kept.view.serial_of(version) if kept is not None else None
            if kept is None or serial is None:
                return None
            kept.used = self._loop.time()  # so that it is not dropped before it is followed
            return kept, serial

        with self._following():
            begun = await self.look(found)
            if begun is None:
                return
            kept, serial = begun
            kept.readers += 1
            try:
                while not self.closed:
                    told = self._told
                    steps = kept.view.after(serial)
                    if steps is None:
                        return
                    for step in steps:
                        serial = step.serial
                        yield step.data
                    if steps:
                        continue
                    try:
                        async with asyncio.timeout(HEARTBEAT_SECONDS if heartbeat is None else heartbeat):
                            await told.wait()
                    except TimeoutError:
                        yield None
            finally:
                kept.readers -= 1
                kept.used = self._loop.time()

    @contextmanager
    def _following(self) -> Any:
        self._followed += 1
        if self._pump is None:
            self._pump = asyncio.create_task(self._tell(), name=f"live {self.name}")
        try:
            yield
        finally:
            self._followed -= 1
            if not self._followed and self._pump is not None:
                self._pump.cancel()
                self._pump = None

    async def _tell(self) -> None:
        """Bring views up to date as the state moves, and wake who follows them."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            try:
                await self.look(lambda course, board: None)
            except NoState:
                continue
            except Exception:  # noqa: BLE001 (who follows begins anew, and is told what is wrong then)
                _log.exception("what changed cannot be told", shard=self.name)
            self._wake()
            await asyncio.sleep(PAUSE_SECONDS)

    def _wake(self) -> None:
        self._told, before = asyncio.Event(), self._told
        before.set()

    def close(self) -> None:
        """Nothing can be looked at any more; who follows has to begin anew."""
        self.closed = True
        for kept in list(self._views.values()):
            kept.view.ended = True
        self._wake()


def _fair(course: Course, at: float) -> dict[str, ResourceVector]:
    """Fair shares as they are now; the state is as before afterwards."""
    noted = course.state.lend()
    try:
        engine = Engine(course.engine.config)
        engine.last_usage = course.engine.last_usage
        session = engine.open(course.state, at)
        return {each.queue: each.fair_share for each in outcomes.shares(session)}
    finally:
        course.state.take_back(noted)
