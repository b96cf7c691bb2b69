"""The scheduler's configuration file says what it means, or is refused."""

import pytest

from kai.config import SchedulerConfig
from kai.config.arguments import ConfigError
from kai.config.plugin_table import (
    DEFAULT_PLUGINS,
    PLUGINS,
    MinRuntimeArguments,
    NodePlacementArguments,
    NumaArguments,
    ProportionArguments,
)
from kai.engine import Engine


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
        ("tiers: [{plugins: [gang]}]", r"tiers\[0\].plugins\[0\] is 'gang'"),
        ("tiers: [{plugins: [{name: elastic, arguments: [1]}]}]", r"tiers\[0\].plugins\[0\].arguments is "),
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


def one_plugin(name: str, arguments: str = "{}") -> str:
    return f"tiers: [{{plugins: [{{name: {name}, arguments: {arguments}}}]}}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            one_plugin("podafinity"),
            "unknown plugin 'podafinity'; did you mean 'podaffinity'? known: predicates,",
        ),
        (one_plugin("PodAffinity"), "did you mean 'podaffinity'?"),
        (one_plugin("gang"), "tiers[0].plugins[0]: unknown plugin 'gang'; known: predicates,"),
        (one_plugin("''"), "tiers[0].plugins[0].name is ''; it must be the name of a plugin"),
        ("tiers: [{plugins: [{arguments: {}}]}]", "tiers[0].plugins[0].name is None"),
        (
            "tiers: [{plugins: [{name: ray}]}, {plugins: [{name: ray}]}]",
            "tiers[1].plugins[0]: plugin 'ray' is named twice; name it once",
        ),
        (
            "actions: allocate, reclam",
            "unknown action 'reclam' in actions; did you mean 'reclaim'? known: allocate,",
        ),
        ("actions: allocate\nactions: reclaim", "line 2: 'actions' is there twice; say it once"),
        ("actions: allocate, reclaim, allocate", "actions names 'allocate' twice"),
        (
            "action: allocate",
            "unknown key 'action' in the scheduler configuration; did you mean 'actions'? known:",
        ),
        ("tiers: [{plugin: []}]", "unknown key 'plugin' in tiers[0]; did you mean 'plugins'?"),
        ("tiers: [{plugins: [{name: ray, args: {}}]}]", "unknown key 'args' in tiers[0].plugins[0]"),
        (
            "tiers: [{plugins: [{name: priority, disabled: true}]}]",
            "unknown key 'disabled' in tiers[0].plugins[0]; did you mean 'disable",
        ),
        (
            "tiers: [{plugins: [{name: priority, disableQueueOrdr: true}]}]",
            "unknown key 'disableQueueOrdr' in tiers[0].plugins[0]; did you mean 'disableQueueOrder'?",
        ),
        (
            "tiers: [{plugins: [{name: priority, disableQueueOrder: yes please}]}]",
            "tiers[0].plugins[0].disableQueueOrder is 'yes please'; it must be true or false",
        ),
        (
            "queueDepthPerAction: {reclam: 3}",
            "unknown key 'reclam' in queueDepthPerAction; did you mean 'reclaim'?",
        ),
        (
            "queueDepthPerAction: {reclaim: -2}",
            "queueDepthPerAction.reclaim is -2; it must be an integer, -1 for",
        ),
        (
            "scenarioSearchBudgets: {maxJobSearchTime: 1m}",
            "unknown key 'maxJobSearchTime' in scenarioSearchBudgets; did you mean 'maxJobSearchDuration'?",
        ),
        (
            "scenarioSearchBudgets: {maxJobSearchDuration: soon}",
            "maxJobSearchDuration: 'soon' is not a duration",
        ),
        (
            one_plugin("proportion", "{kvalue: 2}"),
            "plugin 'proportion': unknown argument 'kvalue'; did you mean 'kValue'? known: kValue,",
        ),
        (one_plugin("ray", "{heads: 2}"), "plugin 'ray': unknown argument 'heads'; known: none"),
        (
            one_plugin("proportion", "{kValue: abc}"),
            "plugin 'proportion': argument 'kValue' is 'abc'; it must be a number of at least 0",
        ),
        (
            one_plugin("proportion", "{kValue: -1}"),
            "argument 'kValue' is '-1'; it must be a number of at least 0",
        ),
        (one_plugin("proportion", "{kValue: nan}"), "argument 'kValue' is 'nan'"),
        (one_plugin("proportion", "{kValue: [2]}"), "arguments.kValue is [2]; it must be a text, a number"),
        (
            one_plugin("proportion", "{relcaimerSaturationMultiplier: 0.5}"),
            "'relcaimerSaturationMultiplier' is '0.5'; it must be a number of at least 1",
        ),
        (
            one_plugin("proportion", "{relcaimerSaturationMultiplier: 2, reclaimerSaturationMultiplier: 3}"),
            "and 'reclaimerSaturationMultiplier' are the same argument; give one",
        ),
        (
            one_plugin("minruntime", "{defaultReclaimMinRuntime: 10 minutes}"),
            "'defaultReclaimMinRuntime' is '10 minutes'; it must be a duration such as 90s",
        ),
        (one_plugin("minruntime", "{defaultPreemptMinRuntime: -5m}"), "it must be a duration such as 90s"),
        (
            one_plugin("minruntime", "{reclaimResolveMethod: LCA}"),
            "'reclaimResolveMethod' is 'LCA'; it must be one of: lca, queue",
        ),
        (
            one_plugin("numa", "{reconstructAvailable: maybe}"),
            "'reconstructAvailable' is 'maybe'; it must be true or false",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name_with_the_nearest_that_can(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.parse(text)
    assert message in str(caught.value)


def test_arguments_are_read_once_with_their_types() -> None:
    config = SchedulerConfig.parse(
        """
        tiers:
        - plugins:
          - {name: proportion, arguments: {kValue: "2.5", reclaimerUtilizationMultiplier: 1.2}}
          - {name: minruntime, arguments: {defaultReclaimMinRuntime: 1h30m, reclaimResolveMethod: queue}}
          - {name: nodeplacement, arguments: {gpu: spread, cpu: ""}}
          - {name: numa, arguments: {ignoreList: "a.com/x, b.com/y", reconstructAvailable: false}}
        """
    )
    assert config.arguments(ProportionArguments) == ProportionArguments(
        k_value=2.5, saturation_multiplier=1.2
    )
    assert config.arguments(MinRuntimeArguments) == MinRuntimeArguments(reclaim=5400, resolve_method="queue")
    assert config.arguments(NodePlacementArguments) == NodePlacementArguments(gpu="spread", cpu="binpack")
    assert config.arguments(NumaArguments) == NumaArguments(ignore=("a.com/x", "b.com/y"), reconstruct=False)


def test_the_arguments_of_a_plugin_that_is_off_are_the_defaults() -> None:
    config = SchedulerConfig.parse(one_plugin("predicates"))
    assert config.arguments(ProportionArguments) == ProportionArguments(k_value=1, saturation_multiplier=1)
    assert config.arguments(NumaArguments).reconstruct


def test_what_the_original_reads_without_effect_is_taken_and_told() -> None:
    on = ", ".join(f"{{name: {name}}}" for name in DEFAULT_PLUGINS if name != "dynamicresources")
    config = SchedulerConfig.parse(
        f"""
        tiers:
        - plugins: [{on}]
        - plugins: [{{name: dynamicresources, disableNodeOrder: true, arguments: {{maxCelCacheEntries: 5}}}}]
        usageDBConfig: {{usageParams: {{windowType: cron, cronString: "@daily", windowSize: 1w}}}}
        """
    )
    switch, cache, database = config.notes
    assert switch == (
        "tiers[1].plugins[0].disableNodeOrder has no effect: a plugin is on as a whole, or left out"
    )
    assert cache.startswith("argument 'maxCelCacheEntries' of plugin 'dynamicresources' has no effect: ")
    assert database == (
        "usageDBConfig.usageParams.windowSize has no effect: "
        "a window of type cron is over when cronString is due"
    )


OFF = {
    "queueDepthPerAction.reclaim has no effect: the action is off": """
        actions: allocate
        queueDepthPerAction: {reclaim: 7, allocate: 3}
        """,
    "scenarioSearchBudgets.maxActionSearchDuration.preempt has no effect: the action is off": """
        actions: allocate
        scenarioSearchBudgets: {maxActionSearchDuration: {preempt: 3s, default: 1m}}
        """,
    "scenarioSearchBudgets.maxGeneratorSearchDuration.NodeLocalGreedy has no effect: plugin "
    "'sg-nodelocalgreedy' is off": """
        tiers: [{plugins: [{name: sg-multinodegang}]}]
        scenarioSearchBudgets: {maxGeneratorSearchDuration: {NodeLocalGreedy: 3s, MultiNodeGang: 3s}}
        """,
    "plugin 'gpupack' has no effect beside 'gpuspread'; name one of them": """
        tiers: [{plugins: [{name: gpupack}, {name: gpuspread}]}]
        """,
}


@pytest.mark.parametrize(("told", "text"), OFF.items())
def test_what_is_said_of_something_that_is_off_is_told(told: str, text: str) -> None:
    assert SchedulerConfig.parse(text).notes == (told,)


def test_nothing_is_told_of_what_nobody_wrote() -> None:
    assert SchedulerConfig.parse("{actions: allocate, tiers: [{plugins: [{name: predicates}]}]}").notes == ()


def test_a_depth_of_minus_one_is_no_bound() -> None:
    depths = SchedulerConfig.parse("queueDepthPerAction: {reclaim: -1, preempt: 0, allocate: 7}").queue_depth
    assert depths == {"preempt": 0, "allocate": 7}


def test_every_plugin_of_the_default_configuration_is_in_the_table_by_falling_priority() -> None:
    priorities = [PLUGINS[name].priority for name in DEFAULT_PLUGINS]
    assert None not in priorities
    assert priorities == sorted(priorities, reverse=True, key=lambda each: each or 0)
    assert "podaffinity" in DEFAULT_PLUGINS


@pytest.mark.parametrize(("told", "validates"), [("1", True), ("0", False), ("", False)])
def test_validation_is_asked_for_by_a_variable(
    monkeypatch: pytest.MonkeyPatch, told: str, validates: bool
) -> None:
    monkeypatch.setenv("KAI_VALIDATE", told)
    assert Engine().validate is validates


def test_another_value_of_that_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAI_VALIDATE", "true")
    with pytest.raises(ConfigError, match="KAI_VALIDATE is 'true'; it must be 0 or 1"):
        Engine()
