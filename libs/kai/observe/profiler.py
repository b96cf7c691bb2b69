"""Where the time of this process goes: the stacks of all its threads, looked at many times a second.

Nothing is instrumented, so a program that is not looked at pays nothing, and one that is looked at some
hundredths of a core. Time is that of the clock on the wall: a thread that waits is seen to wait.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Final

#: Looks at all threads in a second. Not a round number, so as to keep no step with timers.
RATE: Final = 97
#: Frames of a stack that are kept, the innermost; deeper ones are recursions.
DEEPEST: Final = 120
#: Different stacks that are kept; what comes then is counted together.
MOST_STACKS: Final = 20_000
OTHERS: Final = ("(others)",)

#: The innermost functions of threads that have nothing to do.
WAITING: Final = frozenset(
    {
        "concurrent.futures.thread._worker",
        "queue.Queue.get",
        "selectors.EpollSelector.select",
        "selectors.PollSelector.select",
        "selectors.SelectSelector.select",
        "threading.Condition.wait",
        "threading.Thread.run",  # its work is not Python's: gRPC waits for the network there
        "threading.Thread._wait_for_tstate_lock",
    }
)
_TOP: Final = 40

#: Name of the thread, then functions as ``module.function``, the innermost last.
Stack = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """How often each stack was seen. ``looks`` is how often all threads were looked at."""

    seconds: float
    looks: int
    stacks: Mapping[Stack, int]

    def collapsed(self) -> str:
        """A stack per line with its count, as programs that draw flame graphs read them."""
        return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(self.stacks.items()))

    def top(self, most: int = _TOP) -> str:
        """The functions that were seen at work most often.

        ``self``: it was the innermost one; ``all``: it or one that it called. Both are parts of the time for
        which the process was looked at, so with several threads at work they may be more than 100 % in sum.
        """
        busy = {stack: count for stack, count in self.stacks.items() if stack[-1] not in WAITING}
        own, within = Counter[str](), Counter[str]()
        for stack, count in busy.items():
            own[stack[-1]] += count
            for function in set(stack[1:] or stack):
                within[function] += count
        seen = sum(self.stacks.values())
        waiting = seen - sum(busy.values())
        lines = [
            (
                f"{self.seconds:.1f} s, {self.looks} looks at {_threads(self.stacks)} threads, "
                f"which waited {_part(waiting, seen)} of their time"
            ),
            f"{'self':>7} {'all':>7}  function",
        ]
        ranked = sorted(within, key=lambda function: (-own[function], -within[function], function))
        lines += [
            f"{_part(own[function], self.looks):>7} {_part(within[function], self.looks):>7}  {function}"
            for function in ranked[:most]
        ]
        return "\n".join(lines) + "\n"


def _threads(stacks: Mapping[Stack, int]) -> int:
    return len({stack[0] for stack in stacks if stack != OTHERS})


def _part(count: int, of: int) -> str:
    return f"{100 * count / max(of, 1):.1f} %"


def take(
    seconds: float,
    *,
    stop: threading.Event,
    frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
    clock: Callable[[], float] = time.monotonic,
) -> Profile:
    """Look for so many seconds, or until ``stop`` is set; the thread that looks is left out."""
    began, us = clock(), threading.get_ident()
    counts: Counter[tuple[int, tuple[CodeType, ...]]] = Counter()
    names: dict[CodeType, str] = {}
    threads: dict[int, str] = {}
    looks = lost = 0
    while clock() - began < seconds and not stop.wait(1 / RATE):
        looks += 1
        for thread, frame in frames().items():
            if thread == us:
                continue
            key = (thread, _codes(frame, names))
            if key in counts or len(counts) < MOST_STACKS:
                counts[key] += 1
            else:
                lost += 1
        threads |= {thread.ident: thread.name for thread in threading.enumerate() if thread.ident}
    return Profile(clock() - began, looks, _named(counts, names, threads, lost))


def _codes(frame: FrameType | None, names: dict[CodeType, str]) -> tuple[CodeType, ...]:
    """The functions of a stack, the innermost first; what they are called is noted."""
    codes: list[CodeType] = []
    while frame is not None and len(codes) < DEEPEST:
        code = frame.f_code
        if code not in names:
            names[code] = f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}"
        codes.append(code)
        frame = frame.f_back
    return tuple(codes)


def _named(
    counts: Mapping[tuple[int, tuple[CodeType, ...]], int],
    names: Mapping[CodeType, str],
    threads: Mapping[int, str],
    lost: int,
) -> dict[Stack, int]:
    stacks: Counter[Stack] = Counter()
    for (thread, codes), count in counts.items():
        name = threads.get(thread, f"thread {thread}").replace(";", ",")
        stacks[(name, *(names[code] for code in reversed(codes)))] += count
    if lost:
        stacks[OTHERS] = lost
    return dict(stacks)
