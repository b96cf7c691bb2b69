"""What no component would understand, helm refuses by name before anything reaches the cluster."""

import importlib
import json
import re
import shutil
from pathlib import Path

import pytest

from kai.config import ACTIONS, BUDGETS
from kai.config.plugin_table import DEFAULT_PLUGINS, PLUGINS, arguments_of
from kai.config.usage_params import FIELDS
from kai.engine import SchedulerConfig
from kai.model.documents import load_written
from kai.operands import read_config
from kai.operands.spec.flags import may_be_added
from kai.runtime import ServiceSettings, SettingsError
from kai_binder.plugins import known_arguments

CHART = Path(__file__).resolve().parents[1] / "kai-scheduler"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
#: Flags that the installation itself gives to each, and nobody else may.
GIVEN = {"namespace", "config", "kubeconfig", "tls-cert", "grants", "metrics-listen", "health-listen"}
#: How a Config calls those components that the chart calls otherwise.
OF_CONFIG = {
    "podgrouper": "podGrouper",
    "podgroupcontroller": "podGroupController",
    "queuecontroller": "queueController",
    "nodescaleadjuster": "nodeScaleAdjuster",
}
COMPONENTS = {
    "admission": "kai_admission",
    "podgrouper": "kai_pod_grouper",
    "podgroupcontroller": "kai_podgroup_controller",
    "queuecontroller": "kai_queue_controller",
    "scheduler": "kai_scheduler",
    "binder": "kai_binder",
    "insight": "kai_insight",
    "nodescaleadjuster": "kai_node_scale_adjuster",
    "numaPlacementExporter": "kai_numa_placement_exporter",
    "operator": "kai_operator",
}


def at(*path):
    found = SCHEMA
    for key in path:
        found = found["properties"][key]
        if "$ref" in found:
            found = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]]
    return found


def flags(module) -> set[str]:
    return settings_of(module).known_flags()


def settings_of(module) -> type[ServiceSettings]:
    found = importlib.import_module(f"{module}.settings")
    (kind,) = (
        each
        for each in vars(found).values()
        if isinstance(each, type) and issubclass(each, ServiceSettings) and each.__module__ == found.__name__
    )
    return kind


def plugin_schemas(component) -> dict[str, list[str]]:
    """The arguments that the schema lets each plugin have."""
    plugins = at(component, "plugins")
    assert plugins["additionalProperties"] is False
    found = {}
    for name, plugin in plugins["properties"].items():
        assert plugin["additionalProperties"] is False
        assert plugin["properties"]["arguments"]["additionalProperties"] is False
        found[name] = sorted(plugin["properties"]["arguments"].get("properties", {}))
    return found


@pytest.mark.parametrize(("component", "module"), COMPONENTS.items())
def test_the_schema_has_every_flag_of_a_component_and_no_other(component, module):
    arguments = at(component, "args")
    assert arguments["additionalProperties"] is False
    left = {flag for flag in flags(module) if may_be_added(OF_CONFIG.get(component, component), flag)}
    assert set(arguments["properties"]) == left
    assert not left & GIVEN


#: Each is right for some flags.
TEXTS = [
    "abc", "", "true", "TRUE", "off", "Y", "0", "7", " 5 ", "1_000", "3.0", "0.5", "1e3", "inf", "90", "90s",
    "1h30m", "1.5h", "2d", "-5s", "debug", "WARN", "4", "info,kai.kube=debug",
    " error , kai.observe=info,asyncio=debug ",
    "kai.kube=debug", "info,", ":8080", "8080", "10.0.0.1:9", "[::1]:9", "Always",
]  # fmt: skip


@pytest.mark.parametrize(("component", "module"), COMPONENTS.items())
def test_helm_takes_every_text_of_a_flag_that_its_process_can_read(component, module):
    too_strict = [
        (flag, text)
        for flag, schema in at(component, "args")["properties"].items()
        for text in TEXTS
        if not matches(schema, text) and reads(module, flag, text)
    ]
    assert too_strict == []


def matches(schema, text) -> bool:
    """What a schema says of a text."""
    if "allOf" in schema:
        return all(matches(each, text) for each in schema["allOf"])
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    allowed = schema.get("enum", [text])
    return (
        text in allowed
        and len(text) >= schema.get("minLength", 0)
        and re.search(schema.get("pattern", ""), text) is not None
    )


def reads(module, flag, text) -> bool:
    try:
        settings_of(module).parse([f"--{flag}={text}"])
    except SettingsError:
        return False
    return True


