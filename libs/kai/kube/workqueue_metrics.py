"""Series of work queues and of those who work on them, under the names of Kubernetes' controllers.

Dashboards for controllers know these names. A controller is called like its work queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

#: 10 ns to 1000 s, a tenth each.
_QUEUE_BUCKETS: Final = tuple(float(f"1e{power}") for power in range(-8, 4))
# fmt: off
_WORK_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
    40.0, 50.0, 60.0,
)
# fmt: on
_QUEUE: Final = ("name", "controller")
_CONTROLLER: Final = ("controller",)


class WorkResult(StrEnum):
    """How one piece of work ended."""

    SUCCESS = "success"
    ERROR = "error"
    #: It went well, and asked to be done again later.
    AGAIN = "requeue_after"


class ControllerMetrics:
    """What the controllers of one process do. Times are in seconds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Counter(
            "controller_runtime_reconcile",
            "Pieces of work by how they ended",
            (*_CONTROLLER, "result"),
            registry=registry,
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors",
            "Pieces of work that failed",
            _CONTROLLER,
            registry=registry,
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Time that a piece of work took",
            _CONTROLLER,
            buckets=_WORK_BUCKETS,
            registry=registry,
        )
        self._active = Gauge(
            "controller_runtime_active_workers", "Workers that work now", _CONTROLLER, registry=registry
        )
        self._workers = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Workers there are",
            _CONTROLLER,
            registry=registry,
        )

    def of(self, controller: str) -> ControllerSeries:
        """The series of one controller, from now on 0 if they were not there."""
        return ControllerSeries(
            results={result: self._total.labels(controller, result.value) for result in WorkResult},
            errors=self._errors.labels(controller),
            seconds=self._seconds.labels(controller),
            active=self._active.labels(controller),
            workers=self._workers.labels(controller),
        )


class ControllerSeries:
    """The series of one controller."""

    def __init__(
        self,
        *,
        results: Mapping[WorkResult, Counter],
        errors: Counter,
        seconds: Histogram,
        active: Gauge,
        workers: Gauge,
    ) -> None:
        self._results = results
        self._errors = errors
        self._seconds = seconds
        self._active = active
        self.workers = workers

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker works during the block, which must tell :meth:`ended` unless it is cancelled."""
        began = time.perf_counter()
        self._active.inc()
        try:
            yield
        finally:
            self._active.dec()
            self._seconds.observe(time.perf_counter() - began)

    def ended(self, result: WorkResult) -> None:
        """A piece of work ended so."""
        self._results[result].inc()
        if result is WorkResult.ERROR:
            self._errors.inc()


class QueueMetrics:
    """The work queues of one process, and the controllers that work on them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.controllers = ControllerMetrics(registry)
        self._depth = Gauge("workqueue_depth", "Keys that wait for a worker", _QUEUE, registry=registry)
        self._adds = Counter("workqueue_adds", "Keys that were added", _QUEUE, registry=registry)
        self._retries = Counter("workqueue_retries", "Keys to be tried again", _QUEUE, registry=registry)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Time that a key waited for a worker",
            _QUEUE,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "Time that a worker took for a key",
            _QUEUE,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self._unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds that all workers together have been at their keys",
            _QUEUE,
            registry=registry,
        )
        self._longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the slowest worker has been at its key",
            _QUEUE,
            registry=registry,
        )

    def of(self, name: str, *, running: Callable[[], list[float]]) -> QueueSeries:
        """The series of one queue; ``running`` gives for how many seconds each key has been worked on."""
        labels = (name, name)
        self._unfinished.labels(*labels).set_function(lambda: sum(running()))
        self._longest.labels(*labels).set_function(lambda: max(running(), default=0.0))
        return QueueSeries(
            controller=self.controllers.of(name),
            depth=self._depth.labels(*labels),
            adds=self._adds.labels(*labels),
            retries=self._retries.labels(*labels),
            waited=self._waited.labels(*labels),
            worked=self._worked.labels(*labels),
        )


class QueueSeries:
    """The series of one work queue and its controller."""

    def __init__(
        self,
        *,
        controller: ControllerSeries,
        depth: Gauge,
        adds: Counter,
        retries: Counter,
        waited: Histogram,
        worked: Histogram,
    ) -> None:
        self.controller = controller
        self.depth = depth
        self.adds = adds
        self.retries = retries
        self.waited = waited
        self.worked = worked
