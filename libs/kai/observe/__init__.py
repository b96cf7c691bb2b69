"""Logs and metrics."""

from kai.observe.logging import ObserveSettings, configure
from kai.observe.metrics import new_registry

__all__ = ["ObserveSettings", "configure", "new_registry"]
