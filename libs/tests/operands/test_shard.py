"""What a SchedulingShard says, and the configuration that its scheduler gets."""

from collections import Counter

import pytest

from kai.config import ACTIONS, SchedulerConfig
from kai.operands import (
    OPTIONAL_KINDS,
    Facts,
    InvalidSpec,
    operands_of_config,
    operands_of_shard,
    read_config,
    read_shard,
    rivals,
)

OPTIONAL = ("insight", "nodeScaleAdjuster", "numaPlacementExporter")


def a_shard(name="default", **spec):
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": name},
        "spec": spec,
    }


def config(**spec):
    return read_config({"metadata": {"name": "kai-config"}, "spec": spec})


def shard(name="default", **spec):
    return read_shard(a_shard(name, **spec), config())


def on(found):
    """The plugins that are on, in order."""
    ((tier),) = found.file["tiers"]
    return [plugin["name"] for plugin in tier["plugins"]]


def arguments(found, plugin):
    ((tier),) = found.file["tiers"]
    return next(each.get("arguments", {}) for each in tier["plugins"] if each["name"] == plugin)


def problems(config_spec=None, **spec):
    with pytest.raises(InvalidSpec) as caught:
        read_shard(a_shard(**spec), config(**(config_spec or {})))
    return {problem.field: problem.text for problem in caught.value.problems}


# --- the file ----------------------------------------------------------------------------------
def test_a_shard_that_says_nothing_has_the_built_in_configuration():
    assert SchedulerConfig.of(shard().file) == SchedulerConfig()


@pytest.mark.parametrize(
    ("gpu", "cpu", "expected"),
    [
        ("binpack", "binpack", {"gpupack", "gpusharingorder", "consolidation"}),
        ("spread", "spread", {"gpuspread"}),
        ("binpack", "spread", {"gpupack", "gpusharingorder"}),
        ("spread", "binpack", {"gpuspread"}),
        ("headroom", "headroom", {"gpupack", "consolidation"}),
    ],
)
def test_the_strategy_decides_what_else_is_on(gpu, cpu, expected):
    found = shard(placementStrategy={"gpu": gpu, "cpu": cpu})
    depend = {"gpupack", "gpuspread", "gpusharingorder", "consolidation"}
    assert {*on(found), *found.file["actions"].split(", ")} & depend == expected
    assert arguments(found, "nodeplacement") == {"gpu": gpu, "cpu": cpu}


def test_short_forms_become_arguments_of_their_plugins():
    found = shard(kValue=2, minRuntime={"preemptMinRuntime": "5m", "reclaimMinRuntime": "1h"})
    assert arguments(found, "proportion") == {"kValue": "2"}
    assert arguments(found, "minruntime") == {
        "defaultPreemptMinRuntime": "5m",
        "defaultReclaimMinRuntime": "1h",
    }


def test_changes_to_plugins_and_actions_say_what_is_on_and_in_which_order():
    found = shard(
        plugins={
            "elastic": {"enabled": False},
            "ray": {"priority": 1850},
            "numa": {},
            "proportion": {"arguments": {"kValue": "3"}},
        },
        actions={"reclaim": {"priority": 900}, "preempt": {"enabled": False}},
        kValue=2,
    )
    names = on(found)
    assert "elastic" not in names
    assert names.index("proportion") > names.index("ray") == 1
    assert names[-1] == "numa"
    assert found.numa
    assert arguments(found, "proportion") == {"kValue": "3"}
    rest = [name for name in ACTIONS if name not in ("reclaim", "preempt")]
    assert found.file["actions"].split(", ") == ["reclaim", *rest]


def test_plugins_of_equal_priority_go_by_name():
    found = shard(plugins={"topology": {"priority": 1900}})
    assert on(found)[:2] == ["predicates", "topology"]


