"""``config`` of a snapshot file: the scheduler's configuration, in the keys of its own file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kai.engine.config import ACTIONS, EngineParams, SchedulerConfig
from kai.model import duration

_KEYS: Final = frozenset(
    {"actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets"}
)


def read(document: Mapping[str, Any] | None, params: EngineParams) -> tuple[SchedulerConfig, tuple[str, ...]]:
    """The configuration, and notes about what another version says that is not known here.

    Raises:
        ConfigError: a value cannot be used; it is named.
    """
    known = {key: value for key, value in (document or {}).items() if key in _KEYS}
    notes = [f"config.{key} is not known and was ignored" for key in sorted(set(document or {}) - _KEYS)]
    named = [name.strip() for name in str(known.get("actions") or "").split(",") if name.strip()]
    notes += [f"action {name!r} is not known and was left out" for name in named if name not in ACTIONS]
    known["actions"] = ", ".join(name for name in named if name in ACTIONS)
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
        found["usageDBConfig"] = config.usage_db
    budgets = config.budgets
    found["scenarioSearchBudgets"] = {
        "maxActionSearchDuration": _durations(budgets.action),
        "maxJobSearchDuration": duration.render(budgets.job),
        "minJobSearchDuration": duration.render(budgets.job_min),
        "maxGeneratorSearchDuration": _durations(budgets.generator),
    }
    return found


def _plugin(name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "arguments": dict(arguments)} if arguments else {"name": name}


def _durations(seconds: Mapping[str, float]) -> dict[str, str]:
    return {key: duration.render(value) for key, value in seconds.items()}
