"""An answer tells when work starts where it starts by itself, and says what that rests on."""

from __future__ import annotations

from typing import Any

import pytest

from kai.answers.answer import Answer, Verdict, document
from kai.answers.answering import answer_pod_group
from kai.answers.forecasting import with_forecast
from kai.forecast.curves import Span
from kai.forecast.learned import Learned
from kai.forecast.runs import Kin, Lasted
from kai.model.ids import PodGroupKey
from kai.snapshot import codec
from libs.tests.answers.test_groups import team, the_situation
from libs.tests.engine.builders import NOW, a_job, a_node


def learned(*, ended: int = 6, lasting: int = 0) -> Learned:
    kin = Kin("default", "old", "", "team")
    return Learned.of([Lasted(kin, Span(1500, True))] * ended + [Lasted(kin, Span(1500, False))] * lasting)


def asked(*things: Any, past: Learned, seconds: float = 60.0) -> Answer:
    situation = the_situation(team(), *things)
    found = answer_pod_group(situation, PodGroupKey("default/job"))
    assert found is not None
    before = codec.encode(codec.cut(situation.tried))
    told = with_forecast(found, situation, past, seconds=seconds)
    assert codec.encode(codec.cut(situation.tried)) == before
    return told


FULL: list[Any] = [a_node("n", gpus=2), a_job("old", gpus=2, on="n", started=NOW - 500)]


def test_what_waits_for_others_to_end_starts_when_they_do() -> None:
    found = asked(FULL, a_job("job", gpus=2), past=learned())
    assert found.verdict is Verdict.WAIT
    assert document(found)["forecast"] == {
        "p50": 1000.0,
        "p90": 1000.0,
        "horizon": 7 * 86400.0,
        "reason": None,
        "basis": {
            "courses": 40,
            "runs": 6,
            "workloads": {"pattern": 1, "owner": 0, "queue": 0, "all": 0, "none": 0},
            "coverage": {},
        },
    }


def test_what_nobody_can_know_is_null_with_its_reason() -> None:
    found = asked(FULL, a_job("job", gpus=2), past=learned(ended=0)).forecast
    assert found is not None
    assert (found.p50, found.p90) == (None, None)
    assert found.reason == (
        "in 40 of 40 courses it does not start within 7 days; of 1 workload nobody knows how long they last"
    )
    some = asked(FULL, a_job("job", gpus=2), past=learned(lasting=4)).forecast
    assert some is not None
    assert (some.p50, some.p90) == (1000, None)
    assert some.reason is not None
    assert "nobody knows" not in some.reason


@pytest.mark.parametrize(
    ("job", "verdict"),
    [
        (a_job("job", gpus=9), Verdict.NEVER),
        (a_job("job", gpus=2, queue="nowhere"), Verdict.CHANGE),
        (a_job("job", gpus=2, on="m"), Verdict.RUNS),
    ],
)
def test_what_does_not_start_by_itself_has_no_forecast(job: Any, verdict: Verdict) -> None:
    found = asked(FULL, a_node("m", gpus=2), job, past=learned())
    assert (found.verdict, found.forecast) == (verdict, None)


def test_without_time_there_is_none() -> None:
    assert asked(FULL, a_job("job", gpus=2), past=learned(), seconds=0).forecast is None