def test_depths_budgets_and_usage_reach_the_scheduler():
    found = shard(
        queueDepthPerAction={"reclaim": 10, "allocate": -1},
        scenarioSearchBudgets={
            "maxJobSearchDuration": "1m",
            "maxActionSearchDuration": {"default": "2m"},
        },
        usageDBConfig={"clientType": "redis", "usageParams": {"windowSize": "2w", "halfLifePeriod": "2d"}},
    )
    read = SchedulerConfig.of(found.file)
    assert read.queue_depth == {"reclaim": 10}
    assert (read.budgets.job, read.budgets.of_action("reclaim")) == (60.0, 120.0)
    assert read.usage_db.written["usageParams"] == {"windowSize": "2w", "halfLifePeriod": "2d"}


@pytest.mark.parametrize(
    ("prometheus", "address"),
    [
        ({"enabled": True}, "http://usage-prometheus.kai-scheduler.svc.cluster.local:9090"),
        ({"enabled": True, "externalPrometheusUrl": "http://p:9090"}, "http://p:9090"),
    ],
)
def test_usage_is_read_from_the_prometheus_of_the_installation(prometheus, address):
    found = read_shard(a_shard(usageDBConfig={"clientType": "prometheus"}), config(prometheus=prometheus))
    assert found.spec.usage_db_config.connection_string == address


def test_a_prometheus_that_a_shard_names_is_its_own():
    usage = {"clientType": "prometheus", "connectionString": "http://mine:9090"}
    found = read_shard(a_shard(usageDBConfig=usage), config(prometheus={"enabled": True}))
    assert found.spec.usage_db_config.connection_string == "http://mine:9090"


