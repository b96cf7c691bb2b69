"""Metrics of queues, made from what is known at the moment when they are asked for.

So there are never series of queues that are gone, nor of labels that they had once. Fair shares and past use
are told by the schedulers, who find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kai.model.objects import Queue, QueueResources
from kai.model.rules.gpus import whole_gpus
from kai.model.rules.queue_amounts import shown
from kai_queue_controller.tree import QueueTotals

_IDENTITY = ("queue_name", "queue_metadata_name", "queue_display_name")


@dataclass(frozen=True, slots=True)
class ExtraLabels:
    """Labels of queues that metrics carry: metric label, and what it says without, by label of queues."""

    metric_labels: Mapping[str, str]
    defaults: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """Names in the metrics, in order of the queues' label keys."""
        return [self.metric_labels[key] for key in sorted(self.metric_labels)]

    def values(self, queue: Queue) -> list[str]:
        """What they are for a queue, in the same order."""
        labels = queue.labels
        return [labels.get(key, self.defaults.get(key, "")) for key in sorted(self.metric_labels)]


class QueueCollector(Collector):
    """Quota and allocation of each queue."""

    def __init__(
        self,
        queues: Callable[[], Mapping[str, Queue]],
        totals: Callable[[], Mapping[str, QueueTotals]],
        *,
        prefix: str,
        extra: ExtraLabels,
    ) -> None:
        self._queues = queues
        self._totals = totals
        self._prefix = prefix
        self._extra = extra

    def describe(self) -> Iterable[Metric]:
        """The names alone."""
        return self._families()

    def collect(self) -> Iterator[Metric]:
        """All series."""
        families = self._families()
        found = self._totals()
        for name, queue in sorted(self._queues().items()):
            labels = [name, name, queue.spec.display_name, *self._extra.values(queue)]
            amounts = found[name].sums.allocated if name in found else {}
            for family, value in zip(families, _values(queue.spec.resources, amounts), strict=True):
                family.add_metric(labels, value)
        yield from families

    def _families(self) -> list[GaugeMetricFamily]:
        named = (
            ("queue_info", "Queues; always 1"),
            ("queue_deserved_gpus", "Quota in GPUs; -1 is unlimited"),
            ("queue_quota_cpu_cores", "Quota in CPU cores; -1 is unlimited"),
            ("queue_quota_memory_bytes", "Quota of memory in bytes; -1 is unlimited"),
            ("queue_allocated_gpus", "Allocated GPUs"),
            ("queue_allocated_cpu_cores", "Allocated CPU cores"),
            ("queue_allocated_memory_bytes", "Allocated memory in bytes"),
        )
        return _gauges(self._prefix, named, [*_IDENTITY, *self._extra.names])


def _gauges(prefix: str, named: Iterable[tuple[str, str]], labels: Sequence[str]) -> list[GaugeMetricFamily]:
    return [GaugeMetricFamily(f"{prefix}_{name}", text, labels=labels) for name, text in named]


def _values(resources: QueueResources | None, allocated: Mapping[str, Decimal]) -> tuple[float, ...]:
    quota = resources or QueueResources()
    nothing = Decimal(0)
    return (
        1.0,
        shown("gpu", quota.gpu.quota),
        shown("cpu", quota.cpu.quota),
        shown("memory", quota.memory.quota),
        _rounded(whole_gpus(allocated)),
        _rounded(allocated.get("cpu", nothing)),
        _rounded(allocated.get("memory", nothing)),
    )


def _rounded(amount: Decimal) -> float:
    return float(round(amount, 4))
