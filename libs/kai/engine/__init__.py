"""The scheduling engine: decisions as a pure function of the cluster state, the configuration and the time.

``Engine(SchedulerConfig.parse(text)).run(state, now=...)`` runs one cycle over a
:class:`kai.snapshot.state.ClusterState` and returns a :class:`kai.model.decisions.CycleResult`.
"""

from kai.config import EngineParams, SchedulerConfig
from kai.config.arguments import ConfigError
from kai.engine.engine import Engine

__all__ = ["ConfigError", "Engine", "EngineParams", "SchedulerConfig"]
