"""What no component would understand, helm refuses by name before anything reaches the cluster."""

import importlib
import json
from pathlib import Path

import pytest
import yaml

from kai.engine import SchedulerConfig
from kai.engine.config import ACTIONS, BUDGETS
from kai.engine.config.plugin_table import PLUGINS, arguments_of
from kai.engine.usage.params import FIELDS
from kai.runtime import ServiceSettings
from kai_binder.plugins import known_arguments

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[1] / "kai-scheduler" / "values.schema.json").read_text()
)
COMPONENTS = {
    "admission": "kai_admission",
    "podgrouper": "kai_pod_grouper",
    "podgroupcontroller": "kai_podgroup_controller",
    "queuecontroller": "kai_queue_controller",
    "scheduler": "kai_scheduler",
    "binder": "kai_binder",
    "nodescaleadjuster": "kai_node_scale_adjuster",
}


def at(*path):
    found = SCHEMA
    for key in path:
        found = found["properties"][key]
        if "$ref" in found:
            found = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]]
    return found


def flags(module) -> set[str]:
    found = importlib.import_module(f"{module}.settings")
    (kind,) = (
        each
        for each in vars(found).values()
        if isinstance(each, type) and issubclass(each, ServiceSettings) and each.__module__ == found.__name__
    )
    return kind.known_flags()


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
    assert set(arguments["properties"]) == flags(module)


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
    change = {"priority": 1650, "arguments": {"labels": "a, b"}}
    objects = helm.render(values={"scheduler": {"plugins": {"example.quiet": change}}})
    config = yaml.safe_load(objects.one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"])
    (tier,) = config["tiers"]
    named = [each["name"] for each in tier["plugins"]]
    place = named.index("example.quiet")
    assert named[place - 1 : place + 2] == ["priority", "example.quiet", "nodeavailability"]
    assert tier["plugins"][place]["arguments"] == {"labels": "a, b"}


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
        ({"binder": {"plugins": {"hamicor": {"enabled": True}}}}, "hamicor"),
        ({"podgrouper": {"args": {"log-levle": "debug"}}}, "log-levle"),
    ],
)
def test_what_is_misspelt_is_refused_by_name(helm, values, named):
    result = helm.template(values=values)
    assert result.returncode != 0
    assert named in result.stderr


def test_every_value_that_the_schema_calls_without_effect_is_told():
    template = (Path(__file__).resolve().parents[1] / "kai-scheduler" / "templates" / "NOTES.txt").read_text()
    parts = [SCHEMA, at("global"), at("scheduler"), at("binder"), at("admission")]
    silent = [
        name
        for part in parts
        for name, schema in part["properties"].items()
        if "Accepted for values of other releases" in schema.get("description", "")
        and f'"{name}"' not in template
    ]
    assert silent == []
