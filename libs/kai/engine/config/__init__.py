"""What people configure: read, checked and decoded once, with an error that names what is wrong."""

from kai.engine.config.arguments import ConfigError
from kai.engine.config.plugin_table import DEFAULT_PLUGINS
from kai.engine.config.scheduler import (
    ACTIONS,
    BUDGETS,
    DEFAULT_OPTIONS,
    GENERATORS,
    SEARCHING,
    EngineParams,
    PluginOption,
    SchedulerConfig,
    SearchBudgets,
)
from kai.engine.config.usage_database import UsageClient, UsageDatabase

__all__ = [
    "ACTIONS",
    "BUDGETS",
    "DEFAULT_OPTIONS",
    "DEFAULT_PLUGINS",
    "GENERATORS",
    "SEARCHING",
    "ConfigError",
    "EngineParams",
    "PluginOption",
    "SchedulerConfig",
    "SearchBudgets",
    "UsageClient",
    "UsageDatabase",
]
