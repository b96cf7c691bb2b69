from dataclasses import replace

from prometheus_client import CollectorRegistry

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine
from kai.model.decisions import CycleResult, QueueShare
from kai.observe import exposition
from kai.snapshot.state import ClusterState, Kind
from kai_scheduler.metrics import SchedulerMetrics

NOW = 1_900_000_000.0


def test_a_cycle_tells_what_plugins_and_searches_took() -> None:
    state = ClusterState()
    for priority in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, priority)
    state.apply(Kind.QUEUE, a_queue("poor", gpu=1))
    state.apply(Kind.QUEUE, a_queue("rich", gpu=0, weight=0))
    state.apply(Kind.NODE, a_node("n", gpus=1))
    state.apply(Kind.POD_GROUP, a_group("runs", queue="rich", started=NOW - 60))
    state.apply(Kind.POD, a_pod("runs-0", group="runs", gpus=1, node="n"))
    state.apply(Kind.POD_GROUP, a_group("wants", queue="poor"))
    state.apply(Kind.POD, a_pod("wants-0", group="wants", gpus=1))
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry, namespace="kai")

    result = Engine().run(state, NOW)
    assert [each.pod.name for each in result.evictions] == ["runs-0"]
    metrics.cycle(result, seconds=0.01)

    for plugin in ("proportion", "predicates", "topology"):
        labels = {"plugin": plugin, "OnSession": "OnSessionOpen"}
        spent = registry.get_sample_value("kai_plugin_scheduling_latency_milliseconds", labels)
        assert spent is not None
        assert spent > 0
        closing = registry.get_sample_value(
            "kai_plugin_scheduling_latency_milliseconds", {"plugin": plugin, "OnSession": "OnSessionClose"}
        )
        assert closing is not None
        assert (closing > 0) == (plugin == "proportion")  # the others have nothing to do then
    labels = {"action": "reclaim", "generator": "NodeLocalGreedy", "result": "solved"}
    assert registry.get_sample_value("kai_scenario_search_duration_seconds_count", labels) == 1
    assert registry.get_sample_value("kai_scenario_search_duration_seconds_sum", labels) > 0
    assert registry.get_sample_value("kai_cluster_gpus") == 1
    assert registry.get_sample_value("kai_cluster_nodes") == 1
    assert registry.get_sample_value("kai_free_slots", {"gpus": "1"}) == 0
    assert registry.get_sample_value("kai_cluster_cpu_cores") > 1
    assert registry.get_sample_value("kai_cluster_memory_bytes") > 2**30


#: What dashboards rate, under names that do not end as counters do.
COUNTERS = {
    "kai_podgroups_scheduled_by_action": ("podgroups_scheduled_by_action", "allocate"),
    "kai_podgroups_acted_on_by_action": ("podgroups_acted_on_by_action", "allocate"),
    "kai_scenarios_simulation_by_action": ("scenarios_simulation_by_action", "reclaim"),
    "kai_scenarios_filtered_by_action": ("scenarios_filtered_by_action", "reclaim"),
    "kai_total_preemption_attempts": ("total_preemption_attempts",),
}


def test_what_is_counted_is_told_as_a_counter_by_its_old_name() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry, namespace="kai")
    for _ in range(2):
        metrics.cycle(CycleResult(counters=dict.fromkeys(COUNTERS.values(), 2.0)), seconds=0.01)
    text = exposition.encode(registry).decode().splitlines()
    for name, (_, *labels) in COUNTERS.items():
        told = f'{{action="{labels[0]}"}}' if labels else ""
        assert f"# TYPE {name} counter" in text
        assert f"{name}{told} 4.0" in text


def test_what_searches_seldom_meet_is_told_before_it_happens() -> None:
    registry = CollectorRegistry()
    SchedulerMetrics(registry, namespace="kai")
    for action in ("reclaim", "preempt", "consolidation"):
        for name in (
            "scenarios_filtered_by_action",
            "scenario_search_action_budget_exhausted_total",
            "scenario_search_gave_way_total",
        ):
            assert registry.get_sample_value(f"kai_{name}", {"action": action}) == 0


def test_queues_are_told_with_what_they_are_due_and_what_they_ask_for() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry, namespace="kai")
    triple = (0.0, 0.0, 0.0)
    share = QueueShare(
        queue="team", display_name="The Team", parent="", priority=100, deserved=triple, limit=triple,
        over_quota_weight=triple, fair_share=(2500.0, 3e9, 1.5), allocated=(0.0, 0.0, 2.0),
        allocated_non_preemptible=triple, requested=(1500.0, 2e9, 4.0), usage=(0.1, 0.2, 0.3),
    )  # fmt: skip
    expected = {
        "fair_share_cpu_cores": 2.5,
        "fair_share_memory_gb": 3,
        "fair_share_gpu": 1.5,
        "cpu_usage": 0.1,
        "memory_usage": 0.2,
        "gpu_usage": 0.3,
        "requested_cpu_cores": 1.5,
        "requested_memory_bytes": 2e9,
        "requested_gpus": 4,
    }
    labels = {
        "queue_name": "The Team",
        "queue_metadata_name": "team",
        "queue_display_name": "The Team",
    }

    def told() -> dict[str, float | None]:
        return {name: registry.get_sample_value(f"kai_queue_{name}", labels) for name in expected}

    below = replace(share, queue="below", display_name="below", parent="team")
    metrics.queues((share, below))
    assert told() == expected
    assert registry.get_sample_value("kai_cluster_allocated_gpus") == 2  # what is below a queue is in it
    assert registry.get_sample_value("kai_cluster_requested_cpu_cores") == 1.5
    metrics.queues(())
    assert told() == dict.fromkeys(expected)


def test_evictions_are_counted_by_pod_group_as_long_as_there_is_the_group() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry, namespace="kai")
    for action in ("reclaim", "reclaim", "preempt"):
        metrics.evicted_of("ns/gone", uid="1", node_pool="", action=action)
    metrics.evicted_of("ns/stays", uid="2", node_pool="", action="reclaim")

    def told() -> dict[tuple[str, str], float]:
        return {
            (sample.labels["podgroup"], sample.labels["action"]): sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "kai_pod_group_evicted_pods_total"
        }

    assert told() == {("gone", "reclaim"): 2, ("gone", "preempt"): 1, ("stays", "reclaim"): 1}
    metrics.forget(["ns/gone", "ns/never-evicted"])
    metrics.evicted_of("ns/gone", uid=None, node_pool="", action="reclaim")  # its deletion took its time
    assert told() == {("stays", "reclaim"): 1}
    assert registry.get_sample_value("kai_evictions_total", {"action": "reclaim"}) == 4
    assert registry.get_sample_value("kai_evictions_total", {"action": "preempt"}) == 1
