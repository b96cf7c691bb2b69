"""The scheduler's configuration: actions, plugins with their arguments, depths and search budgets.

The file's keys are those of the original. Actions, tiers and depths that are not given, or given empty, fall
back to the built-in ones, each on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import yaml

from kai.config import installed
from kai.config.arguments import Arguments, ConfigError
from kai.config.plugin_table import DEFAULT_PLUGINS, PluginSpec, written_defaults
from kai.config.usage_database import UsageDatabase
from kai.model import documents, duration, spelling

#: All actions, in the order of a cycle; each is a module of :mod:`kai.engine.actions`.
ACTIONS: Final = (
    "allocate",
    "consolidation",
    "reclaim",
    "preempt",
    "stalegangeviction",
)
#: Those of them that search for victims: they have budgets, and place pods anew that run elsewhere.
SEARCHING: Final = ("reclaim", "preempt", "consolidation")
GENERATORS: Final = ("NodeLocalGreedy", "MultiNodeGang")
_KEYS: Final = ("actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets")
BUDGETS: Final = (
    "maxActionSearchDuration",
    "maxJobSearchDuration",
    "minJobSearchDuration",
    "maxGeneratorSearchDuration",
)
#: Switches of single extension points of a plugin: the original reads them, and never looks at them.
SWITCHES: Final = (
    "disableJobOrder",
    "disableTaskOrder",
    "disablePreemptable",
    "disableReclaimable",
    "disableQueueOrder",
    "disablePredicate",
    "disableNodeOrder",
)
_UNLIMITED: Final = -1
A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class PluginOption:
    """A plugin that is on, and its arguments as they were written.

    Raises:
        ConfigError: the plugin or an argument is not known, or an argument cannot be read.
    """

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    #: The arguments as the plugin takes them.
    decoded: Arguments = field(init=False, compare=False)
    spec: PluginSpec = field(init=False, compare=False)

    def __post_init__(self) -> None:
        spec = installed.spec_of(self.name)
        if spec is None:
            raise ConfigError(installed.unknown(self.name))
        object.__setattr__(self, "spec", spec)
        given = {key: text for key, text in self.arguments.items() if key not in spec.without_effect}
        object.__setattr__(self, "decoded", spec.arguments.decode(given, where=f"plugin {self.name!r}"))


#: What is on unless a configuration names its own: the chart says the same.
DEFAULT_OPTIONS: Final = tuple(PluginOption(name, written_defaults(name)) for name in DEFAULT_PLUGINS)


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
    """Everything that shapes a cycle.

    Raises:
        ConfigError: two plugins are on that exclude each other.
    """

    actions: tuple[str, ...] = ACTIONS
    plugins: tuple[PluginOption, ...] = DEFAULT_OPTIONS
    queue_depth: Mapping[str, int] = field(default_factory=dict)
    #: Without it past use does not count.
    usage_db: UsageDatabase | None = None
    budgets: SearchBudgets = field(default_factory=SearchBudgets)
    params: EngineParams = field(default_factory=EngineParams)
    #: What was written and has no effect, with the reason; to be told once.
    notes: tuple[str, ...] = field(default=(), compare=False)
    _by_name: Mapping[str, PluginOption] = field(init=False, compare=False, repr=False)
    _by_kind: Mapping[type[Arguments], Arguments] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {each.name: each for each in self.plugins})
        object.__setattr__(self, "_by_kind", {type(each.decoded): each.decoded for each in self.plugins})
        _check_node_sets(self.plugins)

    @classmethod
    def parse(cls, text: str, *, params: EngineParams | None = None) -> SchedulerConfig:
        """Read a configuration file; an empty one gives the defaults.

        Raises:
            ConfigError: a key, an action or a value is not known.
        """
        try:
            data = documents.load(text) or {}
        except yaml.YAMLError as error:
            raise ConfigError(f"the scheduler configuration cannot be read as YAML: {error}") from error
        return cls.of(data, params=params)

    @classmethod
    def of(cls, data: Mapping[str, Any], *, params: EngineParams | None = None) -> SchedulerConfig:
        """Like :meth:`parse`, of a document that was read already.

        Raises:
            ConfigError: a key, an action or a value is not known.
        """
        if not isinstance(data, Mapping):
            raise ConfigError("the scheduler configuration must be a mapping of keys")
        _known(data, _KEYS, "")
        config = cls(params=params or EngineParams())
        if actions := _actions(data.get("actions")):
            config = replace(config, actions=actions)
        notes: list[str] = []
        if plugins := _plugins(data.get("tiers"), notes):
            config = replace(config, plugins=plugins)
        if depth := data.get("queueDepthPerAction"):
            config = replace(config, queue_depth=_depths(depth, "queueDepthPerAction"))
        if (usage := data.get("usageDBConfig")) is not None:
            database = UsageDatabase.read(usage)
            notes += database.notes
            config = replace(config, usage_db=database)
        if budgets := data.get("scenarioSearchBudgets"):
            config = replace(config, budgets=_budgets(budgets))
        return replace(config, notes=(*notes, *_of_what_is_off(config)))

    @property
    def moves_pods(self) -> bool:
        """Whether pods that run may be placed anew: some action searches for victims."""
        return any(action in SEARCHING for action in self.actions)

    @property
    def serves_claims(self) -> bool:
        """Whether pods with resource claims get their devices."""
        return self.params.dynamic_resources and self.plugin("dynamicresources") is not None

    def plugin(self, name: str) -> PluginOption | None:
        """A plugin's options; None if it is off."""
        return self._by_name.get(name)

    def arguments(self, kind: type[A]) -> A:
        """What the plugin that takes these arguments was told; the defaults if it is off."""
        found = self._by_kind.get(kind)
        return found if isinstance(found, kind) else kind()


