"""What a scheduler reads by ``--scheduler-conf``: the actions and plugins of a shard, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kai.config import ACTIONS, ConfigError, PluginOption, SchedulerConfig, installed
from kai.config.plugin_table import DEFAULT_PLUGINS, PLUGINS
from kai.operands.spec.problems import Place
from kai.operands.spec.shard import ShardSpec

_BINPACK, _SPREAD = "binpack", "spread"
_BUDGETS: Final = "scenarioSearchBudgets"


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A plugin or an action on its way into the file."""

    enabled: bool = True
    priority: int = 0
    arguments: Mapping[str, str] = field(default_factory=dict)

    def change(self, change: Any) -> None:
        """Take over what a shard says of it."""
        for name in ("enabled", "priority", "arguments"):
            said = getattr(change, name, None)
            if said is not None:
                setattr(self, name, said)


def default_priorities() -> dict[str, int]:
    """Priorities of the actions that are on unless a shard says otherwise."""
    return {name: 100 * (len(ACTIONS) - place) for place, name in enumerate(ACTIONS)}


def of(shard: ShardSpec, at: Place) -> dict[str, Any]:
    """The file of a shard. What cannot be used is told to the place, and left out."""
    plugins, actions = _plugins(shard), _actions(shard)
    # Also those that are switched off: a name that is misspelt leaves its plugin on.
    for name in dict.fromkeys((*_in_order(plugins), *shard.plugins)):
        if not _is_usable(name, plugins[name], at.below("plugins").below(name)):
            del plugins[name]
    on = _in_order(actions)
    for name in shard.queue_depth_per_action:
        if name not in on:
            at.below("queueDepthPerAction").below(name).complain("is of an action that is off; remove it")
    if not on:
        at.below("actions").complain("has no action that is on; enable allocate")
    file: dict[str, Any] = {
        "actions": ", ".join(on),
        "tiers": [{"plugins": [_listed(name, plugins[name]) for name in _in_order(plugins)]}],
    }
    if shard.queue_depth_per_action:
        file["queueDepthPerAction"] = dict(shard.queue_depth_per_action)
    if shard.usage_db_config is not None:
        file["usageDBConfig"] = shard.usage_db_config.manifest()
    if budgets := shard.scenario_search_budgets.manifest():
        file[_BUDGETS] = budgets
    _check_rest(file, at)
    return file


def _plugins(shard: ShardSpec) -> dict[str, _Entry]:
    strategy = shard.placement_strategy
    plugins = {name: _Entry(priority=PLUGINS[name].priority or 0) for name in DEFAULT_PLUGINS}
    plugins["gpuspread"] = _Entry(priority=plugins["gpupack"].priority, enabled=strategy.gpu == _SPREAD)
    plugins["gpupack"].enabled = strategy.gpu != _SPREAD
    plugins["gpusharingorder"].enabled = strategy.gpu == _BINPACK
    plugins["nodeplacement"].arguments = {"gpu": strategy.gpu, "cpu": strategy.cpu}
    plugins["proportion"].arguments = _k_value(shard.k_value)
    plugins["minruntime"].arguments = _given(
        defaultPreemptMinRuntime=shard.min_runtime.preempt_min_runtime,
        defaultReclaimMinRuntime=shard.min_runtime.reclaim_min_runtime,
    )
    for name, change in shard.plugins.items():
        plugins.setdefault(name, _Entry()).change(change)
    return plugins


def _k_value(given: float | None) -> dict[str, str]:
    return {} if given is None else {"kValue": f"{given:g}"}


def _given(**arguments: str) -> dict[str, str]:
    return {name: text for name, text in arguments.items() if text}


def _actions(shard: ShardSpec) -> dict[str, _Entry]:
    strategies = (shard.placement_strategy.gpu, shard.placement_strategy.cpu)
    actions = {name: _Entry(priority=priority) for name, priority in default_priorities().items()}
    # What is spread would only be moved together again.
    actions["consolidation"].enabled = _SPREAD not in strategies
    for name, change in shard.actions.items():
        actions[name].change(change)
    return actions


def _in_order(entries: Mapping[str, _Entry]) -> list[str]:
    """The names of those that are on, by descending priority, equal ones by name."""
    on = [name for name, entry in entries.items() if entry.enabled]
    return sorted(on, key=lambda name: (-entries[name].priority, name))


def _listed(name: str, entry: _Entry) -> dict[str, Any]:
    return {"name": name, **({"arguments": dict(entry.arguments)} if entry.arguments else {})}


def _is_usable(name: str, entry: _Entry, at: Place) -> bool:
    """Whether there is such a plugin and it takes these arguments.

    One of another package need not be installed where this runs; its scheduler says so then.
    """
    try:
        if "." in name and installed.spec_of(name) is None:
            return True
        PluginOption(name, entry.arguments)
    except ConfigError as error:
        at.complain(f"cannot be used: {error}")
        return False
    return True


def _check_rest(file: Mapping[str, Any], at: Place) -> None:
    """Depths, budgets and usage, which the engine reads by itself."""
    for key in ("queueDepthPerAction", "usageDBConfig", _BUDGETS):
        if key in file:
            try:
                SchedulerConfig.of({key: file[key]})
            except ConfigError as error:
                at.below(key).complain(f"cannot be used: {error}")
