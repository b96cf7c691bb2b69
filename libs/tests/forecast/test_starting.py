"""When work starts: exact where runtimes are known, and honest where they are not."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine import SchedulerConfig
from kai.forecast.curves import Span
from kai.forecast.learned import Basis, Learned
from kai.forecast.runs import Kin, Lasted
from kai.forecast.starting import Starts, starts
from kai.model.ids import PodGroupKey
from kai.simulate.course import Course, Happened
from kai.simulate.journal import journal
from kai.snapshot import codec
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import NOW, a_job, a_node, a_state

JOB = PodGroupKey("default/job")


def known(**lasting: float) -> Learned:
    """Each workload of a name runs for so long, as it did six times before."""
    return Learned.of(
        Lasted(Kin("default", name, "", "team"), Span(seconds, True))
        for name, seconds in lasting.items()
        for _ in range(6)
    )


def forecast(state: ClusterState, learned: Learned, **more: Any) -> Starts:
    given: dict[str, Any] = {"courses": 10, "seconds": 60.0, **more}
    found = starts(state, SchedulerConfig(), [JOB], learned, now=NOW, **given)
    assert found is not None
    return found


def test_work_starts_when_what_is_in_its_place_has_run_as_long_as_it_does() -> None:
    state = a_state(
        a_node("n", gpus=2), a_job("old", gpus=2, on="n", started=NOW - 500), a_job("job", gpus=2)
    )
    before = codec.encode(codec.cut(state))
    found = forecast(state, known(old=1500))
    assert (found.p50, found.p90, found.late) == (1000, 1000, 0)
    assert found.basis == {Basis.PATTERN: 1}
    assert codec.encode(codec.cut(state)) == before


def test_those_that_are_before_it_run_first() -> None:
    state = a_state(
        a_node("n", gpus=2),
        a_job("old", gpus=2, on="n", started=NOW - 500),
        a_job("first", gpus=2, created=NOW - 90),
        a_job("job", gpus=2, created=NOW - 50),
    )
    found = forecast(state, known(old=600, first=3000))
    assert (found.p50, found.p90) == (3100, 3100)


def test_several_groups_have_started_with_the_last_of_them() -> None:
    state = a_state(
        a_node("n", gpus=2),
        a_job("old", gpus=2, on="n", started=NOW - 500),
        a_job("first", gpus=2, created=NOW - 90),
        a_job("job", gpus=2, created=NOW - 50),
    )
    found = starts(
        state,
        SchedulerConfig(),
        [PodGroupKey("default/first"), JOB],
        known(old=600, first=3000),
        now=NOW,
        courses=10,
    )
    assert found is not None
    assert found.p50 == 3100


def test_beyond_the_horizon_there_is_no_number() -> None:
    state = a_state(a_node("n", gpus=2), a_job("old", gpus=2, on="n"), a_job("job", gpus=2))
    found = forecast(state, known(old=5000), horizon=1000)
    assert (found.p50, found.p90, found.late) == (None, None, 10)


def test_what_ran_longer_than_anything_before_it_ends_nobody_knows_when() -> None:
    state = a_state(
        a_node("n", gpus=2), a_job("old", gpus=2, on="n", started=NOW - 500), a_job("job", gpus=2)
    )
    found = forecast(state, known(old=500))
    assert (found.p50, found.p90) == (None, None)
    assert found.basis == {Basis.NONE: 1}


def test_runs_that_go_on_make_the_late_quantile_unknown_and_not_the_early_one() -> None:
    state = a_state(a_node("n", gpus=2), a_job("old", gpus=2, on="n", started=NOW - 1), a_job("job", gpus=2))
    kin = Kin("default", "old", "", "team")
    learned = Learned.of([Lasted(kin, Span(100, True))] * 8 + [Lasted(kin, Span(100, False))] * 4)
    found = forecast(state, learned, courses=40)
    assert (found.p50, found.p90) == (99, None)
    assert 0 < found.late < 20


def test_without_time_nothing_is_told() -> None:
    state = a_state(a_node("n", gpus=2), a_job("old", gpus=2, on="n"), a_job("job", gpus=2))
    ticks = itertools.count()
    told = starts(
        state, SchedulerConfig(), [JOB], known(old=5000), now=NOW, seconds=3, clock=lambda: next(ticks)
    )
    assert told is None


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_has_the_same_answer(seed: int) -> None:
    things = [a_node("n", gpus=2), a_job("old", gpus=2, on="n", started=NOW - 1), a_job("job", gpus=2)]
    learned = Learned.of(
        Lasted(Kin("default", "old", "", "team"), Span(float(100 * n), True)) for n in range(1, 30)
    )
    first, second = (forecast(a_state(*things), learned, seed=seed) for _ in range(2))
    assert first == second
    assert first.seconds != forecast(a_state(*things), learned, seed=seed + 1).seconds


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_where_runtimes_are_known_it_is_what_then_happens(seed: int) -> None:
    """And the early quantile is never after the late one, also where they are not."""
    rng = random.Random(seed)
    letters = "abcdefgh"
    lasting = {f"run{letter}": float(rng.randint(600, 5000)) for letter in letters}
    lasting |= {f"wait{letter}": float(rng.randint(10, 3000)) for letter in letters}
    things: list[Any] = [a_node("n", gpus=8)]
    things += [a_job(f"run{letter}", gpus=1, on="n", started=NOW - rng.randint(1, 599)) for letter in letters]
    things += [
        a_job(f"wait{letter}", gpus=rng.randint(1, 4), created=NOW - rng.randint(1, 900))
        for letter in letters
    ]
    things.append(a_job("job", gpus=rng.randint(1, 8), created=NOW - rng.randint(1, 900)))
    lasting["job"] = 60.0

    def really(job: Job, ran: float, drawn: random.Random) -> float:
        del ran, drawn
        return lasting[job.name]

    state = a_state(*things)
    with journal(state) as opened:
        course = Course(opened, SchedulerConfig(), now=NOW, runtimes=really)
        course.run(NOW + 7 * 86_400)
        happened = next(e for e in course.events if e.what is Happened.STARTED and e.group == JOB)
    found = forecast(state, known(**lasting), courses=3)
    assert {found.p50, found.p90} == {happened.at - NOW}

    guessed = forecast(
        state,
        Learned.of(
            Lasted(Kin("default", name, "", "team"), Span(rng.random() * 9000, rng.random() < 0.8))
            for name in lasting
            for _ in range(6)
        ),
    )
    assert guessed.p90 is None or (guessed.p50 is not None and guessed.p50 <= guessed.p90)
