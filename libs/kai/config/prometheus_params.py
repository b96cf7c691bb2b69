"""``extraParams`` of ``usageParams``: what a Prometheus is asked for past use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from kai.model import duration, spelling

#: What metrics of queues begin with, unless the queue-controller is told otherwise.
USUAL_PREFIX: Final = "kai"
_ALLOCATED: Final = {
    "cpuAllocationMetric": "queue_allocated_cpu_cores",
    "memoryAllocationMetric": "queue_allocated_memory_bytes",
    "gpuAllocationMetric": "queue_allocated_gpus",
}
_NODES: Final = 'sum(kube_node_status_capacity{{resource="{}"}})'


class InvalidExtraParam(ValueError):
    """An entry of ``extraParams`` cannot be used."""

    def __init__(self, key: str, *, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


def allocation_metrics(prefix: str) -> dict[str, str]:
    """By key of ``extraParams`` what queues hold, where their metrics begin with this."""
    return {key: f"{prefix}_{name}" for key, name in _ALLOCATED.items()}


_USUAL: Final = allocation_metrics(USUAL_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusParams:
    """What to ask for, and how. Metrics are names or expressions; durations are seconds."""

    cpu_allocation: str = _USUAL["cpuAllocationMetric"]
    memory_allocation: str = _USUAL["memoryAllocationMetric"]
    gpu_allocation: str = _USUAL["gpuAllocationMetric"]
    cpu_capacity: str = _NODES.format("cpu")
    memory_capacity: str = _NODES.format("memory")
    gpu_capacity: str = _NODES.format("nvidia_com_gpu")
    #: For all queries of one read together.
    query_timeout: float = 10.0
    #: Between two samples of a window.
    resolution: float = 60.0

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> PrometheusParams:
        """Read ``extraParams``; what is absent or null has its default.

        Raises:
            InvalidExtraParam: an entry is unknown or wrong.
        """
        values: dict[str, Any] = {}
        for key, value in data.items():
            if key not in EXTRA:
                problem = spelling.unknown("entry", str(key), EXTRA)
                raise InvalidExtraParam(str(key), problem=problem)
            field, read = EXTRA[key]
            if value is not None:
                values[field] = read(key, value)
        return cls(**values)

    def changed(self) -> list[str]:
        """The entries of ``extraParams`` that say something else than what is usual."""
        usual = PrometheusParams()
        differing = {
            each.name for each in fields(self) if getattr(self, each.name) != getattr(usual, each.name)
        }
        return [key for key, (field, _) in EXTRA.items() if field in differing]


def _metric(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidExtraParam(key, problem=f"{value!r} is not a metric; write its name or an expression")
    return value.strip()


def _seconds(key: str, value: Any) -> float:
    try:
        seconds = duration.parse(str(value))
    except duration.InvalidDuration as error:
        raise InvalidExtraParam(key, problem=str(error)) from None
    if seconds < 0.001:
        raise InvalidExtraParam(key, problem=f"{value!r} is too short; write at least 1ms")
    return seconds


#: By key of ``extraParams``: the field, and how its value is read.
EXTRA: Final[Mapping[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "gpuAllocationMetric": ("gpu_allocation", _metric),
    "cpuAllocationMetric": ("cpu_allocation", _metric),
    "memoryAllocationMetric": ("memory_allocation", _metric),
    "gpuCapacityMetric": ("gpu_capacity", _metric),
    "cpuCapacityMetric": ("cpu_capacity", _metric),
    "memoryCapacityMetric": ("memory_capacity", _metric),
    "usageQueryTimeout": ("query_timeout", _seconds),
    "queryResolution": ("resolution", _seconds),
}