def test_the_schema_has_every_plugin_of_the_scheduler_with_its_arguments():
    assert plugin_schemas("scheduler") == {name: sorted(arguments_of(spec)) for name, spec in PLUGINS.items()}


def test_the_schema_has_every_plugin_of_the_binder_with_its_arguments():
    assert plugin_schemas("binder") == {name: sorted(found) for name, found in known_arguments().items()}


def test_the_schema_has_every_action_and_every_budget():
    actions, budgets = at("scheduler", "actions"), at("scheduler", "scenarioSearchBudgets")
    assert actions["additionalProperties"] is budgets["additionalProperties"] is False
    assert set(actions["properties"]) == set(ACTIONS)
    assert set(budgets["properties"]) == set(BUDGETS)


def test_the_schema_has_every_field_of_usage():
    usage = at("scheduler", "usageDBConfig")
    assert set(usage["properties"]["usageParams"]["properties"]) == set(FIELDS)


def test_depths_and_usage_reach_the_scheduler(helm):
    depths, usage = {"reclaim": 10, "preempt": -1}, {"usageParams": {"windowSize": "1w"}}
    objects = helm.render(values={"scheduler": {"queueDepthPerAction": depths, "usageDBConfig": usage}})
    text = objects.one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"]
    config = SchedulerConfig.parse(text)
    assert config.queue_depth == {"reclaim": 10}
    assert config.usage_db.written == usage


def test_a_plugin_of_another_package_reaches_the_scheduler_in_its_place(helm):
    behind = DEFAULT_PLUGINS[2]
    change = {"priority": PLUGINS[behind].priority - 1, "arguments": {"labels": "a, b"}}
    objects = helm.render(values={"scheduler": {"plugins": {"example.quiet": change}}})
    config = load_written(objects.one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"])
    (tier,) = config["tiers"]
    named = [each["name"] for each in tier["plugins"]]
    assert named == [*DEFAULT_PLUGINS[:3], "example.quiet", *DEFAULT_PLUGINS[3:]]
    assert tier["plugins"][3]["arguments"] == {"labels": "a, b"}


@pytest.mark.parametrize(
    ("values", "wrong", "known"),
    [
        ({"bindr": {"replicas": 1}}, "bindr", "binder"),
        ({"binder": {"replica": 1}}, "replica", "replicas"),
        ({"global": {"resourceReservation": {"namspace": "x"}}}, "namspace", "namespace"),
        ({"scheduler": {"plugins": {"podafinity": {"enabled": False}}}}, "podafinity", "podaffinity"),
        ({"scheduler": {"plugins": {"proportion": {"arguments": {"kvalue": "2"}}}}}, "kvalue", "kValue"),
        ({"scheduler": {"args": {"schedul-period": "1s"}}}, "schedul-period", "schedule-period"),
        ({"binder": {"plugins": {"hamicor": {"enabled": True}}}}, "hamicor", "hamicore"),
    ],
)
def test_a_key_that_is_misspelt_is_refused_with_those_that_are_known(helm, values, wrong, known):
    result = helm.template(values=values)
    assert result.returncode != 0
    assert wrong in result.stderr
    assert re.search(rf"must be one of .*['\"]{known}['\"]", result.stderr), result.stderr


def test_every_section_that_takes_no_other_keys_names_those_it_takes():
    closed = [each for each in parts(SCHEMA) if each.get("additionalProperties") is False]
    assert len(closed) > 100
    for each in closed:
        takes = [{"enum": list(each["properties"])}] if each.get("properties") else []
        takes += [{"pattern": pattern} for pattern in each.get("patternProperties", ())]
        names = each.get("propertyNames", {"anyOf": []})
        assert names.get("anyOf", [names]) == takes


def parts(schema):
    """All objects of a schema."""
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(each, dict | list):
            yield from parts(each)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"scheduler": {"plugins": {"podafinity": {"enabled": False}}}}, "podafinity"),
        ({"scheduler": {"plugins": {"proportion": {"arguments": {"kvalue": "2"}}}}}, "kvalue"),
        ({"scheduler": {"plugins": {"proportion": {"arguments": {"kValue": "abc"}}}}}, "kValue"),
        ({"scheduler": {"plugins": {"nodeplacement": {"arguments": {"gpu": "bnpack"}}}}}, "gpu"),
        ({"scheduler": {"actions": {"reclam": {"enabled": False}}}}, "reclam"),
        ({"scheduler": {"args": {"schedul-period": "1s"}}}, "schedul-period"),
        ({"scheduler": {"scenarioSearchBudgets": {"maxJobTime": "1s"}}}, "maxJobTime"),
        ({"scheduler": {"queueDepthPerAction": {"reclam": 3}}}, "reclam"),
        ({"scheduler": {"usageDBConfig": {"usageParams": {"windowsize": "1w"}}}}, "windowsize"),
        ({"scheduler": {"args": {"schedule-period": "abc"}}}, "schedule-period"),
        ({"scheduler": {"args": {"eviction-api": "maybe"}}}, "eviction-api"),
        ({"binder": {"args": {"log-level": "loud"}}}, "log-level"),
        ({"binder": {"args": {"max-concurrent-reconciles": "many"}}}, "max-concurrent-reconciles"),
        ({"binder": {"args": {"max-concurrent-reconciles": 0}}}, "max-concurrent-reconciles"),
        ({"operator": {"args": {"resync-period": "often"}}}, "resync-period"),
        ({"queuecontroller": {"args": {"enable-webhook": False}}}, "enable-webhook"),
        ({"queuecontroller": {"args": {"enable-webhook": "false"}}}, "enable-webhook"),
        ({"queuecontroller": {"metricsNamespace": "a b"}}, "metricsNamespace"),
        ({"queuecontroller": {"queueLabelToMetricLabel": "a"}}, "queueLabelToMetricLabel"),
        ({"queuecontroller": {"queueLabelToMetricLabel": "a,b=="}}, "queueLabelToMetricLabel"),
        ({"queuecontroller": {"queueLabelToDefaultMetricValue": "a"}}, "queueLabelToDefaultMetricValue"),
        ({"binder": {"plugins": {"hamicor": {"enabled": True}}}}, "hamicor"),
        ({"podgrouper": {"args": {"log-levle": "debug"}}}, "log-levle"),
        ({"binder": {"ports": {"webhookPort": 9443}}}, "webhookPort"),
        ({"scheduler": {"ports": {"probePort": 8081}}}, "probePort"),
        ({"admission": {"ports": {"grpcPort": 9090}}}, "grpcPort"),
        ({"binder": {"podDisruptionBudget": {"maxUnavailable": "25%"}}}, "integer"),
    ],
)
def test_what_no_component_has_is_refused_by_name(helm, values, named):
    result = helm.template(values=values)
    assert result.returncode != 0
    assert named in result.stderr