# --- slips -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "field", "part"),
    [
        ({"goMemLimitRatio": 0.9}, "spec.goMemLimitRatio", "resources.limits.memory"),
        ({"goMemLimit": "4Gi"}, "spec.goMemLimit", "resources.limits.memory"),
        ({"args": {"schedule-periode": "2s"}}, "spec.args.schedule-periode", "mean 'schedule-period'?"),
        ({"args": {"scale-adjust-namespace": "x"}}, "spec.args.scale-adjust-namespace", "nodeScaleNamespace"),
        ({"args": {"partition-label-value": "x"}}, "spec.args.partition-label-value", "partitionLabelValue"),
        ({"args": {"namespace": "x"}}, "spec.args.namespace", "given by the installation itself"),
        ({"plugins": {"podafinty": {"enabled": False}}}, "spec.plugins.podafinty", "mean 'podaffinity'?"),
        ({"plugins": {"podafinity": {}}}, "spec.plugins.podafinity", "did you mean 'podaffinity'?"),
        (
            {"plugins": {"proportion": {"arguments": {"kvalue": "2"}}}},
            "spec.plugins.proportion",
            "did you mean 'kValue'?",
        ),
        ({"plugins": {"proportion": {"arguments": {"kValue": "abc"}}}}, "spec.plugins.proportion", "least 0"),
        ({"actions": {"alocate": {}}}, "spec.actions.alocate", "did you mean 'allocate'?"),
        ({"queueDepthPerAction": {"reclame": 3}}, "spec.queueDepthPerAction.reclame", "mean 'reclaim'?"),
        (
            {"queueDepthPerAction": {"preempt": 3}, "actions": {"preempt": {"enabled": False}}},
            "spec.queueDepthPerAction.preempt",
            "is of an action that is off",
        ),
        ({"placementStrategy": {"gpu": "pack"}}, "spec.placementStrategy.gpu", "binpack, spread, headroom"),
        ({"kValue": -1}, "spec.kValue", "at least 0"),
        (
            {"scenarioSearchBudgets": {"maxJobSearchDuration": "1m", "minJobSearchDuration": "2m"}},
            "spec.scenarioSearchBudgets",
            "must be below maxJobSearchDuration",
        ),
        (
            {"scenarioSearchBudgets": {"maxActionSearchDuration": {"reclame": "2m"}}},
            "spec.scenarioSearchBudgets",
            "did you mean 'reclaim'?",
        ),
        (
            {"usageDBConfig": {"clientType": "prometheus"}},
            "spec.usageDBConfig.connectionString",
            "spec.prometheus.enabled of the Config",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told_with_what_to_write(spec, field, part):
    told = problems(**spec)
    assert list(told) == [field]
    assert part in told[field]


def test_a_shard_needs_an_action():
    off = {name: {"enabled": False} for name in ACTIONS}
    assert "enable allocate" in problems(actions=off)["spec.actions"]


def test_names_are_made_of_that_of_a_shard():
    with pytest.raises(InvalidSpec, match=r"metadata\.name is too long"):
        shard("s" * 60)
    longest = "s" * (63 - len("kai-scheduler-"))
    assert shard(longest).name == longest
    with pytest.raises(InvalidSpec, match=r"with kai-schedulers- before it"):
        read_shard(a_shard(longest), config(scheduler={"replicas": 2}))


@pytest.mark.parametrize("replicas", [1, 2])
def test_no_two_shards_have_an_object_of_the_same_name(replicas):
    installation = config(scheduler={"replicas": replicas})
    names = ("default", "default-all", "default-leader", "default-usage", "s-default", "all", "s")
    shards = [read_shard(a_shard(name, partitionLabelValue=name), installation) for name in names]
    objects = [each for one in shards for each in operands_of_shard(installation, one, Facts())]
    made = Counter((each["kind"], each["metadata"]["name"]) for each in objects)
    assert [each for each, times in made.items() if times > 1] == []


def test_a_name_that_would_make_that_of_another_component_is_refused_whatever_the_scheduler_is_called():
    everything = {name: {"service": {"enabled": True}} for name in OPTIONAL}
    facts = Facts(served=frozenset(OPTIONAL_KINDS))
    objects = operands_of_config(config(**everything), facts, [])
    names = {
        each["metadata"]["name"] for each in objects if each["kind"] in ("Deployment", "DaemonSet", "Service")
    }
    assert {"kai-redis", "pod-grouper"} <= names
    for name in {*names, "kai-operator"}:
        parts = name.split("-")
        for at in range(1, len(parts)):
            scheduler, ours = "-".join(parts[:at]), "-".join(parts[at:])
            named = config(**{"global": {"schedulerName": scheduler}})
            with pytest.raises(InvalidSpec, match=rf"metadata\.name is {ours}; .* would be called {name}"):
                read_shard(a_shard(ours), named)


def test_a_name_that_no_service_can_have_is_refused_with_one_that_it_can():
    with pytest.raises(InvalidSpec, match=r"metadata\.name is pool\.a; .*no dots: write pool-a"):
        shard("pool.a")


def test_a_plugin_of_another_package_may_be_installed_elsewhere():
    assert "example.quiet" in on(shard(plugins={"example.quiet": {"priority": 50}}))


def test_two_shards_cannot_serve_the_same_nodes():
    shards = [
        shard("a"),
        shard("b", partitionLabelValue="b"),
        shard("c"),
        shard("d", partitionLabelValue="b"),
    ]
    told = rivals(shards, config())
    assert {name: problem.text for name, problem in told.items()} == {
        "c": "is that of SchedulingShard a; give each shard a value of its own",
        "d": "is that of SchedulingShard b; give each shard a value of its own",
    }


def test_without_a_label_of_node_pools_the_first_shard_has_everything():
    shards = [shard("a"), shard("b", partitionLabelValue="b"), shard("c", partitionLabelValue="c")]
    assert rivals(shards, config()) == {}
    told = rivals(shards, config(**{"global": {"nodePoolLabelKey": ""}}))
    assert told.keys() == {"b", "c"}
    for problem in told.values():
        assert "SchedulingShard a serves all nodes: spec.global.nodePoolLabelKey" in problem.text
