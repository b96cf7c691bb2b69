from prometheus_client import CollectorRegistry

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine
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
    labels = {"action": "reclaim", "generator": "NodeLocalGreedy", "result": "solved"}
    assert registry.get_sample_value("kai_scenario_search_duration_seconds_count", labels) == 1
    assert registry.get_sample_value("kai_scenario_search_duration_seconds_sum", labels) > 0


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
    assert told() == {("stays", "reclaim"): 1}