# --- values of the original ---------------------------------------------------------------------
def leaves(properties, above=""):
    """Paths of all values, down to what the schema says something of, or does not know more of."""
    for key, schema in properties.items():
        path = f"{above}{key}"
        yield path
        if "$ref" in schema:
            schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
        yield from leaves(schema.get("properties", {}), f"{path}.")


def test_certificates_last_no_longer_than_a_duration_may(helm):
    longest = {"validDays": 106_750, "authorityValidDays": 106_751}
    found = helm.chart(values={"certificates": {**longest, "renewAfterDays": 10**6}})
    read_config(found.one("Config", "kai-config"))
    result = helm.template(values={"certificates": {value: days + 1 for value, days in longest.items()}})
    assert result.returncode != 0
    assert [value for value in longest if f"certificates.{value}" in result.stderr] == [*longest]


def test_every_value_of_the_original_is_known():
    """By name; what they do is told in docs/helm.md."""
    known = set(leaves(SCHEMA["properties"]))
    names = (Path(__file__).parent / "values-of-the-original.txt").read_text().split()
    assert len(names) == len(set(names))
    assert [name for name in names if name not in known] == []


def test_every_value_says_what_it_does():
    silent = [
        path
        for path, schema in described(SCHEMA["properties"])
        if "description" not in schema and "properties" not in schema
    ]
    assert silent == []


def described(properties, above=""):
    for key, schema in properties.items():
        yield f"{above}{key}", schema
        if "description" not in schema:
            yield from described(schema.get("properties", {}), f"{above}{key}.")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"scheduler": {"goMemLimitRatio": 0.8}},
            "scheduler.goMemLimitRatio is 0.8: it tunes the memory of Go",
        ),
        ({"scheduler": {"goMemLimit": "6Gi"}}, "set scheduler.resources.limits.memory"),
        ({"admission": {"cdi": True}}, "set binder.cdiEnabled"),
        ({"admission": {"name": "mine"}}, "the component is called admission"),
        ({"global": {"fipsMode": "only"}}, "set it to on"),
        ({"global": {"gpuSharingMode": "NvFractions"}}, "choose NonMemoryEnforced, HamiCore or Disabled"),
        (
            {
                "global": {"clusterAutoscaling": True},
                "nodescaleadjuster": {"scalingPodNamespace": "kai-resource-reservation"},
            },
            "nodescaleadjuster.scalingPodNamespace and global.resourceReservation.namespace are the same",
        ),
        (
            {"global": {"gpuSharing": True, "gpuSharingMode": "Disabled"}},
            "global.gpuSharing is true and global.gpuSharingMode is Disabled: one switches on",
        ),
        ({"kaiConfig": {"render": True}}, "set one of them to false"),
    ],
)
def test_what_is_not_done_here_is_refused_with_what_to_do(helm, values, told):
    result = helm.template(values=values)
    assert result.returncode != 0
    assert told in result.stderr


