from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.config.usage_params import InvalidUsageParams, UsageParams, WindowType, longest_window
from kai.engine.usage import outlived, staleness, used_shares, window_start

HOUR = 3600.0
NOW = datetime(2030, 1, 2, 12, 30, tzinfo=UTC).timestamp()  # a Wednesday


@dataclass(frozen=True)
class Series:
    start: np.ndarray
    amounts: np.ndarray


def gpus_from(*buckets):
    """Starts and GPUs times seconds."""
    return Series(
        np.array([float(start) for start, _ in buckets]),
        np.array([(0.0, 0.0, amount) for _, amount in buckets]).reshape(-1, 3),
    )


def hours(*gpus, end=NOW):
    """Buckets of an hour each with that many GPUs, the last one ending at ``end``."""
    first = end - len(gpus) * HOUR
    return gpus_from(*((first + at * HOUR, amount * HOUR) for at, amount in enumerate(gpus)))


def gpu_share(used, capacity, now=NOW, **params):
    found = used_shares({"q": used}, capacity, params=UsageParams(**params), now=now, bucket_seconds=HOUR)
    return found["q"][2]


def utc(*parts):
    return datetime(*parts, tzinfo=UTC).timestamp()


def test_a_sliding_window_sums_what_lies_within():
    assert gpu_share(hours(8, 4, 2), hours(8, 8, 8), window_size=2 * HOUR) == pytest.approx(6 / 16)


def test_a_bucket_across_the_start_of_the_window_counts_by_its_part():
    assert gpu_share(hours(8, 0), hours(8, 8), window_size=1.5 * HOUR) == pytest.approx(4 / 12)


def test_the_bucket_that_has_just_begun_counts_in_full():
    begun = gpus_from((NOW - HOUR / 2, 4 * HOUR / 2))
    capacity = gpus_from((NOW - HOUR / 2, 8 * HOUR / 2))
    assert gpu_share(begun, capacity, window_size=HOUR) == pytest.approx(0.5)


def test_old_use_counts_half_after_the_half_life():
    young = gpu_share(hours(0, 8), hours(8, 8), window_size=2 * HOUR, half_life=HOUR)
    old = gpu_share(hours(8, 0), hours(8, 8), window_size=2 * HOUR, half_life=HOUR)
    assert young == pytest.approx(2 / 3)
    assert old == pytest.approx(1 / 3)


def test_a_resource_that_the_cluster_does_not_have_is_unused():
    assert used_shares({"q": hours(1)}, gpus_from(), params=UsageParams(), now=NOW, bucket_seconds=HOUR) == {
        "q": (0.0, 0.0, 0.0)
    }


def test_a_tumbling_window_starts_anew_every_window():
    params = UsageParams(
        window_type=WindowType.TUMBLING, window_size=6 * HOUR, tumbling_start=utc(2030, 1, 1, 3, 0)
    )
    assert window_start(params, now=NOW) == utc(2030, 1, 2, 9, 0)
    assert window_start(params, now=utc(2030, 1, 2, 9, 0)) == utc(2030, 1, 2, 9, 0)
    assert window_start(params, now=utc(2029, 1, 1, 0, 0)) == utc(2029, 1, 1, 0, 0)
    found = used_shares(
        {"q": hours(8, 8, 2, 2, 2)}, hours(*[8] * 5), params=params, now=NOW, bucket_seconds=HOUR
    )
    assert found["q"][2] == pytest.approx((0.5 * 8 + 6) / (3.5 * 8))


def test_a_cron_window_starts_when_the_expression_was_last_due():
    params = UsageParams.parse({"windowType": "cron", "cronString": "0 0 * * 1"})
    assert window_start(params, now=NOW) == utc(2029, 12, 31, 0, 0)


@pytest.mark.parametrize(
    ("params", "days"),
    [
        ({"windowSize": "2w"}, 14),
        ({"windowType": "tumbling", "windowSize": "30d", "tumblingWindowStartTime": "2030-01-01"}, 30),
        ({"windowType": "cron", "cronString": "@daily"}, 1),
        ({"windowType": "cron", "cronString": "0 9 * * 1,4"}, 4),
        ({"windowType": "cron", "cronString": "@monthly"}, 31),
        ({"windowType": "cron", "cronString": "@yearly"}, 366),
    ],
)
def test_a_window_lasts_no_longer_than_that(params, days):
    assert longest_window(UsageParams.parse(params)) == days * 24 * HOUR


