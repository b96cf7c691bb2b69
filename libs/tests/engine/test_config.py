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
