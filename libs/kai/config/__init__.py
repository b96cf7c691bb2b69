"""A scheduler's configuration: read, checked and decoded once, with an error that names what is wrong."""

from kai.config.arguments import ConfigError
from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.config.scheduler import (
    ACTIONS,
    BUDGETS,
    DEFAULT_OPTIONS,
    GENERATORS,
    SEARCHING,
    SWITCHES,
    EngineParams,
    PluginOption,
    SchedulerConfig,
    SearchBudgets,
)
from kai.config.usage_database import UsageClient, UsageDatabase

__all__ = [
    "ACTIONS",
    "BUDGETS",
    "DEFAULT_OPTIONS",
    "DEFAULT_PLUGINS",
    "GENERATORS",
    "SEARCHING",
    "SWITCHES",
    "ConfigError",
    "EngineParams",
    "PluginOption",
    "SchedulerConfig",
    "SearchBudgets",
    "UsageClient",
    "UsageDatabase",
]
