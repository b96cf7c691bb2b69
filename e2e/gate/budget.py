"""Stage after stage, as long as there is time, and aside what no clock judges."""

from __future__ import annotations

import enum
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from e2e.gate import findings
from e2e.gate.changes import Changes
from e2e.gate.findings import Found
from e2e.gate.machine import described
from e2e.gate.processes import Ended
from e2e.gate.stages import Stage

#: A stage that is not needed is started only before so many minutes are gone,
START_MINUTES: Final = 55.0
#: and cut off after so many.
CUT_MINUTES: Final = 80.0
_WIDTH = 80
#: Of a line that a stage printed last.
_LETTERS = 240


class Outcome(enum.StrEnum):
    """What became of a stage. Only a failure fails the gate."""

    PASSED = "passed"
    FAILED = "FAILED"
    CUT_OFF = "CUT OFF"
    LEFT_OUT = "LEFT OUT"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a stage, why, and how long it took with all that belongs to it.

    ``work``: minutes of processor time, as far as they are known. ``last``: what it printed last when it
    failed.
    """

    stage: Stage
    outcome: Outcome
    why: str = ""
    minutes: float = 0.0
    work: float = 0.0
    found: tuple[Found, ...] = ()
    last: tuple[str, ...] = ()


class Runner(Protocol):
    """Runs a command for at most so many seconds.

    ``aside``: at low priority, and what it prints comes at its end.
    """

    def __call__(self, command: Sequence[str], *, seconds: float | None, aside: bool) -> Ended:
        """Run it."""


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _turns(stages: Sequence[Stage]) -> Iterator[list[Stage]]:
    """Each by itself; those that wait all in the turn of the first of them."""
    waiting = [stage for stage in stages if stage.waits]
    for stage in stages:
        if not stage.waits:
            yield [stage]
        elif stage is waiting[0]:
            yield waiting


@dataclass(slots=True)
class Gate:
    """The stages, and the time that there is for them.

    ``gone``: minutes that were gone before. ``machine``: what they ran on, told with the minutes.
    """

    stages: Sequence[Stage]
    run: Runner
    changes: Changes = field(default_factory=Changes)
    gone: float = 0.0
    machine: Callable[[], str] = described
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = _say
    _began: float = field(init=False)
    #: Seconds of processor time, and of time, by name of a stage.
    _work: Counter[str] = field(init=False, default_factory=Counter)
    _spent: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def decide(self) -> bool:
        """Run what there is time for, and tell what came of it; whether nothing failed."""
        first, *others = self.in_order()
        results = [self._result(first, self._prepared(first, []))]
        lanes = [[stage for stage in others if stage.aside is aside] for aside in (False, True)]
        with ThreadPoolExecutor(len(lanes)) as pool:
            for done in [pool.submit(self._one_by_one, lane, results) for lane in lanes]:
                done.result()
        self._sum_up(sorted(results, key=lambda result: result.stage.aside))
        return all(result.outcome is not Outcome.FAILED for result in results)

    def in_order(self) -> list[Stage]:
        """What is needed; then first what the newest commit is about, and of equals first what is short."""
        needed = [stage for stage in self.stages if stage.needed]
        others = [stage for stage in self.stages if not stage.needed]
        return needed + sorted(others, key=lambda stage: (self.changes.age(stage.concerns), stage.minutes))

    def _one_by_one(self, stages: Sequence[Stage], results: list[Result]) -> None:
        """Run these in turn, and add what became of them to what became of all.

        Nothing of a turn is run while something for another of it may still be built, and slow it down.
        """
        for turn in _turns(stages):
            left_out = [self._prepared(stage, results) for stage in turn]
            with ThreadPoolExecutor(len(turn)) as pool:
                results += pool.map(self._result, turn, left_out)

    # --- one stage -----------------------------------------------------------------------------
    def _result(self, stage: Stage, left_out: Result | None) -> Result:
        """What becomes of a stage that is prepared, if it was not left out before."""
        findings.forget(stage.reports)
        result = left_out or self._judge(stage)
        return replace(
            result,
            minutes=self._spent[stage.name] / 60,
            work=self._work[stage.name] / 60,
            found=tuple(findings.read(stage.reports)),
        )

    def _prepared(self, stage: Stage, before: Sequence[Result]) -> Result | None:
        """Prepare a stage; its result if it is left out."""
        missed = next((one for one in before if one.stage.needed and one.outcome is Outcome.FAILED), None)
        if missed is not None:
            return self._without(stage, Outcome.LEFT_OUT, f"{missed.stage.name} failed")
        if late := self._late(stage):
            return self._without(stage, Outcome.LEFT_OUT, late)
        if stage.preparation:
            if self._do(stage, stage.preparation).status != 0:
                why = f"`{shlex.join(stage.preparation)}` did not succeed (see above), no fault of this code"
                return self._without(stage, Outcome.LEFT_OUT, why)
            if late := self._late(stage):
                return self._without(stage, Outcome.LEFT_OUT, late)
        return None

    def _judge(self, stage: Stage) -> Result:
        ended = self._do(stage, self._command(stage))
        if ended.status == 0:
            return Result(stage, Outcome.PASSED)
        # Also of a stage that is cut off: no time would have mended that.
        if any(found.broken for found in findings.read(stage.reports)):
            why = "something is broken that must always hold"
            return Result(stage, Outcome.FAILED, why, last=ended.last)
        if ended.status is None:
            return self._without(stage, Outcome.CUT_OFF, f"{CUT_MINUTES:g} minutes were gone")
        why = f"status {ended.status}"
        if not stage.again:
            return Result(stage, Outcome.FAILED, why, last=ended.last)
        self.say(f"## {stage.name}: failed; what failed is tried once more")
        second = self._do(stage, stage.again)
        if second.status == 0:
            return Result(
                stage, Outcome.PASSED, "what failed at first succeeded when tried again", last=ended.last
            )
        why = "twice, or there was no time for the second try"
        return Result(stage, Outcome.FAILED, why, last=second.last)

    def _command(self, stage: Stage) -> tuple[str, ...]:
        first = self.changes.end_to_end_tests() if stage.ordered else []
        return (*stage.command, f"FIRST={' '.join(first)}") if first else stage.command

    def _do(self, stage: Stage, command: Sequence[str]) -> Ended:
        self.say(f"## minute {self._minutes():.0f}: {shlex.join(command)}")
        left = 60 * (CUT_MINUTES - self._minutes())
        began = self.clock()
        ended = self.run(command, seconds=None if stage.needed else max(1.0, left), aside=stage.aside)
        self._spent[stage.name] += self.clock() - began
        self._work[stage.name] += ended.work
        return ended

    # --- time ----------------------------------------------------------------------------------
    def _minutes(self) -> float:
        """Minutes that are gone."""
        return self.gone + (self.clock() - self._began) / 60

    def _late(self, stage: Stage) -> str:
        """Why a stage is not to be started any more, if so."""
        minutes = self._minutes()
        if stage.needed or minutes < START_MINUTES:
            return ""
        return f"{minutes:.0f} minutes are gone, and after {START_MINUTES:g} nothing is started"

    # --- telling -------------------------------------------------------------------------------
    def _without(self, stage: Stage, outcome: Outcome, why: str) -> Result:
        line = "#" * _WIDTH
        self.say(f"{line}\n## {outcome}: {stage.name}\n## {why}\n{line}")
        return Result(stage, outcome, why)

    def _sum_up(self, results: Sequence[Result]) -> None:
        failed = any(result.outcome is Outcome.FAILED for result in results)
        whole = all(result.outcome is Outcome.PASSED for result in results)
        verdict = "FAILED" if failed else "passed" if whole else "passed, BUT NOT WHOLE"
        self.say(f"\n## the gate after {self._minutes():.0f} minutes: {verdict}")
        self.say(f"##   on {self.machine()}")
        for result in results:
            why = f" ({result.why})" if result.why else ""
            took = f"{result.minutes:5.1f} min, {result.work:5.1f} of work"
            self.say(f"##   {result.outcome:<9} {took}  {result.stage.name}{why}")
        for result in results:
            for line in findings.lines(result.found):
                self.say(f"##   found: {line}")
        for result in results:
            for line in result.last:
                self.say(f"##   {result.stage.name}: {line[:_LETTERS]}")