def test_what_says_no_more_than_the_default_of_the_original_is_taken(helm):
    idle = {
        "scheduler": {"goMemLimitRatio": 0.9},
        "admission": {"name": "kai-admission", "cdi": False},
        "binder": {"name": "binder"},
        "global": {"nvFractions": {"set": False}},
        "crdupgrader": {"image": {"name": "crd-upgrader", "pullPolicy": "IfNotPresent"}},
        "kaiConfigDeployer": {"image": {"name": "crd-upgrader", "pullPolicy": "IfNotPresent"}},
    }
    assert helm.chart(values=idle) == helm.chart()


def test_an_upgrade_that_reuses_values_does_without_those_that_are_new(helm, tmp_path):
    """helm knows those of the release before alone then."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "values.yaml").write_text("{}")
    assert helm.chart(chart=chart) == helm.chart()


#: Much of what values may be about is switched on.
MUCH = {
    "global": {"clusterAutoscaling": True},
    "insight": {"enabled": True},
    "dashboards": {"enabled": True},
    "prometheus": {"enabled": True},
}
#: Without those, or without what is below them, there is something else than by default.
SAID_BY_ABSENCE = {
    "global.gpuSharing",
    "global.vpa.updatePolicy",
    "global.vpa.resourcePolicy",
    "admission.gpuFractionRuntimeClassName",
    "dashboards.labels",
}


def without_any(values, but, above=""):
    """Null in place of all values but those that another tree says, and those that are said by absence."""
    kept = {
        key: each
        for key, each in values.items()
        if f"{above}{key}" not in SAID_BY_ABSENCE and (isinstance(each, dict) or key not in but)
    }
    below = {key: each for key, each in kept.items() if each and isinstance(each, dict)}
    return dict.fromkeys(kept) | {
        key: without_any(each, but.get(key, {}), f"{above}{key}.") for key, each in below.items()
    }


def together(values, more):
    both = {key: together(values.get(key, {}), each) for key, each in more.items() if isinstance(each, dict)}
    return {**values, **more, **both}


@pytest.mark.parametrize("said", [{}, MUCH], ids=["nothing", "much"])
def test_a_value_of_null_is_as_by_default(helm, said):
    """helm takes the default away, and a template that did without it would end, or leave policies out."""
    nulls = without_any(load_written((CHART / "values.yaml").read_text()), said)
    assert nulls["admissionPolicies"]["enabled"] is None
    assert helm.chart(values=together(nulls, said)) == helm.chart(values=said)


def sections(values, above=""):
    """The paths of all that has keys."""
    for key, each in values.items():
        if isinstance(each, dict) and each:
            yield above + key
            yield from sections(each, f"{above}{key}.")


def test_a_section_that_is_taken_away_is_as_it_is_by_default(helm):
    """One of null has helm take away all that is below it."""
    found = list(sections(load_written((CHART / "values.yaml").read_text())))
    depth = max(path.count(".") for path in found)
    default = helm.chart()
    for level in range(depth + 1):
        given = {}
        for path in (path.split(".") for path in found if path.count(".") == level):
            inner = given
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = None
        assert helm.chart(values=given) == default


def test_an_empty_text_is_as_by_default_where_the_list_of_values_says_so(helm):
    empty = {"podgrouper": {"queueLabelKey": ""}, "scheduler": {"placementStrategy": ""}}
    assert helm.chart(values=empty) == helm.chart()


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"admission": {"gpuFractionRuntimeClassName": None}}, 'gpuFractionRuntimeClassName: "nvidia"'),
        ({"global": {"gpuSharing": None}}, "gpuSharing: false"),
        ({"global": {"vpa": {"updatePolicy": {"minReplicas": None}}}}, "minReplicas: 1"),
        (
            {"dashboards": {"enabled": True, "labels": {"grafana_dashboard": None, "mine": "1"}}},
            "grafana_dashboard: ",
        ),
    ],
)
def test_null_takes_away_what_has_a_meaning_by_its_absence(helm, values, gone):
    without, usually = (helm.text(values=each) for each in (values, {"dashboards": {"enabled": True}}))
    assert gone in usually
    assert gone not in without