def test_parameters_are_read_with_their_defaults():
    assert UsageParams.parse({}) == UsageParams(window_size=7 * 24 * HOUR)
    params = UsageParams.parse(
        {
            "windowType": "tumbling",
            "windowSize": "2w",
            "halfLifePeriod": "1d12h",
            "tumblingWindowStartTime": "2030-01-01T00:00:00Z",
            "fetchInterval": "30s",
            "extraParams": {"queryResolution": "30s", "gpuCapacityMetric": "vector(8)"},
        }
    )
    assert (params.prometheus.resolution, params.prometheus.gpu_capacity) == (30, "vector(8)")
    assert (params.window_size, params.half_life) == (14 * 24 * HOUR, 36 * HOUR)
    assert (params.tumbling_start, params.fetch_interval) == (utc(2030, 1, 1, 0, 0), 30)
    assert UsageParams.parse({"halfLifePeriod": "0s"}).half_life is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"windowType": "rolling"}, "usageParams.windowType.*allowed are sliding, tumbling, cron"),
        ({"windowSize": "a week"}, "usageParams.windowSize.*for example"),
        ({"windowSize": "0s"}, "usageParams.windowSize: must be more than 0"),
        ({"windowType": "tumbling"}, "usageParams.tumblingWindowStartTime: must be set"),
        ({"windowType": "cron"}, "usageParams.cronString: must be set"),
        ({"windowType": "cron", "cronString": "daily"}, "usageParams.cronString.*not a cron expression"),
        ({"window": "1w"}, "usageParams.window: not known"),
        ({"extraParams": "x"}, "usageParams.extraParams: 'x' is not a map"),
        (
            {"extraParams": {"gpuAllocationMetrc": "x"}},
            "usageParams.extraParams.gpuAllocationMetrc: .*did you mean 'gpuAllocationMetric'",
        ),
        ({"extraParams": {"cpuCapacityMetric": " "}}, "extraParams.cpuCapacityMetric: ' ' is not a metric"),
        ({"extraParams": {"queryResolution": "often"}}, "extraParams.queryResolution: 'often' is not a dur"),
        ({"extraParams": {"usageQueryTimeout": "0s"}}, "extraParams.usageQueryTimeout: '0s' is too short"),
        ({"fetchInterval": "0s"}, "usageParams.fetchInterval: must be more than 0"),
        ({"stalenessPeriod": "-1s"}, "usageParams.stalenessPeriod: must not be negative"),
        ({"waitTimeout": "-1s"}, "usageParams.waitTimeout: must not be negative"),
        ({"windowsize": "1w", 5: 6}, "usageParams.5: not known"),
        ({"tumblingWindowStartTime": "soon"}, "usageParams.tumblingWindowStartTime"),
    ],
)
def test_a_wrong_parameter_is_named(data, message):
    with pytest.raises(InvalidUsageParams, match=message):
        UsageParams.parse(data)


def test_data_are_not_out_of_date_before_they_are_read_again():
    assert UsageParams.parse({"fetchInterval": "10m", "stalenessPeriod": "1m"}).staleness_period == 600


def test_old_data_are_reported():
    params = UsageParams()
    assert staleness(params, fetched_at=NOW - 300, now=NOW) is None
    assert staleness(params, fetched_at=NOW - 301, now=NOW).startswith("usage data is 5m1s old")
    assert "no usage data yet" in staleness(params, fetched_at=None, now=NOW)


def test_data_whose_window_is_over_say_nothing_any_more():
    sliding = UsageParams(window_size=HOUR)
    assert not outlived(sliding, fetched_at=NOW - HOUR + 1, now=NOW)
    assert outlived(sliding, fetched_at=NOW - HOUR, now=NOW)
    assert staleness(sliding, fetched_at=NOW - HOUR, now=NOW).endswith("as if they had used nothing")
    daily = UsageParams.parse({"windowType": "cron", "cronString": "@daily"})
    midnight = utc(2030, 1, 2)
    assert outlived(daily, fetched_at=midnight - 1, now=midnight + 300)
    assert not outlived(daily, fetched_at=midnight + 1, now=midnight + 3 * HOUR)


def test_data_that_are_not_out_of_date_are_never_outlived():
    daily = UsageParams.parse({"windowType": "cron", "cronString": "@daily"})
    midnight = utc(2030, 1, 2)
    assert not outlived(daily, fetched_at=midnight - 1, now=midnight + 60)


amounts = st.lists(st.integers(0, 8), min_size=1, max_size=20)


@given(amounts, st.integers(1, 20), st.one_of(st.none(), st.integers(1, 10)))
def test_shares_stay_between_none_and_all(gpus, window, half_life):
    share = gpu_share(
        hours(*gpus),
        hours(*[8] * len(gpus)),
        window_size=window * HOUR,
        half_life=half_life and half_life * HOUR,
    )
    assert 0 <= share <= 1
    assert gpu_share(
        hours(*[8] * len(gpus)), hours(*[8] * len(gpus)), window_size=window * HOUR
    ) == pytest.approx(1)
