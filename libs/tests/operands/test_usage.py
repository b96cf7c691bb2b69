"""What shards say of past use reaches those who record it, read it and let them connect."""

import pytest

from kai.model import duration
from kai.operands import Facts, operands_of_config, operands_of_shard, read_config, read_shard
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


@pytest.mark.parametrize("text", ["90s", "12h", "7d", "1w"])
@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("windowSize", "window_size"),
        ("halfLifePeriod", "half_life"),
        ("fetchInterval", "fetch_interval"),
        ("stalenessPeriod", "staleness_period"),
        ("waitTimeout", "wait_timeout"),
    ],
)
def test_a_shard_takes_durations_as_its_scheduler_reads_them(field, read, text):
    usage = {"clientType": "redis", "usageParams": {field: text}}
    config = read_config({"metadata": {"name": "kai-config"}, "spec": {}})
    found = read_shard({"metadata": {"name": "default"}, "spec": {"usageDBConfig": usage}}, config)
    assert found.usage_database is not None
    assert getattr(found.usage_database.params, read) == duration.parse(text)


# --- the scheduler --------------------------------------------------------------------------------
FACTS = Facts(served=frozenset(), api_server_ports=(6443,))


def scheduler_of(usage, **config):
    """Deployment and network policy of a shard."""
    spec = read_config({"metadata": {"name": "kai-config"}, "spec": config})
    shard = read_shard({"metadata": {"name": "default"}, "spec": {"usageDBConfig": usage}}, spec)
    objects = {each["kind"]: each for each in operands_of_shard(spec, shard, FACTS)}
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container, objects["NetworkPolicy"]["spec"]["egress"]


def open_ports(egress):
    """Ports to which one may connect wherever they are, beside the API server and names."""
    ports = {port["port"] for rule in egress if "to" not in rule for port in rule["ports"]}
    return ports - {6443, 443, 53, 5353}


@pytest.mark.parametrize(
    ("usage", "config", "ports"),
    [
        ({"clientType": "redis"}, {}, set()),
        ({"clientType": "prometheus"}, {"prometheus": {"enabled": True}}, {9090}),
        ({"clientType": "prometheus", "connectionString": "http://metrics.example"}, {}, {80}),
        ({"clientType": "prometheus", "connectionStringEnvVar": "URL"}, {}, set()),
    ],
)
def test_a_scheduler_may_connect_to_the_prometheus_that_it_asks(usage, config, ports):
    _, egress = scheduler_of(usage, **config)
    assert open_ports(egress) == ports


def test_a_variable_with_the_connection_comes_from_a_secret():
    container, _ = scheduler_of({"clientType": "prometheus", "connectionStringEnvVar": "USAGE_URL"})
    found = {each["name"]: each for each in container["env"]}["USAGE_URL"]
    assert found["valueFrom"] == {"secretKeyRef": {"name": "kai-scheduler-default-usage", "key": "USAGE_URL"}}


@pytest.mark.parametrize(
    ("client", "prefix", "given", "asked"),
    [
        ("prometheus", "kai", {}, {}),
        (
            "prometheus",
            "acme",
            {},
            {
                "gpuAllocationMetric": "acme_queue_allocated_gpus",
                "cpuAllocationMetric": "acme_queue_allocated_cpu_cores",
                "memoryAllocationMetric": "acme_queue_allocated_memory_bytes",
            },
        ),
        (
            "prometheus",
            "acme",
            {"gpuAllocationMetric": "theirs", "queryResolution": "2m"},
            {
                "gpuAllocationMetric": "theirs",
                "cpuAllocationMetric": "acme_queue_allocated_cpu_cores",
                "memoryAllocationMetric": "acme_queue_allocated_memory_bytes",
                "queryResolution": "2m",
            },
        ),
        ("redis", "acme", {}, {}),
    ],
)
def test_a_prometheus_is_asked_for_the_metrics_that_queues_have(client, prefix, given, asked):
    spec = {"prometheus": {"enabled": True}, "queueController": {"metricsNamespace": prefix}}
    config = read_config({"metadata": {"name": "kai-config"}, "spec": spec})
    usage = {"clientType": client, "usageParams": {"extraParams": given}}
    shard = read_shard({"metadata": {"name": "default"}, "spec": {"usageDBConfig": usage}}, config)
    assert shard.file["usageDBConfig"].get("usageParams", {}).get("extraParams", {}) == asked
