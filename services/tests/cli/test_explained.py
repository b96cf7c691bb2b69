"""When work starts, in a sentence."""

import pytest

from kai.answers.answer import Forecast, ForecastBasis, Held
from kai_cli.views.answers import forecast_text

BASIS = ForecastBasis(courses=40, runs=1, workloads={"pattern": 3})


@pytest.mark.parametrize(
    ("p50", "p90", "said"),
    [
        (90, 7200, "it starts within 1m30s as likely as not, and within 2h in nine cases of ten"),
        (0, 0, "it starts within 0s as likely as not, and within 0s in nine cases of ten"),
        (
            90,
            None,
            "it starts within 1m30s as likely as not, but there is no bound for nine cases of ten: why",
        ),
        (None, None, "when it starts cannot be told: why"),
    ],
)
def test_a_forecast_is_a_sentence_with_what_it_rests_on(p50, p90, said):
    forecast = Forecast(p50=p50, p90=p90, horizon=604800, reason="why", basis=BASIS)
    rests = "(runtimes as in 1 run of the past; the cluster was let live on 40 times)"
    assert forecast_text(forecast) == f"{said} {rests}"


def test_how_others_held_is_told_once_some_are_decided():
    coverage = {"p50": Held(held=3, of=7), "p90": Held(held=5, of=6)}
    basis = ForecastBasis(courses=40, runs=9, workloads={}, coverage=coverage)
    text = forecast_text(Forecast(p50=1, p90=2, horizon=604800, basis=basis))
    assert text.endswith("let live on 40 times; of 6 such times that are over 5 held)")
