"""Settings, life cycle, health and webhook server of a service process."""

from kai.model.flag_values import Duration, Listen, LogLevel
from kai.runtime.service import FatalError, Host, Service, freeze_garbage, run
from kai.runtime.settings import ServiceSettings, SettingsError

__all__ = [
    "Duration",
    "FatalError",
    "Host",
    "Listen",
    "LogLevel",
    "Service",
    "ServiceSettings",
    "SettingsError",
    "freeze_garbage",
    "run",
]
