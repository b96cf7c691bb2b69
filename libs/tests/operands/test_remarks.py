"""Whether a shard is told that what it is to remember will not stay."""

import pytest

from kai.operands import read_config, read_shard, remarks

FORGOTTEN, NOWHERE = "a Redis without a volume", "the Config has none"
FORGETFUL = {"persistence": {"enabled": False}}
LATELY = {"usageParams": {"windowSize": "1w"}}
OF_PROMETHEUS = {"clientType": "prometheus", "connectionString": "http://prometheus:9090"}


def told(shard, **config):
    read = read_config({"metadata": {"name": "kai-config"}, "spec": config})
    return list(remarks(read, read_shard({"metadata": {"name": "default"}, "spec": shard}, read)))


@pytest.mark.parametrize(
    ("usage", "redis", "expected"),
    [
        (LATELY, FORGETFUL, FORGOTTEN),
        ({"clientType": "redis"}, FORGETFUL, FORGOTTEN),
        (LATELY, {}, None),
        (LATELY, {"persistence": {"enabled": True}}, None),
        (LATELY, {"externalSecret": {"name": "theirs"}}, None),
        (LATELY, {"enabled": False}, NOWHERE),
        ({**LATELY, "connectionString": "redis://theirs:6379/0"}, FORGETFUL, None),
        ({**LATELY, "connectionStringEnvVar": "WHERE"}, {"enabled": False}, None),
        (OF_PROMETHEUS, FORGETFUL, None),
        (OF_PROMETHEUS, {"enabled": False}, None),
        (None, {}, None),
    ],
)
def test_a_shard_that_remembers_is_told_where_that_is_lost(usage, redis, expected):
    found = told({"usageDBConfig": usage} if usage is not None else {}, redis=redis)
    assert len(found) == (expected is not None)
    assert all(expected in text for text in found)
