"""Logs and metrics."""

from kai.model.log_levels import LevelError, LogLevels
from kai.observe.logging import ObserveSettings, change_log_levels, configure, log_levels
from kai.observe.metrics import PlainCounter, new_registry

__all__ = [
    "LevelError",
    "LogLevels",
    "ObserveSettings",
    "PlainCounter",
    "change_log_levels",
    "configure",
    "log_levels",
    "new_registry",
]
