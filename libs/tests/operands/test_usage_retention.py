"""Use is recorded for as long as the windows of shards look back."""

import pytest

from kai.operands import Facts, operands_of_config, read_config, read_shard
from kai_queue_controller.settings import QueueControllerSettings

DAY = 86400


def retention(*usage):
    """Of a queue-controller for shards with these configurations, in days."""
    config = read_config({"metadata": {"name": "kai-config"}, "spec": {}})
    shards = [
        read_shard({"metadata": {"name": f"s{n}"}, "spec": {"usageDBConfig": each}}, config)
        for n, each in enumerate(usage)
    ]
    objects = operands_of_config(config, Facts(served=frozenset()), shards)
    (container,) = next(
        each["spec"]["template"]["spec"]["containers"]
        for each in objects
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "queue-controller"
    )
    told = [flag for flag in container["args"] if flag.startswith("--usage-retention=")]
    return QueueControllerSettings.parse(told).usage_retention / DAY


@pytest.mark.parametrize(
    ("usage", "days"),
    [
        ([], 8),
        ([{"clientType": "redis"}], 8),
        ([{"clientType": "redis", "usageParams": {"windowSize": "1d"}}], 8),
        ([{"clientType": "redis", "usageParams": {"windowSize": w}} for w in ("1d", "2w")], 15),
        ([{"clientType": "redis", "usageParams": {"windowType": "cron", "cronString": "@monthly"}}], 32),
        (
            [
                {
                    "clientType": "prometheus",
                    "connectionString": "http://p:9090",
                    "usageParams": {"windowSize": "30d"},
                }
            ],
            8,
        ),
    ],
)
def test_it_is_kept_a_day_longer_than_the_longest_window_and_never_shorter_than_usual(usage, days):
    assert retention(*usage) == days


def test_what_is_usual_is_the_flag_s_default():
    assert QueueControllerSettings.parse([]).usage_retention == 8 * DAY
