"""What is asked of copies: why work is where it is, when it starts, what would follow from a change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kai.answers.answer import Answer, Verdict
from kai.answers.answering import answer_pod_group
from kai.answers.forecasting import with_forecast
from kai.answers.situation import Situation
from kai.forecast.learned import Learned
from kai.forecast.runs import lasted
from kai.history.records import Run
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.simulate import what_if as simulated
from kai.simulate.changes import Change
from kai.simulate.told import as_document
from kai.snapshot.state import ClusterState

#: What the search for changes that help, and a forecast, may take of the thread.
SEARCH_SECONDS: Final = 6.0
FORECAST_SECONDS: Final = 10.0
#: One who asks what would follow is told after so long that it takes too long.
WHAT_IF_SECONDS: Final = 15.0


class TakesTooLong(Exception):
    """There is no answer in the time that there is."""


def explained(situation: Situation, key: PodGroupKey) -> Answer | None:
    """Why a pod group is where it is; None if there is none."""
    return answer_pod_group(situation, key, seconds=SEARCH_SECONDS)


def verdict_of(key: PodGroupKey, answer: Answer) -> GroupVerdict:
    """The same in short."""
    return GroupVerdict(
        pod_group=key, verdict=answer.verdict, code=answer.reason.code, text=answer.reason.text
    )


def foreseen(situation: Situation, key: PodGroupKey, runs: Sequence[Run]) -> Answer | None:
    """The answer, with a forecast learned from runs if it starts by itself; None: no such group."""
    found = answer_pod_group(situation, key, seconds=0.0)
    if found is None or found.verdict is not Verdict.WAIT:
        return found
    learned = Learned.of(lasted(runs, now=situation.now))
    return with_forecast(found, situation, learned, seconds=FORECAST_SECONDS)


def followed(
    situation: Situation,
    changes: Callable[[ClusterState, float], Sequence[Change]],
    *,
    within: float,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """What would follow from changes in the seconds ``within``, as ``kai what-if -o json`` prints it.

    Raises:
        ChangeRefused: one of them cannot be made, as whatever else making them raises.
        TakesTooLong: the cluster is too full to live on so long.
    """
    until = clock() + WHAT_IF_SECONDS
    state = situation.tried

    def progress(changed: bool, after: float) -> None:
        del changed
        if clock() > until:
            raise TakesTooLong(
                f"{after:.0f} s of what would happen took more than {WHAT_IF_SECONDS:g} s to find; look less "
                "far ahead with within, or ask with kai what-if"
            )

    wanted = changes(state, situation.now)
    answer = simulated.ask(
        state,
        situation.config,
        wanted,
        now=situation.now,
        within=within,
        usage=situation.usage,
        progress=progress,
    )
    return as_document(state, wanted, answer)
