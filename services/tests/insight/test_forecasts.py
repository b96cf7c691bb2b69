"""Whether a forecast held is decided when the pod group starts, or its time is over."""

import pytest
from prometheus_client import CollectorRegistry

from kai_insight import forecasts as module
from kai_insight.decisions import GONE
from kai_insight.forecasts import P50, P90, Forecasts, InvalidForecast
from kai_insight.metrics import ForecastMetrics
from libs.tests.history.builders import HOUR, NOON, a_decision, a_run


class Kept:
    """Forecasts with a clock that stands at noon; times are hours after it."""

    def __init__(self):
        self.clock = 0.0
        self.registry = CollectorRegistry()
        self.forecasts = Forecasts(ForecastMetrics(self.registry), now=lambda: NOON + self.clock * HOUR)

    def told(self, group="pg-a", **hours):
        seconds = {name: each * HOUR for name, each in hours.items()}
        self.forecasts.keep(f"team/{group}", at=NOON + self.clock * HOUR, seconds=seconds)

    def starts(self, pod="a", *, at):
        self.clock = at
        self.forecasts.look(a_run(pod, began=at))

    def decided(self):
        """Held and decided of p50, and of p90."""
        tally = self.forecasts.tally
        for name in (P50, P90):
            for what in ("decided", "held"):
                told = self.registry.get_sample_value(f"kai_forecasts_{what}_total", {"quantile": name})
                assert told == getattr(tally, what)[name]
        return [(tally.held[name], tally.decided[name]) for name in (P50, P90)]


@pytest.fixture
def kept():
    return Kept()


@pytest.mark.parametrize(
    ("start", "decided"),
    [(0.5, [(1, 1), (1, 1)]), (1.0, [(1, 1), (1, 1)]), (1.5, [(0, 1), (1, 1)]), (3.0, [(0, 1), (0, 1)])],
)
def test_a_start_decides_what_was_told(kept, start, decided):
    kept.told(p50=1, p90=2)
    assert kept.decided() == [(0, 0), (0, 0)]
    kept.starts(at=start)
    assert kept.decided() == decided
    kept.starts(at=start + 1)
    assert kept.decided() == decided, "it is decided once"


def test_a_time_that_is_over_is_decided_without_a_start(kept):
    kept.told(p50=1, p90=3)
    kept.clock = 2
    kept.told("other", p50=9)
    assert kept.decided() == [(0, 1), (0, 0)]
    kept.starts(at=2.5)
    assert kept.decided() == [(0, 1), (1, 1)]


def test_a_group_that_goes_says_nothing_of_times_to_come(kept):
    kept.told(p50=1, p90=3)
    kept.forecasts.look(a_decision("pg-a", at=2, outcome=GONE))
    assert kept.decided() == [(0, 1), (0, 0)]
    kept.starts(at=2.5)
    assert kept.decided() == [(0, 1), (0, 0)]


def test_what_ran_before_and_what_stands_otherwise_decides_nothing(kept):
    kept.clock = 2
    kept.told(p50=1)
    kept.forecasts.look(a_run("a", began=1, ended=2.5))
    kept.forecasts.look(a_run("b", began=2.5))
    kept.forecasts.look(a_decision("pg-a", at=2.5))
    assert kept.decided() == [(0, 0), (0, 0)]


def test_of_what_is_asked_again_the_first_counts(kept):
    kept.told(p50=1)
    kept.told(p50=9)
    kept.starts(at=5)
    assert kept.decided() == [(0, 1), (0, 0)]
    assert kept.registry.get_sample_value("kai_forecasts_told_total") == 2


def test_so_many_are_kept_and_no_more(kept, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1)
    kept.told(p50=1)
    kept.told("pg-b", p50=1)
    kept.starts("b", at=0.5)
    assert kept.decided() == [(0, 0), (0, 0)]
    kept.starts("a", at=0.5)
    assert kept.decided() == [(1, 1), (0, 0)]


@pytest.mark.parametrize(
    ("group", "at", "seconds"),
    [("/", 1, {}), ("a/" + "b" * 400, 1, {}), ("a/b", float("nan"), {}), ("a/b", 1, {P50: float("inf")})],
)
def test_what_is_no_forecast_is_refused(kept, group, at, seconds):
    with pytest.raises(InvalidForecast):
        kept.forecasts.keep(group, at=at, seconds=seconds)
