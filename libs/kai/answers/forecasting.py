"""When the work of an answer starts, where it does so by itself."""

from __future__ import annotations

from typing import Final

import msgspec

from kai.answers.answer import Answer, Forecast, ForecastBasis, Verdict
from kai.answers.situation import Situation
from kai.forecast.learned import Basis, Learned
from kai.forecast.starting import HORIZON_SECONDS, SECONDS, Starts, starts
from kai.model.ids import PodGroupKey
from kai.model.words import counted

_DAY: Final = 86_400.0


def with_forecast(
    answer: Answer,
    situation: Situation,
    learned: Learned,
    *,
    horizon: float = HORIZON_SECONDS,
    seconds: float = SECONDS,
) -> Answer:
    """The same, with when it starts if nobody does anything, where that may be said.

    Only of work that starts without anybody doing anything. ``seconds`` are of this thread's own work.
    """
    key = PodGroupKey(f"{answer.namespace}/{answer.pod_group}")
    if answer.verdict is not Verdict.WAIT or key not in situation.state.jobs:
        return answer
    found = starts(
        situation.tried,
        situation.config,
        [key],
        learned,
        now=situation.now,
        usage=situation.usage,
        horizon=horizon,
        seconds=seconds,
    )
    return answer if found is None else msgspec.structs.replace(answer, forecast=_told(found))


def _told(found: Starts) -> Forecast:
    return Forecast(
        p50=found.p50,
        p90=found.p90,
        horizon=found.horizon,
        reason=_why_not(found) if found.p90 is None else None,
        basis=ForecastBasis(
            courses=len(found.seconds),
            runs=found.runs,
            workloads={basis.value: found.basis.get(basis, 0) for basis in Basis},
        ),
    )


def _why_not(found: Starts) -> str:
    days = f"{found.horizon / _DAY:g} days"
    text = f"in {found.late} of {len(found.seconds)} courses it does not start within {days}"
    if unknown := found.basis.get(Basis.NONE, 0):
        text += f"; of {counted(unknown, 'workload')} nobody knows how long they last"
    return text
