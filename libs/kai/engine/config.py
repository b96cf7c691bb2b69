"""The scheduler's configuration: actions, plugins with their arguments, depths and search budgets.

The file's keys are those of the original. Actions, tiers and depths that are not given, or given empty, fall
back to the built-in ones, each on its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from kai.model import duration

ACTIONS: Final = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
DEFAULT_PLUGINS: Final = (
    "predicates",
    "proportion",
    "priority",
    "elastic",
    "kubeflow",
    "ray",
    "nodeavailability",
    "gpusharingorder",
    "gpupack",
    "resourcetype",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "nodeplacement",
    "minruntime",
    "topology",
    "snapshot",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
)
PLACEMENTS: Final = ("binpack", "spread", "headroom")
GENERATORS: Final = ("NodeLocalGreedy", "MultiNodeGang")


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class PluginOption:
    """A plugin, and its arguments as strings."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudgets:
    """Seconds that eviction searches may take; 0 is unlimited."""

    action: Mapping[str, float] = field(default_factory=lambda: {"default": 300.0})
    job: float = 240.0
    job_min: float = 0.0
    generator: Mapping[str, float] = field(
        default_factory=lambda: {"default": 120.0, "NodeLocalGreedy": 30.0, "MultiNodeGang": 120.0}
    )

    def of_action(self, action: str) -> float:
        """Seconds for one action in one cycle."""
        return self.action.get(action, self.action.get("default", 300.0))

    def of_generator(self, generator: str) -> float:
        """Seconds for one generator in one job's search."""
        return self.generator.get(generator, self.generator.get("default", 120.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParams:
    """What command-line flags decide."""

    max_consolidation_preemptees: int = 16
    default_staleness_grace_seconds: float = 60.0
    use_scheduling_signatures: bool = True
    allow_consolidating_reclaim: bool = True
    detailed_fit_errors: bool = False
    schedule_csi_storage: bool = False
    dynamic_resources: bool = True
    #: Whether waiting for releasing resources carries over to the next cycle.
    keep_nominations: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Everything that shapes a cycle."""

    actions: tuple[str, ...] = ACTIONS
    plugins: tuple[PluginOption, ...] = tuple(PluginOption(name) for name in DEFAULT_PLUGINS)
    queue_depth: Mapping[str, int] = field(default_factory=dict)
    usage_db: Mapping[str, Any] | None = None
    budgets: SearchBudgets = field(default_factory=SearchBudgets)
    params: EngineParams = field(default_factory=EngineParams)

    @classmethod
    def parse(cls, text: str, *, params: EngineParams | None = None) -> SchedulerConfig:
        """Read a configuration file; an empty one gives the defaults.

        Raises:
            ConfigError: a key, an action or a value is not known.
        """
        try:
            data = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise ConfigError(f"the scheduler configuration is not YAML: {error}") from error
        return cls.of(data, params=params)

    @classmethod
    def of(cls, data: Mapping[str, Any], *, params: EngineParams | None = None) -> SchedulerConfig:
        """Like :meth:`parse`, of a document that was read already."""
        if not isinstance(data, Mapping):
            raise ConfigError("the scheduler configuration must be a mapping of keys")
        _known(
            data, ("actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets"), ""
        )
        config = cls(params=params or EngineParams())
        if actions := _actions(data.get("actions")):
            config = replace(config, actions=actions)
        if plugins := _plugins(data.get("tiers")):
            config = replace(config, plugins=plugins)
        if depth := data.get("queueDepthPerAction"):
            config = replace(config, queue_depth=_depths(depth, "queueDepthPerAction"))
        if (usage := data.get("usageDBConfig")) is not None:
            config = replace(config, usage_db=_mapping(usage, "usageDBConfig"))
        if budgets := data.get("scenarioSearchBudgets"):
            config = replace(config, budgets=_budgets(budgets))
        return config

    def plugin(self, name: str) -> PluginOption | None:
        """A plugin's options; None if it is off."""
        return next((plugin for plugin in self.plugins if plugin.name == name), None)

    def argument(self, plugin: str, *keys: str, default: str = "") -> str:
        """An argument of a plugin under the first of several spellings that is given."""
        option = self.plugin(plugin)
        for key in keys:
            if option is not None and key in option.arguments:
                return option.arguments[key]
        return default


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {value!r}; it must be a mapping of keys")
    return value


def _sequence(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where} is {value!r}; it must be a list")
    return value


def _depths(data: Any, where: str) -> dict[str, int]:
    depths = dict(_mapping(data, where))
    for key, value in depths.items():
        if type(value) is not int:
            raise ConfigError(f"{where}.{key} is {value!r}; it must be an integer")
    return depths


def _known(data: Any, allowed: tuple[str, ...], where: str) -> None:
    for key in _mapping(data, where):
        if key not in allowed:
            place = f"{where}.{key}" if where else str(key)
            raise ConfigError(
                f"unknown key {place!r} in the scheduler configuration; allowed: {', '.join(allowed)}"
            )


def _actions(text: Any) -> tuple[str, ...]:
    if not isinstance(text, str | None):
        raise ConfigError(f"actions is {text!r}; it must be names with commas between them")
    actions = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for name in actions:
        if name not in ACTIONS:
            raise ConfigError(f"unknown action {name!r} in actions; allowed: {', '.join(ACTIONS)}")
    return actions


def _plugins(tiers: Any) -> tuple[PluginOption, ...]:
    plugins: list[PluginOption] = []
    for number, tier in enumerate(_sequence(tiers or (), "tiers")):
        where = f"tiers[{number}]"
        _known(tier, ("plugins",), where)
        where = f"{where}.plugins"
        for plugin in _sequence(tier.get("plugins") or (), where):
            told = _mapping(plugin, where).items()
            options = {key: value for key, value in told if not key.startswith("disable")}
            _known(options, ("name", "arguments"), where)
            given = _mapping(plugin.get("arguments") or {}, f"{where}.arguments")
            arguments = {str(key): "" if value is None else str(value) for key, value in given.items()}
            option = PluginOption(str(plugin.get("name", "")), arguments)
            _check_placement(option)
            plugins.append(option)
    return tuple(plugins)


def _check_placement(plugin: PluginOption) -> None:
    """Empty means binpack; anything else that is not a strategy would mean it too, and surprise somebody."""
    if plugin.name != "nodeplacement":
        return
    for resource in ("gpu", "cpu"):
        strategy = plugin.arguments.get(resource, "")
        if strategy and strategy not in PLACEMENTS:
            raise ConfigError(
                f"unknown strategy {strategy!r} in argument {resource!r} of plugin 'nodeplacement'; "
                f"allowed: {', '.join(PLACEMENTS)}"
            )


def _budgets(data: Mapping[str, Any]) -> SearchBudgets:
    where = "scenarioSearchBudgets"
    keys = (
        "maxActionSearchDuration",
        "maxJobSearchDuration",
        "minJobSearchDuration",
        "maxGeneratorSearchDuration",
    )
    _known(data, keys, where)
    default = SearchBudgets()
    action = _durations(
        data.get(keys[0]), f"{where}.{keys[0]}", ("default", "reclaim", "preempt", "consolidation")
    )
    generator = _durations(data.get(keys[3]), f"{where}.{keys[3]}", ("default", *GENERATORS))
    budgets = SearchBudgets(
        action={**default.action, **action},
        job=_seconds(data.get(keys[1]), f"{where}.{keys[1]}", default.job),
        job_min=_seconds(data.get(keys[2]), f"{where}.{keys[2]}", default.job_min),
        generator=generator if "default" in generator else {**default.generator, **generator},
    )
    if budgets.job and budgets.job_min >= budgets.job:
        raise ConfigError(f"{where}.{keys[2]} must be below {keys[1]} ({duration.render(budgets.job)})")
    return budgets


def _durations(data: Any, where: str, allowed: tuple[str, ...]) -> dict[str, float]:
    _known(data or {}, allowed, where)
    return {str(key): _seconds(value, f"{where}.{key}", 0.0) for key, value in (data or {}).items()}


def _seconds(value: Any, where: str, default: float) -> float:
    if value is None:
        return default
    try:
        seconds = duration.parse(str(value))
    except duration.InvalidDuration as error:
        raise ConfigError(f"{where}: {error}") from error
    if seconds < 0:
        raise ConfigError(f"{where} is {value}; it must not be negative (0 is unlimited)")
    return seconds
