"""``config`` of a snapshot file: the scheduler's configuration, in the keys of its own file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kai.config import ACTIONS, GENERATORS, SWITCHES, EngineParams, SchedulerConfig, installed
from kai.config.plugin_table import arguments_of
from kai.model import duration

_WHERE: Final = "config"
_KEYS: Final = ("actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets")
_PLUGIN_KEYS: Final = ("name", "arguments", *SWITCHES)
#: By key: whose durations it gives, where it gives several.
_BUDGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "maxActionSearchDuration": ("default", "reclaim", "preempt", "consolidation"),
    "maxJobSearchDuration": (),
    "minJobSearchDuration": (),
    "maxGeneratorSearchDuration": ("default", *GENERATORS),
}


def read(document: Mapping[str, Any] | None, params: EngineParams) -> tuple[SchedulerConfig, tuple[str, ...]]:
    """The configuration, and notes about what another version says that is not known here.

    Raises:
        ConfigError: a value cannot be used; it is named.
    """
    if document is None:
        return SchedulerConfig(params=params), (f"{_WHERE} is missing; the built-in configuration is taken",)
    notes: list[str] = []
    known = _only(document, _KEYS, _WHERE, notes)
    known["actions"] = _actions(known.get("actions"), notes)
    known["tiers"] = _tiers(known.get("tiers"), notes)
    known["scenarioSearchBudgets"] = _budgets(known.get("scenarioSearchBudgets"), notes)
    if known.get("usageDBConfig") is not None:
        notes.append("snapshot files do not say what queues have used; all count as if they had used nothing")
    return SchedulerConfig.of(known, params=params), tuple(notes)


def document(config: SchedulerConfig) -> dict[str, Any]:
    """The inverse of :func:`read`."""
    plugins = [_plugin(plugin.name, plugin.arguments) for plugin in config.plugins]
    found: dict[str, Any] = {"actions": ", ".join(config.actions), "tiers": [{"plugins": plugins}]}
    if config.queue_depth:
        found["queueDepthPerAction"] = dict(config.queue_depth)
    if config.usage_db is not None:
        found["usageDBConfig"] = config.usage_db.document
    budgets = config.budgets
    found["scenarioSearchBudgets"] = {
        "maxActionSearchDuration": _durations(budgets.action),
        "maxJobSearchDuration": duration.render(budgets.job),
        "minJobSearchDuration": duration.render(budgets.job_min),
        "maxGeneratorSearchDuration": _durations(budgets.generator),
    }
    return found


def _only(value: Any, allowed: Iterable[str], where: str, notes: list[str]) -> Any:
    """The keys that are known; what is no mapping is left for the configuration to refuse."""
    if not isinstance(value, Mapping):
        return value
    known = {key: each for key, each in value.items() if key in allowed}
    notes += [f"{where}.{key} is not known and was ignored" for key in sorted(set(value) - set(known))]
    return known


def _actions(text: Any, notes: list[str]) -> Any:
    if not isinstance(text, str):
        return text
    named = [name.strip() for name in text.split(",") if name.strip()]
    notes += [f"action {name!r} is not known and was left out" for name in named if name not in ACTIONS]
    return ", ".join(name for name in named if name in ACTIONS)


def _tiers(tiers: Any, notes: list[str]) -> Any:
    if not isinstance(tiers, list):
        return tiers
    return [_tier(tier, f"{_WHERE}.tiers[{number}]", notes) for number, tier in enumerate(tiers)]


def _tier(tier: Any, where: str, notes: list[str]) -> Any:
    found = _only(tier, ("plugins",), where, notes)
    if isinstance(found, dict) and isinstance(found.get("plugins"), list):
        found["plugins"] = list(_known_plugins(found["plugins"], f"{where}.plugins", notes))
    return found


def _known_plugins(plugins: list[Any], where: str, notes: list[str]) -> Iterator[Any]:
    for plugin in plugins:
        name = plugin.get("name") if isinstance(plugin, dict) else None
        spec = installed.spec_of(name) if isinstance(name, str) else None
        if isinstance(name, str) and spec is None:
            notes.append(f"plugin {name!r} is not known and was left out")
            continue
        found = _only(plugin, _PLUGIN_KEYS, where, notes)
        if isinstance(found, dict) and spec is not None and "arguments" in found:
            allowed = arguments_of(spec)
            found["arguments"] = _only(
                found["arguments"], allowed, f"{where}: plugin {name!r}: arguments", notes
            )
        yield found


def _budgets(budgets: Any, notes: list[str]) -> Any:
    where = f"{_WHERE}.scenarioSearchBudgets"
    found = _only(budgets, _BUDGETS, where, notes)
    if isinstance(found, dict):
        for key, names in _BUDGETS.items():
            if names and key in found:
                found[key] = _only(found[key], names, f"{where}.{key}", notes)
    return found


def _plugin(name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "arguments": dict(arguments)} if arguments else {"name": name}


def _durations(seconds: Mapping[str, float]) -> dict[str, str]:
    return {key: duration.render(value) for key, value in seconds.items()}