def _of_what_is_off(config: SchedulerConfig) -> Iterator[str]:
    """Depths and budgets of actions and generators that do not run, and of two opposites the one left out."""
    on = {each.name for each in config.plugins}
    for action in config.queue_depth:
        if action not in config.actions:
            yield f"queueDepthPerAction.{action} has no effect: the action is off"
    per_action, _, _, per_generator = (f"scenarioSearchBudgets.{key}" for key in BUDGETS)
    default = SearchBudgets()
    for action, seconds in config.budgets.action.items():
        if action in SEARCHING and action not in config.actions and default.action.get(action) != seconds:
            yield f"{per_action}.{action} has no effect: the action is off"
    for generator, seconds in config.budgets.generator.items():
        plugin = f"sg-{generator.lower()}"
        if generator in GENERATORS and plugin not in on and default.generator[generator] != seconds:
            yield f"{per_generator}.{generator} has no effect: plugin {plugin!r} is off"
    if {"gpupack", "gpuspread"} <= on:
        yield "plugin 'gpupack' has no effect beside 'gpuspread'; name one of them"


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
    _known(depths, ACTIONS, where)
    for key, value in depths.items():
        if type(value) is not int or value < _UNLIMITED:
            raise ConfigError(f"{where}.{key} is {value!r}; it must be an integer, -1 for all jobs")
    return {key: value for key, value in depths.items() if value != _UNLIMITED}


def _known(data: Any, allowed: Sequence[str], where: str) -> None:
    for key in _mapping(data, where):
        if key not in allowed:
            place = f" in {where}" if where else " in the scheduler configuration"
            raise ConfigError(spelling.unknown("key", str(key), allowed, where=place))


def _actions(text: Any) -> tuple[str, ...]:
    if not isinstance(text, str | None):
        raise ConfigError(f"actions is {text!r}; it must be names with commas between them")
    actions = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for number, name in enumerate(actions):
        if name not in ACTIONS:
            raise ConfigError(spelling.unknown("action", name, ACTIONS, where=" in actions"))
        if name in actions[:number]:
            raise ConfigError(f"actions names {name!r} twice; name it once")
    return actions


def _plugins(tiers: Any, notes: list[str]) -> tuple[PluginOption, ...]:
    plugins: dict[str, PluginOption] = {}
    for number, tier in enumerate(_sequence(tiers or (), "tiers")):
        where = f"tiers[{number}]"
        _known(tier, ("plugins",), where)
        for place, plugin in enumerate(_sequence(tier.get("plugins") or (), f"{where}.plugins")):
            option = _plugin(plugin, f"{where}.plugins[{place}]", notes)
            if option.name in plugins:
                raise ConfigError(
                    f"{where}.plugins[{place}]: plugin {option.name!r} is named twice; name it once"
                )
            plugins[option.name] = option
    return tuple(plugins.values())


def _check_node_sets(plugins: Sequence[PluginOption]) -> None:
    names = [each.name for each in plugins if each.spec.node_sets]
    if len(names) > 1:
        first, second, *_ = names
        raise ConfigError(
            f"plugins {first!r} and {second!r} both choose sets of nodes for groups; leave one of them out"
        )


def _plugin(data: Any, where: str, notes: list[str]) -> PluginOption:
    entry = _mapping(data, where)
    _known(entry, ("name", "arguments", *SWITCHES), where)
    switches = [key for key in SWITCHES if key in entry]
    for key in switches:
        if not isinstance(entry[key], bool | None):
            raise ConfigError(f"{where}.{key} is {entry[key]!r}; it must be true or false")
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where}.name is {name!r}; it must be the name of a plugin")
    given = _mapping(entry.get("arguments") or {}, f"{where}.arguments")
    arguments = {str(key): _text(value, f"{where}.arguments.{key}") for key, value in given.items()}
    try:
        option = PluginOption(name, arguments)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    notes += [f"{where}.{key} has no effect: a plugin is on as a whole, or left out" for key in switches]
    ignored = option.spec.without_effect
    notes += [
        f"argument {key!r} of plugin {name!r} has no effect: {ignored[key]}"
        for key in ignored
        if key in given
    ]
    return option


def _text(value: Any, where: str) -> str:
    if isinstance(value, Mapping | list | tuple):
        raise ConfigError(f"{where} is {value!r}; it must be a text, a number, true or false")
    return "" if value is None else str(value)


def _budgets(data: Mapping[str, Any]) -> SearchBudgets:
    where = "scenarioSearchBudgets"
    _known(data, BUDGETS, where)
    per_action, per_job, least_per_job, per_generator = BUDGETS
    default = SearchBudgets()
    action = _durations(data.get(per_action), f"{where}.{per_action}", ("default", *SEARCHING))
    generator = _durations(data.get(per_generator), f"{where}.{per_generator}", ("default", *GENERATORS))
    budgets = SearchBudgets(
        action={**default.action, **action},
        job=_seconds(data.get(per_job), f"{where}.{per_job}", default.job),
        job_min=_seconds(data.get(least_per_job), f"{where}.{least_per_job}", default.job_min),
        # A default that is given counts for every generator that is not, whatever is built in for it.
        generator=generator if "default" in generator else {**default.generator, **generator},
    )
    if budgets.job and budgets.job_min >= budgets.job:
        raise ConfigError(f"{where}.{least_per_job} must be below {per_job} ({duration.render(budgets.job)})")
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
