"""When work starts, in a sentence."""

import pytest

from kai.answers.answer import Forecast, ForecastBasis
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
