"""Metrics of one process."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector


def new_registry() -> CollectorRegistry:
    """A registry with what every process tells: CPU, memory, open files, garbage collection, versions."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class PlainFamily(Metric):
    """A family that is exposed by just this name, a counter without ``_total`` included."""


class PlainCounter(Collector):
    """A counter whose name does not end in ``_total``: the client library knows no such thing.

    Names that dashboards have had for long are of this kind. One thread may count at a time.
    """

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...] = (), *, registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        #: Without labels there is one series, from the beginning.
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}
        registry.register(self)

    def add(self, amount: float, *values: str) -> None:
        """Count ``amount`` for these values of the labels."""
        assert len(values) == len(self._labels), (self._name, values)
        self._values[values] = self._values.get(values, 0.0) + amount

    def describe(self) -> Iterable[Metric]:
        """The name alone."""
        return [PlainFamily(self._name, self._text, "counter")]

    def collect(self) -> Iterable[Metric]:
        """All series."""
        family = PlainFamily(self._name, self._text, "counter")
        for values, amount in list(self._values.items()):
            family.add_sample(self._name, dict(zip(self._labels, values, strict=True)), amount)
        return [family]
