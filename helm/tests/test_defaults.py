"""What the chart starts without any values is what every other way to run us starts."""

import yaml

from kai.engine import SchedulerConfig
from kai.engine.plugin_table import DEFAULT_PLUGINS, PLUGINS


def written_configuration(objects) -> str:
    return objects.one("ConfigMap", "kai-scheduler-default")["data"]["config.yaml"]


def test_the_charts_configuration_is_the_built_in_one(helm):
    text = written_configuration(helm.render())
    assert SchedulerConfig.parse(text) == SchedulerConfig()
    assert SchedulerConfig.parse(text).notes == ()


def test_the_chart_knows_every_plugin_by_its_priority(helm):
    """A plugin that a user gives a priority comes where the table says."""
    values = {"scheduler": {"plugins": {"numa": {"priority": 1450}, "ray": {"priority": 1850}}}}
    tiers = yaml.safe_load(written_configuration(helm.render(values=values)))["tiers"]
    by_priority = {name: PLUGINS[name].priority for name in DEFAULT_PLUGINS} | {"numa": 1450, "ray": 1850}
    expected = sorted(by_priority, key=by_priority.get, reverse=True)
    assert [plugin["name"] for plugin in tiers[0]["plugins"]] == expected
