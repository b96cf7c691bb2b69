"""The scheduler's configuration file says what it means, or is refused."""

import pytest

from kai.engine.config import ConfigError, SchedulerConfig


def placement(arguments: str) -> str:
    return f"tiers: [{{plugins: [{{name: nodeplacement, arguments: {arguments}}}]}}]"


@pytest.mark.parametrize(("resource", "value"), [("gpu", "bnpack"), ("cpu", "Spread"), ("gpu", "true")])
def test_a_placement_strategy_that_is_not_known_is_named_with_what_is_allowed(
    resource: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.parse(placement(f'{{{resource}: "{value}"}}'))
    message = str(caught.value)
    assert repr(value) in message
    assert repr(resource) in message
    assert "binpack, spread, headroom" in message


@pytest.mark.parametrize(
    "arguments", ["{gpu: binpack, cpu: spread}", "{gpu: headroom}", "{gpu:, cpu: ''}", "{}"]
)
def test_known_strategies_and_none_are_taken(arguments: str) -> None:
    assert SchedulerConfig.parse(placement(arguments)).plugin("nodeplacement") is not None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("actions: [allocate]", "actions is "),
        ("tiers: {plugins: []}", "tiers is "),
        ("tiers: [gang]", r"tiers\[0\] is 'gang'"),
        ("tiers: [{plugins: [gang]}]", r"tiers\[0\].plugins is 'gang'"),
        ("tiers: [{plugins: [{name: elastic, arguments: [1]}]}]", r"tiers\[0\].plugins.arguments is "),
        ("queueDepthPerAction: 3", "queueDepthPerAction is 3"),
        ("queueDepthPerAction: {reclaim: all}", "queueDepthPerAction.reclaim is 'all'"),
        ("usageDBConfig: here", "usageDBConfig is 'here'"),
        ("scenarioSearchBudgets: 5m", "scenarioSearchBudgets is '5m'"),
        ("scenarioSearchBudgets: {maxActionSearchDuration: 5m}", "maxActionSearchDuration is '5m'"),
    ],
)
def test_a_value_of_the_wrong_shape_is_named(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SchedulerConfig.parse(text)
