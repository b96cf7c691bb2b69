"""``usageDBConfig``: what is understood, what is refused by name, and where its connection comes from."""

from __future__ import annotations

from typing import Any

import pytest

from kai.config import ConfigError, SchedulerConfig, UsageClient, UsageDatabase
from kai.config.usage_database import NoPrometheus, connected, managed_prometheus

MANAGED = managed_prometheus("kai-scheduler")
ASKING = {"clientType": "prometheus"}


def test_without_a_word_usage_is_kept_in_redis() -> None:
    for document in ({}, {"clientType": ""}, {"clientType": None, "usageParams": None}):
        database = UsageDatabase.read(document)
        assert (database.client, database.connection) == (UsageClient.REDIS, "")
        assert database.params.window_size == 7 * 86400


def test_every_setting_of_the_original_is_decoded_when_the_configuration_is_loaded() -> None:
    config = SchedulerConfig.parse(
        """
        usageDBConfig:
          clientType: prometheus
          connectionString: https://user:secret@metrics.example:9090/prefix
          usageParams:
            windowSize: 1w2d
            windowType: tumbling
            tumblingWindowStartTime: "2030-01-01T00:00:00Z"
            halfLifePeriod: 10m
            fetchInterval: 30s
            stalenessPeriod: 2m
            waitTimeout: 5s
            extraParams:
              gpuAllocationMetric: queue_gpus
              usageQueryTimeout: 3s
        """
    )
    database = config.usage_db
    assert database is not None
    params = database.params
    assert database.client is UsageClient.PROMETHEUS
    assert (params.window_size, params.half_life, params.wait_timeout) == (9 * 86400, 600, 5)
    assert (params.prometheus.gpu_allocation, params.prometheus.query_timeout) == ("queue_gpus", 3)
    assert config.notes == ()
    assert database.document["connectionString"] == "https://user:…@metrics.example:9090/prefix"
    assert database.document["usageParams"]["windowSize"] == "1w2d"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("here", "usageDBConfig is 'here'; it must be a mapping of keys"),
        ({"clienttype": "redis"}, "unknown key 'clienttype' in usageDBConfig; did you mean 'clientType'?"),
        (
            {"clientType": "promethues"},
            "unknown client 'promethues' in usageDBConfig.clientType; did you mean 'prometheus'?",
        ),
        ({"clientType": 3}, "unknown client '3' in usageDBConfig.clientType; known: redis, prometheus"),
        ({"clientType": "fake-with-history"}, "is for tests of the original; write prometheus or redis"),
        ({"clientType": "influx"}, "unknown client 'influx'"),
        ({"connectionString": 9090}, "usageDBConfig.connectionString is 9090; it must be a text"),
        ({"connectionString": "http://x:1"}, "is 'http://x:1'; write redis://host:6379/0"),
        ({**ASKING, "connectionString": "redis://x"}, "is 'redis://x'; write http://host:9090"),
        ({**ASKING, "connectionString": "http://:9090"}, "is 'http://:9090'; write http://host:9090"),
        ({**ASKING, "connectionString": "http://x:port"}, "is 'http://x:port'; write http://host:9090"),
        ({**ASKING, "connectionString": "http://x?a=b"}, "without what follows ? or #"),
        ({**ASKING, "connectionString": "ftp://u:pw@x"}, "is 'ftp://u:…@x'; write"),
        (
            {"connectionString": "redis://x", "connectionStringEnvVar": "URL"},
            "usageDBConfig.connectionString and usageDBConfig.connectionStringEnvVar say the same; give one",
        ),
        ({"usageParams": [1]}, "usageDBConfig.usageParams is [1]; it must be a mapping of keys"),
        ({"usageParams": {"windowType": "rolling"}}, "usageDBConfig.usageParams.windowType: "),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        UsageDatabase.read(document)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("usage_params", "told"),
    [
        ({"windowType": "cron", "cronString": "@daily", "windowSize": "1d"}, "windowSize has no effect"),
        (
            {"cronString": "@daily"},
            "cronString has no effect: a window of type sliding is not over by the clock",
        ),
        ({"tumblingWindowStartTime": "2030-01-01T00:00:00Z"}, "tumblingWindowStartTime has no effect"),
        (
            {"extraParams": {"queryResolution": "5s"}},
            "extraParams.queryResolution has no effect: only a Prom",
        ),
    ],
)
def test_what_is_said_of_another_window_or_client_is_told(usage_params: dict[str, Any], told: str) -> None:
    (note,) = UsageDatabase.read({"usageParams": usage_params}).notes
    assert told in note


@pytest.mark.parametrize(
    ("document", "port"),
    [
        ({}, None),
        ({"connectionString": "unix:///run/redis.sock"}, None),
        ({"connectionString": "rediss://redis/0"}, 6379),
        ({**ASKING, "connectionString": "http://p:9090"}, 9090),
        ({**ASKING, "connectionString": "https://user:secret@p"}, 443),
        ({**ASKING, "connectionStringEnvVar": "URL"}, None),
    ],
)
def test_the_port_to_be_reached_is_known_where_a_url_is(document: dict[str, Any], port: int | None) -> None:
    assert UsageDatabase.read(document).port == port


# --- where the connection comes from ------------------------------------------------------------
@pytest.mark.parametrize(
    ("document", "managed", "external", "expected"),
    [
        pytest.param(ASKING, MANAGED, "", MANAGED, id="that of the installation"),
        pytest.param(ASKING, MANAGED, "http://elsewhere:9090", MANAGED, id="which comes first"),
        pytest.param(ASKING, "", "https://elsewhere", "https://elsewhere", id="else the one elsewhere"),
        pytest.param(ASKING, "", "elsewhere:9090", "http://elsewhere:9090", id="which may lack http"),
        pytest.param(
            {**ASKING, "connectionString": "http://own:1"}, MANAGED, "", "http://own:1", id="its own"
        ),
    ],
)
def test_a_shard_is_told_the_prometheus_that_its_installation_knows(
    document: dict[str, Any], managed: str, external: str, expected: str
) -> None:
    assert connected(document, managed=managed, external=external) == {**ASKING, "connectionString": expected}


def test_what_is_kept_in_redis_or_named_by_a_variable_is_handed_on_as_it_is() -> None:
    for document in ({"clientType": "redis"}, {**ASKING, "connectionStringEnvVar": "PROMETHEUS"}):
        assert connected(document, managed=MANAGED) == document


def test_without_any_prometheus_the_remedies_are_told() -> None:
    with pytest.raises(
        NoPrometheus, match=r"prometheus\.enabled or prometheus\.externalPrometheusUrl.*redis"
    ):
        connected(ASKING)


def test_a_prometheus_elsewhere_that_is_no_url_is_named() -> None:
    with pytest.raises(ConfigError, match=r"prometheus\.externalPrometheusUrl is 'ftp://x'"):
        connected(ASKING, external="ftp://x")


def test_the_managed_prometheus_is_that_of_the_original() -> None:
    assert MANAGED == "http://usage-prometheus.kai-scheduler.svc.cluster.local:9090"
