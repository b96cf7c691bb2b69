"""Metrics of one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector


def new_registry() -> CollectorRegistry:
    """A registry with what every process tells: CPU, memory, open files, garbage collection, versions."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
