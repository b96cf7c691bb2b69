"""How long tests wait: one setting, in one place.

A wait ends as soon as what it waits for is there, so patience costs nothing where all is well. A wait may
take :func:`patience` seconds: :data:`BASE_SECONDS`, times :func:`slowness` of this machine at this moment,
times what the environment variable ``KAI_TEST_PATIENCE`` says. A wait that fails tells what it waited for,
what it saw last, and how long that was. A test that hangs is ended after five such waits (``conftest.py``).

Deadlines of the product are settings of the product, and none of this; but how slow the machine is has one
measure, by which ``kai local`` waits, too (:mod:`kai_local.processes.slowness`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

from kai_local.processes.slowness import cores, speed
from kai_local.processes.slowness import slowness as slowness

T = TypeVar("T")

#: Seconds that a wait may take on a machine that is quick and idle.
BASE_SECONDS: Final = 60.0
#: Multiplies every patience.
VARIABLE: Final = "KAI_TEST_PATIENCE"
#: A wait looks so often at first, for what comes at once,
_LOOK_EVERY_SECONDS: Final = 0.02
#: then only when this part more of it has passed: looks cost those who are looked at more than they tell.
_LOOK_AFTER: Final = 0.1
_LOOK_AT_LEAST_EVERY_SECONDS: Final = 0.25
_SHOWN: Final = 2000


def patience(times: float = 1.0) -> float:
    """Seconds that a wait may take now; ``times`` as many where it comprises several of the ordinary kind."""
    return BASE_SECONDS * times * slowness() * _asked_for()


async def eventually(
    look: Callable[[], Awaitable[T] | T],
    accept: Callable[[T], object] = bool,
    *,
    what: str = "",
    times: float = 1.0,
    passing: tuple[type[Exception], ...] = (),
    report: Callable[[], Awaitable[str]] | None = None,
) -> T:
    """Look until the answer is accepted; gives it.

    Args:
        look: a function or a coroutine function; called again and again.
        accept: what the answer has to fulfil; true, if nothing is said.
        what: what is waited for, to be told on failure; the text of ``look``, if nothing is said.
        times: see :func:`patience`.
        passing: errors of ``look`` that are to be waited out.
        report: more to be told on failure.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        seen: Any
        try:
            seen = look()
            if inspect.isawaitable(seen):
                seen = await seen
            if accept(seen):
                return cast(T, seen)
        except passing as error:
            seen = error
        waited = clock() - began
        if waited > patience(times):
            more = f"\n{await report()}" if report is not None else ""
            raise AssertionError(_failure(what or _text_of(look), waited, seen) + more)
        await asyncio.sleep(_pause(waited))


def until(
    look: Callable[[], T], accept: Callable[[T], object] = bool, *, what: str = "", times: float = 1.0
) -> T:
    """:func:`eventually` for tests without an event loop."""
    began = time.monotonic()
    while not accept(seen := look()):
        waited = time.monotonic() - began
        if waited > patience(times):
            raise AssertionError(_failure(what or _text_of(look), waited, seen))
        time.sleep(_pause(waited))
    return seen


@asynccontextmanager
async def within(what: str, *, times: float = 1.0) -> AsyncIterator[None]:
    """The block has to end while patience lasts; ``what`` is to happen in it."""
    seconds = patience(times)
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise  # of the block's own
        raise AssertionError(_failure(what, seconds)) from None


def describe() -> str:
    """One line about how long waits may take now, and why."""
    return (
        f"patience: {patience():.0f} s a wait, for a load of {os.getloadavg()[0]:.1f} on {cores()} cores "
        f"of {1 / speed():.1f} times the usual speed; {VARIABLE}={_asked_for():g}"
    )


def _pause(waited: float) -> float:
    """Seconds until the next look."""
    return min(max(_LOOK_EVERY_SECONDS, _LOOK_AFTER * waited), _LOOK_AT_LEAST_EVERY_SECONDS)


def _asked_for() -> float:
    text = os.environ.get(VARIABLE) or "1"
    try:
        if (number := float(text)) > 0:
            return number
    except ValueError:
        pass
    raise ValueError(f"{VARIABLE} is {text!r}; it must be a number over 0, for example 2")


def _failure(what: str, seconds: float, *seen: object) -> str:
    told = f"{what}: not within {seconds:.0f} s"
    return told + "".join(f"\nseen last: {repr(last)[:_SHOWN]}" for last in seen)


def _text_of(look: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(look).split())[:_SHOWN]
    except (OSError, TypeError):  # a callable without a text of its own
        return repr(look)
