"""What dashboards know of a scheduler, under the names that they know."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kai.config import ACTIONS, SEARCHING, SearchBudgets
from kai.model.decisions import CycleResult, QueueShare, ResourceVector
from kai.model.rules.free_slots import SIZES, free_slots
from kai.model.rules.queue_amounts import borrowed
from kai.observe import PlainCounter

_TASK_BUCKETS: Final = tuple(5.0 * 2**n for n in range(10))
_SEARCH_BUCKETS: Final = tuple(0.001 * 2**n for n in range(16))
_QUEUE: Final = ("queue_name", "queue_metadata_name", "queue_display_name")
#: How decisions end.
_RESULTS: Final = ("bound", "failed")
#: What happens now and then only.
_TROUBLES_OF_SEARCHES: Final = (
    "scenarios_filtered_by_action",
    "scenario_search_action_budget_exhausted_total",
    "scenario_search_gave_way_total",
)
_OPEN, _CLOSE = "open", "close"
#: The phases in which plugins do what they do beside being asked.
_OPENED: Final = "OnSessionOpen"
_CLOSED: Final = "OnSessionClose"


class SchedulerMetrics:
    """All metrics of the scheduler, in one registry. Milliseconds where the name says so."""

    def __init__(self, registry: CollectorRegistry, *, namespace: str) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(name, text, labels, namespace=namespace, registry=registry)

        def histogram(
            name: str, text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = _TASK_BUCKETS
        ) -> Histogram:
            return Histogram(name, text, labels, namespace=namespace, buckets=buckets, registry=registry)

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, text, labels, namespace=namespace, registry=registry)

        def counted(name: str, text: str, labels: tuple[str, ...] = ()) -> Callable[..., None]:
            if not name.endswith("_total"):
                return PlainCounter(f"{namespace}_{name}", text, labels, registry=registry).add
            made = counter(name, text, labels)
            return lambda amount, *values: (made.labels(*values) if values else made).inc(amount)

        self.cycle_latency = gauge("e2e_scheduling_latency_milliseconds", "Latency of the last cycle")
        self.open_latency = gauge("open_session_latency_milliseconds", "Latency of opening a session")
        self.close_latency = gauge("close_session_latency_milliseconds", "Latency of closing a session")
        self.plugin_latency = gauge(
            "plugin_scheduling_latency_milliseconds", "Latency of a plugin", ("plugin", "OnSession")
        )
        self._plugins: dict[tuple[str, str], Gauge] = {}
        self.action_latency = gauge(
            "action_scheduling_latency_milliseconds", "Latency of an action", ("action",)
        )
        self.task_latency = histogram(
            "task_scheduling_latency_milliseconds", "From a pod's creation to the decision"
        )
        self.bind_latency = histogram("task_bind_latency_milliseconds", "From the decision to its result")
        self.usage_latency = histogram("usage_query_latency_milliseconds", "Latency of reading usage")
        self.usage_failures = Counter(
            "usage_read_failures_total",
            "Reads of usage that failed",
            namespace=namespace,
            registry=registry,
        )
        self.evicted = counter(
            "pod_group_evicted_pods_total",
            "Pods evicted by pod group",
            ("podgroup", "namespace", "uid", "nodepool", "action"),
        )
        #: The same for as long as we run; series by pod group go with the group.
        self.evictions = counter("evictions_total", "Pods evicted, by action", ("action",))
        #: Series of the evicted by pod group (``namespace/name``).
        self._evicted: dict[str, set[tuple[str, ...]]] = {}
        self.fair_share = [
            gauge("queue_fair_share_cpu_cores", "Fair share of CPU of a queue", _QUEUE),
            gauge("queue_fair_share_memory_gb", "Fair share of memory of a queue, 10^9 bytes", _QUEUE),
            gauge("queue_fair_share_gpu", "Fair share of GPUs of a queue", _QUEUE),
        ]
        self.usage = [
            gauge("queue_cpu_usage", "Past use of CPU of a queue", _QUEUE),
            gauge("queue_memory_usage", "Past use of memory of a queue", _QUEUE),
            gauge("queue_gpu_usage", "Past use of GPUs of a queue", _QUEUE),
        ]
        #: What the engine counts, by name: each adds an amount for values of its labels.
        self.by_name = {
            name: counted(name, text, labels)
            for name, text, labels in (
                ("podgroups_scheduled_by_action", "Pod groups scheduled", ("action",)),
                ("podgroups_acted_on_by_action", "Pod groups that an action tried", ("action",)),
                ("scenarios_simulation_by_action", "Scenarios simulated", ("action",)),
                ("scenarios_filtered_by_action", "Scenarios filtered", ("action",)),
                ("total_preemption_attempts", "Preemptions decided", ()),
                (
                    "scenario_search_jobs_total",
                    "Jobs searched for",
                    ("action", "result", "reduced_budget"),
                ),
                ("scenario_search_action_budget_exhausted_total", "Budgets exhausted", ("action",)),
                (
                    "scenario_search_gave_way_total",
                    "Searches that stopped for what came meanwhile, to go on in the next cycle",
                    ("action",),
                ),
                (
                    "scenario_search_scenarios_total",
                    "Scenarios by what became of them",
                    ("action", "generator", "state"),
                ),
            )
        }
        self.search_duration = histogram(
            "scenario_search_duration_seconds",
            "Duration of searches",
            ("action", "generator", "result"),
            _SEARCH_BUCKETS,
        )
        self.action_budget = gauge(
            "scenario_search_action_budget_configured_seconds", "Budget of an action", ("action",)
        )
        self.job_budget = gauge("scenario_search_job_budget_configured_seconds", "Budget of a job")
        self.generator_budget = gauge(
            "scenario_search_generator_budget_configured_seconds", "Budget of a generator", ("generator",)
        )
        # Beyond what the original tells.
        self.cycles = Counter("cycles_total", "Cycles run", namespace=namespace, registry=registry)
        self.cycle_failures = Counter(
            "cycle_failures_total", "Cycles that failed by a defect", namespace=namespace, registry=registry
        )
        self.binds = Counter(
            "binds_total", "Decisions by how they ended", ("result",), namespace=namespace, registry=registry
        )
        self.capacity = [
            gauge("cluster_cpu_cores", "CPU that is divided among queues"),
            gauge("cluster_memory_bytes", "Memory that is divided among queues"),
            gauge("cluster_gpus", "GPUs that are divided among queues"),
            gauge("cluster_nodes", "Nodes of this scheduler"),
        ]
        self._free_slots = [
            (size, slots.labels(str(size)))
            for slots in (gauge("free_slots", "Pods of so many whole GPUs that find room now", ("gpus",)),)
            for size in SIZES
        ]
        self.held_in_all = [
            gauge("cluster_allocated_cpu_cores", "CPU that all queues hold"),
            gauge("cluster_allocated_memory_bytes", "Memory that all queues hold"),
            gauge("cluster_allocated_gpus", "GPUs that all queues hold"),
        ]
        self.requested_in_all = [
            gauge("cluster_requested_cpu_cores", "CPU that all queues hold or wait for"),
            gauge("cluster_requested_memory_bytes", "Memory that all queues hold or wait for"),
            gauge("cluster_requested_gpus", "GPUs that all queues hold or wait for"),
        ]
        self.requested = [
            gauge("queue_requested_cpu_cores", "CPU that a queue holds or waits for", _QUEUE),
            gauge("queue_requested_memory_bytes", "Memory that a queue holds or waits for", _QUEUE),
            gauge("queue_requested_gpus", "GPUs that a queue holds or waits for", _QUEUE),
        ]
        self.borrowed = gauge("queue_borrowed_gpus", "GPUs that a queue holds beyond its quota", _QUEUE)
        self.pending = gauge("podgroups_pending", "Pod groups that wait for places")
        self.refusals = Counter(
            "node_refusals_total",
            "Pods that a node took and did not run",
            ("node",),
            namespace=namespace,
            registry=registry,
        )
        self.outstanding = gauge("decisions_outstanding", "Decisions without a result")
        self.binders = gauge("binders_connected", "Binders that are connected")
        # A rate of what begins with its first case does not know that one.
        for action in ACTIONS:
            if action != "allocate":
                self.evictions.labels(action)
        for result in _RESULTS:
            self.binds.labels(result)
        for name in _TROUBLES_OF_SEARCHES:
            for action in SEARCHING:
                self.by_name[name](0, action)
        self.leading = gauge("leading", "Whether this process leads")
        self.corrected = gauge("state_corrections", "Pods that a relist showed the state to be wrong about")
        self.rejected = gauge("objects_rejected", "Objects that could not be taken in")
        self.faults = gauge("faults", "Objects that are left out or overruled", ("kind", "reason"))
        self._counted: Counts[tuple[str, str]] = Counts()
        self.set_aside = Counter(
            "set_aside_total",
            "Objects that a cycle failed over",
            ("kind",),
            namespace=namespace,
            registry=registry,
        )
        self.cut_off = Counter(
            "cut_off_total",
            "What failed beside deciding, and was cut off",
            ("what",),
            namespace=namespace,
            registry=registry,
        )

    def budgets(self, budgets: SearchBudgets) -> None:
        """Tell what searches may take."""
        self.job_budget.set(budgets.job)
        for action, seconds in budgets.action.items():
            self.action_budget.labels(action).set(seconds)
        for generator, seconds in budgets.generator.items():
            self.generator_budget.labels(generator).set(seconds)

    def cycle(self, result: CycleResult, *, seconds: float) -> None:
        """Tell of one cycle."""
        self.cycles.inc()
        self.cycle_latency.set(seconds * 1000)
        for phase, spent in result.timings.items():
            if phase == _OPEN:
                self.open_latency.set(spent * 1000)
            elif phase == _CLOSE:
                self.close_latency.set(spent * 1000)
            else:
                self.action_latency.labels(phase).set(spent * 1000)
        for plugin, opening in result.plugin_timings.items():
            self._plugin(plugin, _OPENED).set(opening * 1000)
            self._plugin(plugin, _CLOSED).set(result.plugin_closings.get(plugin, 0.0) * 1000)
        for capacity, amount in zip(self.capacity, (*_in_units(result.capacity), result.nodes), strict=True):
            capacity.set(amount)
        for size, slots in self._free_slots:
            slots.set(free_slots(result.nodes_by_free, size))
        for labels_of_search, durations in result.searches.items():
            search = self.search_duration.labels(*labels_of_search)
            for each in durations:
                search.observe(each)
        self._faults(result)
        for (name, *labels), amount in result.counters.items():
            if (add := self.by_name.get(name)) is not None:
                add(amount, *labels)

    def _plugin(self, plugin: str, phase: str) -> Gauge:
        """The series of a plugin; looking it up anew would take longer than all else that is done here."""
        known = self._plugins.get((plugin, phase))
        if known is None:
            known = self._plugins[plugin, phase] = self.plugin_latency.labels(plugin, phase)
        return known

    def _faults(self, result: CycleResult) -> None:
        for fault, _ in result.setbacks:
            self.set_aside.labels(fault.kind).inc()
        counts = Counts((fault.kind, fault.reason) for fault in result.faults)
        for labels in self._counted.keys() - counts.keys():
            self.faults.remove(*labels)
        for labels, count in counts.items():
            self.faults.labels(*labels).set(count)
        self._counted = counts

    def evicted_of(self, group: str, *, uid: str | None, node_pool: str, action: str) -> None:
        """Count a pod of a pod group (``namespace/name``) that was evicted.

        Without a ``uid`` the group is gone, and nobody would forget a series of its own.
        """
        self.evictions.labels(action).inc()
        if uid is None:
            return
        namespace, _, name = group.partition("/")
        labels = (name, namespace, uid, node_pool, action)
        self.evicted.labels(*labels).inc()
        self._evicted.setdefault(group, set()).add(labels)

    def forget(self, groups: Iterable[str]) -> None:
        """Tell no more of pod groups that are gone: there are ever new ones, for as long as we run."""
        for group in groups:
            for labels in self._evicted.pop(group, ()):
                self.evicted.remove(*labels)

    def queues(self, shares: tuple[QueueShare, ...]) -> None:
        """Tell the division among queues; queues that are gone disappear."""
        for gauge in (*self.fair_share, *self.usage, *self.requested, self.borrowed):
            gauge.clear()
        for share in shares:
            labels = (share.display_name or share.queue, share.queue, share.display_name)
            cpu, memory, gpus = share.fair_share
            for gauge, value in zip(self.fair_share, (cpu / 1000, memory / 1e9, gpus), strict=True):
                gauge.labels(*labels).set(value)
            for gauge, value in zip(self.usage, share.usage, strict=True):
                gauge.labels(*labels).set(value)
            for gauge, value in zip(self.requested, _in_units(share.requested), strict=True):
                gauge.labels(*labels).set(value)
            self.borrowed.labels(*labels).set(borrowed(share.allocated[-1], share.deserved[-1]))
        # A queue's amounts include those of all below it.
        roots = [share for share in shares if not share.parent]
        for number, (held, wanted) in enumerate(zip(self.held_in_all, self.requested_in_all, strict=True)):
            held.set(sum(_in_units(root.allocated)[number] for root in roots))
            wanted.set(sum(_in_units(root.requested)[number] for root in roots))


def _in_units(amounts: ResourceVector) -> ResourceVector:
    """Cores, bytes and devices."""
    cpu_millis, memory_bytes, gpus = amounts
    return cpu_millis / 1000, memory_bytes, gpus
