"""All writes of a process, one door: what was decided first, and what only tells of it behind.

A write waits for its object and for a place. Writes of one rank to one object go out in the order in which
they came, and the next only when the one before is done with, however often that had to be tried. Of the
places, whose number follows what the API server bears (:mod:`kai.kube.flight_limit`), each rank has one of
its own, so that nobody waits for ever; the others go to the most urgent, and what is less urgent may take
only a part of them, so that a bind always finds some that no slow status is holding.

* A status that comes while an older one of its object waits for its place is sent with that one, as one
  write (:mod:`kai.kube.joining`); each caller gets the answer, and it goes on until the last gives up.
* Where the server wants to be left alone for some seconds (``Retry-After``), statuses and news wait so long.
* After each of the news comes a rest (:mod:`kai.kube.courtesy`), for other processes ask the same server;
  not where very many wait, nor when the process ends.
* Statuses and news are refused where too many wait: whoever sends them comes again, or does without. What
  was decided and what a decision needs is never refused; it is bounded by the pods there are.
* Turns of a :class:`~kai.kube.pace.Pace` are given to whoever is first when they come, not to who came first.

Time to wait for a first place is no part of a write's deadline: a place of its own sees to it that each rank
gets on, as fast as its writes are answered or given up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from kai.kube import errors
from kai.kube.courtesy import rest
from kai.kube.flight_limit import SLOW_SECONDS, FlightLimit
from kai.kube.joining import joined, may_join
from kai.kube.metrics import WriteMetrics
from kai.kube.pace import Pace
from kai.kube.ranks import Rank
from kai.kube.request import Request

#: Who takes part: Leases never wait.
RANKS: Final = (Rank.DECISION, Rank.NEED, Rank.STATUS, Rank.NEWS)
#: What part of the places that all share a rank may hold, together with those behind it.
SHARES: Final = {Rank.DECISION: 1.0, Rank.NEED: 0.75, Rank.STATUS: 0.5, Rank.NEWS: 0.25}
#: News at once, those included after which there is a rest.
NEWS_AT_MOST: Final = 5
#: With so many of the news waiting there are no rests in between.
HURRIED: Final = 2048
#: So many statuses, and so many of the news, may wait.
WAITING_AT_MOST: Final = 16_384
#: The longest that the server is left alone because it asked for it.
QUIET_SECONDS: Final = 10.0

Send = Callable[[Request], Awaitable[bytes]]
_Object = tuple[Rank, str, str]


class Turn:
    """One write from coming to its end. Compared by identity."""

    def __init__(self, dispatcher: Dispatcher, request: Request) -> None:
        self.request = request
        self.rank = request.rank or Rank.NEED
        #: Resolved when it has a place; another one for each attempt.
        self.placed: asyncio.Future[None] | None = None
        #: Of a status: what carries it out for all ``callers``, whose changes were joined.
        self.task: asyncio.Task[bytes] | None = None
        self.callers = 0
        self._dispatcher = dispatcher

    async def attempt(self, send: Send) -> bytes:
        """Send once, from a place; the first time it is there already."""
        if self.placed is None:
            await self._dispatcher.place(self, first=False)
        return await self._dispatcher.fly(self, send)


class Dispatcher:
    """Belongs to one client of an API server, and so to one process."""

    def __init__(
        self, metrics: WriteMetrics, *, limit: FlightLimit | None = None, pace: Pace | None = None
    ) -> None:
        self._metrics = metrics
        self._limit = limit or FlightLimit()
        self._pace = pace
        self._waiting: dict[Rank, OrderedDict[Turn, float]] = {rank: OrderedDict() for rank in RANKS}
        self._flying = dict.fromkeys(RANKS, 0)
        #: Writes by rank and object, the one that may go first.
        self._lines: dict[_Object, OrderedDict[Turn, None]] = {}
        #: Statuses that can be joined with another one still, by path.
        self._joinable: dict[str, Turn] = {}
        self._resting = 0
        self._hurries = False
        self._quiet_until = float("-inf")
        self._wakes_at: float | None = None
        #: A turn of the pace has been taken for whoever is next; and whether it has come.
        self._pace_asked, self._pace_came = False, pace is None
        metrics.watch(self._waiting, self._flying, lambda: self._limit.current)

    async def write(self, request: Request, carry_out: Callable[[Turn], Awaitable[bytes]]) -> bytes:
        """Have ``carry_out`` called when it is the turn of ``request``; its answer.

        Raises:
            NotSent: too much waits, and this is not urgent.
        """
        turn = self._join(request)
        if turn is None:
            turn = Turn(self, request)
            self._enter(turn)
            if not may_join(request):
                return await self._carry_out(turn, carry_out)
            turn.task = asyncio.create_task(self._carry_out(turn, carry_out), name=str(request))
        return await self._shared(turn)

    async def _carry_out(self, turn: Turn, carry_out: Callable[[Turn], Awaitable[bytes]]) -> bytes:
        try:
            await self.place(turn, first=True)
            return await carry_out(turn)
        finally:
            self._leave(turn)

    async def _shared(self, turn: Turn) -> bytes:
        """The answer to a write of several callers, which the last one that gives up ends."""
        assert turn.task is not None
        turn.callers += 1
        try:
            return await asyncio.shield(turn.task)
        finally:
            turn.callers -= 1
            if not turn.callers and not turn.task.done():
                self._forget_joinable(turn)
                turn.task.cancel()
                await asyncio.wait([turn.task])
            if turn.task.done() and not turn.task.cancelled():
                turn.task.exception()  # looked at, also where nobody waits for it any more

    def hurry(self) -> None:
        """The process is about to end: no more rests."""
        self._hurries = True
        self._resting = 0
        self._give_places()

    # --- lines ---------------------------------------------------------------------------------
    def _join(self, request: Request) -> Turn | None:
        """A write that waits, with this one put into it; None if it has to go by itself."""
        older = self._joinable.get(request.path) if may_join(request) else None
        if older is None:
            return None
        data = joined(older.request, request)
        if data is None:
            return None
        older.request = replace(older.request, data=data)
        self._metrics.joined.inc()
        return older

    def _enter(self, turn: Turn) -> None:
        if turn.rank >= Rank.STATUS and len(self._waiting[turn.rank]) >= WAITING_AT_MOST:
            self._metrics.refused[turn.rank].inc()
            raise errors.NotSent(f"{turn.request}: {WAITING_AT_MOST} writes of its rank wait already")
        self._joinable.pop(turn.request.path, None)  # what comes later goes behind this one
        if may_join(turn.request):
            self._joinable[turn.request.path] = turn
        if key := _object(turn):
            self._lines.setdefault(key, OrderedDict())[turn] = None

    def _leave(self, turn: Turn) -> None:
        self._forget_joinable(turn)
        key = _object(turn)
        if key is None:
            return
        line = self._lines[key]
        was_first = next(iter(line)) is turn
        del line[turn]
        if not line:
            del self._lines[key]
        elif was_first and (following := next(iter(line))).placed is not None:
            self._wait(following)  # else it has not begun to wait, and will find itself the first

    def _forget_joinable(self, turn: Turn) -> None:
        if self._joinable.get(turn.request.path) is turn:
            del self._joinable[turn.request.path]

    # --- places --------------------------------------------------------------------------------
    async def place(self, turn: Turn, *, first: bool) -> None:
        """Wait until it has a place; one that is tried again goes before the others of its rank."""
        loop = asyncio.get_running_loop()
        turn.placed = loop.create_future()
        began = loop.time()
        if not first or self._is_first(turn):
            self._wait(turn, ahead=not first)
        try:
            await turn.placed
        except BaseException:
            self._waiting[turn.rank].pop(turn, None)
            if turn.placed.done() and not turn.placed.cancelled():
                self._free(turn)
            raise
        if first:
            self._metrics.waited[turn.rank].observe(loop.time() - began)

    async def fly(self, turn: Turn, send: Send) -> bytes:
        """Send from its place, learn from the answer, and give the place back."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        answered = True
        try:
            return await send(turn.request)
        except errors.ApiError as error:
            if _is_push_back(error, turn.request):
                answered = False
                self._pushed_back(error, began=began)
            raise
        except errors.TransportError:
            answered = False
            raise
        except asyncio.CancelledError:
            answered = loop.time() - began >= SLOW_SECONDS  # at least so long, where it was given up
            raise
        finally:
            seconds = loop.time() - began
            if answered:
                kind = f"{turn.request.verb} {turn.request.resource}"
                self._limit.answered(kind, seconds, wanted=any(self._waiting.values()))
            if turn.rank is Rank.NEWS and not self._hurries and len(self._waiting[Rank.NEWS]) < HURRIED:
                self._resting += 1
                loop.call_later(rest(seconds), self._rested)
            self._free(turn)

    def _is_first(self, turn: Turn) -> bool:
        key = _object(turn)
        return key is None or next(iter(self._lines[key])) is turn

    def _wait(self, turn: Turn, *, ahead: bool = False) -> None:
        waiting = self._waiting[turn.rank]
        waiting[turn] = asyncio.get_running_loop().time()
        if ahead:
            waiting.move_to_end(turn, last=False)
        self._give_places()

    def _free(self, turn: Turn) -> None:
        turn.placed = None
        self._flying[turn.rank] -= 1
        self._give_places()

    def _give_places(self) -> None:
        for rank in RANKS:
            waiting = self._waiting[rank]
            while waiting and self._has_place(rank):
                turn = next(iter(waiting))
                assert turn.placed is not None
                given_up = turn.placed.done()  # and its task has not come to tell so yet
                if not given_up and not self._has_pace():
                    return
                del waiting[turn]
                self._forget_joinable(turn)
                if not given_up:
                    self._pace_came = self._pace is None
                    self._flying[rank] += 1
                    turn.placed.set_result(None)

    def _has_place(self, rank: Rank) -> bool:
        if rank >= Rank.STATUS and self._is_quiet():
            return False
        if rank is Rank.NEWS and self._flying[rank] + self._resting >= NEWS_AT_MOST:
            return False
        if not self._flying[rank]:
            return True  # the place of its own
        shared = self._limit.current - len(RANKS)
        beyond = {each: max(0, count - 1) for each, count in self._flying.items()}
        behind = 0
        for each in reversed(RANKS):
            behind += beyond[each]
            if each <= rank and behind >= max(1, int(shared * SHARES[each])):
                return False
        return True

    def _rested(self) -> None:
        self._resting = max(0, self._resting - 1)
        self._give_places()

    # --- what the server and the pace say ---------------------------------------------------------
    def _pushed_back(self, error: errors.ApiError, *, began: float) -> None:
        now = asyncio.get_running_loop().time()
        self._limit.pushed_back(began=began, now=now)
        if error.retry_after is not None:
            self._quiet_until = max(self._quiet_until, now + min(error.retry_after, QUIET_SECONDS))

    def _is_quiet(self) -> bool:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._quiet_until:
            return False
        if self._wakes_at != self._quiet_until:
            self._wakes_at = self._quiet_until
            loop.call_at(self._quiet_until, self._give_places)
        return True

    def _has_pace(self) -> bool:
        if self._pace is None or self._pace_came:
            return True
        if not self._pace_asked:
            delay = self._pace.turn()
            if delay <= 0:
                return True
            self._pace_asked = True
            asyncio.get_running_loop().call_later(delay, self._pace_comes)
        return False

    def _pace_comes(self) -> None:
        self._pace_asked, self._pace_came = False, True
        self._give_places()


def _object(turn: Turn) -> _Object | None:
    """What its order is kept for; nobody changes an object before the one who creates it has the answer."""
    request = turn.request
    if request.method == "POST" and "/" not in request.resource:
        return None
    return (turn.rank, request.resource.partition("/")[0], request.subject)


def _is_push_back(error: errors.ApiError, request: Request) -> bool:
    """Whether the server has too much to do; a disruption budget that forbids an eviction says 429, too."""
    if isinstance(error, errors.TooManyRequests):
        return request.retry_throttled
    return error.status == 503
