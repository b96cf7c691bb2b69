"""What a Prometheus is asked for past use, and what its answers mean.

The queries are pure text, and mean the same for all three types of window: sums over a subquery that begins
where the window does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kai.config.prometheus_params import PrometheusParams
from kai.model.decisions import ResourceVector

#: The label of allocation metrics that names the queue.
QUEUE_LABEL: Final = "queue_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Over which time samples are summed, in Unix seconds and seconds."""

    since: float
    until: float
    half_life: float | None = None

    def has_begun(self, params: PrometheusParams) -> bool:
        """Whether it is long enough to have a sample in it."""
        return self.until - self.since >= params.resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The instant queries, at the end of the window, for one resource."""

    resource: str
    allocation: str
    capacity: str


def questions(params: PrometheusParams, window: Window) -> tuple[Question, Question, Question]:
    """What to ask for CPU, memory and GPUs, in this order; the window has begun.

    Allocation is asked for by queue. Several series of a queue are one: a queue-controller that started anew,
    or is scraped twice, says the same again under other labels.
    """

    def question(resource: str, allocation: str, capacity: str) -> Question:
        by_queue = f"max by ({QUEUE_LABEL}) ({allocation})"
        return Question(
            resource=resource,
            allocation=_sum(by_queue, window, resolution=params.resolution),
            capacity=_sum(capacity, window, resolution=params.resolution),
        )

    return (
        question("CPU", params.cpu_allocation, params.cpu_capacity),
        question("memory", params.memory_allocation, params.memory_capacity),
        question("GPUs", params.gpu_allocation, params.gpu_capacity),
    )


def _sum(expression: str, window: Window, *, resolution: float) -> str:
    """The decayed sum of an expression over the window, with the sample at its very beginning."""
    if window.half_life is not None:
        age = f"{window.until:.3f} - time()"
        expression = f"({expression}) * 0.5^(({age}) / {window.half_life:.10g})"
    length = window.until - window.since
    return f"sum_over_time(({expression})[{_written(length)}:{_written(resolution)}])"


def _written(seconds: float) -> str:
    """A duration as Prometheus reads it: whole numbers only."""
    whole = round(seconds)
    return f"{whole}s" if abs(seconds - whole) < 0.0005 else f"{round(seconds * 1000)}ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one resource: sums by queue, and the sum of the capacity (None: no series)."""

    resource: str
    used: Sequence[tuple[str, float]]
    capacity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The part of the cluster that each queue used, 0 to 1, and what of the answers was left out."""

    by_queue: dict[str, ResourceVector]
    notes: tuple[str, ...]


def shares(answers: Iterable[Answer]) -> Shares:
    """The parts that the answers for CPU, memory and GPUs, in this order, come to.

    A resource without capacity counts as unused, and so does what is no amount (NaN, infinite or negative); a
    note says so. Parts above the whole are the whole.
    """
    found: dict[str, list[float]] = {}
    notes: list[str] = []
    for resource, answer in enumerate(answers):
        capacity = answer.capacity
        if capacity is None or not _is_amount(capacity):
            said = "nothing" if capacity is None else f"{capacity:g}"
            notes.append(f"the capacity of {answer.resource} is {said}: it counts as unused")
            continue
        for queue, used in answer.used:
            if not _is_amount(used):
                notes.append(f"queue {queue!r} used {used:g} of {answer.resource}: it counts as unused")
            elif capacity > 0:
                found.setdefault(queue, [0.0, 0.0, 0.0])[resource] = min(1.0, used / capacity)
    return Shares(
        by_queue={queue: (cpu, memory, gpu) for queue, (cpu, memory, gpu) in found.items()},
        notes=tuple(notes),
    )


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0
