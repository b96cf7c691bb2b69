"""What a Prometheus is asked, and what its answers come to."""

from datetime import UTC, datetime

import pytest

from kai.config.prometheus_params import PrometheusParams
from kai.engine.usage.prometheus import Answer, Window, questions, shares

NOW = datetime(2030, 1, 2, 12, 30, tzinfo=UTC).timestamp()


def gpu_question(window, **params):
    *_, found = questions(PrometheusParams(**params), window)
    return found


def test_allocation_is_summed_by_queue_over_the_window_and_so_is_capacity():
    asked = gpu_question(Window(since=NOW - 3600, until=NOW))
    assert asked.allocation == "sum_over_time((max by (queue_name) (kai_queue_allocated_gpus))[3600s:60s])"
    assert asked.capacity == (
        'sum_over_time((sum(kube_node_status_capacity{resource="nvidia_com_gpu"}))[3600s:60s])'
    )


def test_older_samples_count_less_on_both_sides():
    asked = gpu_question(Window(since=NOW - 3600, until=NOW, half_life=1234567.0), gpu_capacity="vector(8)")
    age = f"({NOW:.3f} - time()) / 1234567"
    assert asked.allocation == (
        f"sum_over_time(((max by (queue_name) (kai_queue_allocated_gpus)) * 0.5^({age}))[3600s:60s])"
    )
    assert asked.capacity == f"sum_over_time(((vector(8)) * 0.5^({age}))[3600s:60s])"


def test_durations_are_whole_numbers_of_the_smallest_unit_that_they_need():
    asked = gpu_question(Window(since=NOW - 90.25, until=NOW), resolution=0.5)
    assert asked.allocation.endswith("[90250ms:500ms])")


def test_resources_are_asked_for_in_the_order_of_vectors():
    found = questions(PrometheusParams(), Window(since=0, until=3600))
    assert [each.resource for each in found] == ["CPU", "memory", "GPUs"]
    assert "kai_queue_allocated_cpu_cores" in found[0].allocation
    assert "kai_queue_allocated_memory_bytes" in found[1].allocation


@pytest.mark.parametrize(("seconds", "begun"), [(0, False), (59, False), (60, True), (3600, True)])
def test_a_window_has_begun_when_a_sample_must_be_in_it(seconds, begun):
    assert Window(since=NOW - seconds, until=NOW).has_begun(PrometheusParams()) is begun


def answers(cpu=(), memory=(), gpu=(), capacity=(100.0, 100.0, 100.0)):
    return [
        Answer(resource=name, used=list(used), capacity=of)
        for name, used, of in zip(("CPU", "memory", "GPUs"), (cpu, memory, gpu), capacity, strict=True)
    ]


def test_shares_are_parts_of_what_the_cluster_had():
    found = shares(answers(cpu=[("a", 10.0)], gpu=[("a", 25.0), ("b", 250.0)]))
    assert found.by_queue == {"a": (0.1, 0.0, 0.25), "b": (0.0, 0.0, 1.0)}
    assert found.notes == ()


def test_a_cluster_without_gpus_has_shares_of_the_rest():
    found = shares(answers(cpu=[("a", 10.0)], gpu=[("a", 1.0)], capacity=(100.0, 0.0, None)))
    assert found.by_queue == {"a": (0.1, 0.0, 0.0)}
    assert found.notes == ("the capacity of GPUs is nothing: it counts as unused",)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0])
def test_what_is_no_amount_leaves_out_one_queue_only(odd):
    found = shares(answers(gpu=[("odd", odd), ("b", 50.0)]))
    assert found.by_queue == {"b": (0.0, 0.0, 0.5)}
    assert found.notes == (f"queue 'odd' used {odd:g} of GPUs: it counts as unused",)


def test_a_capacity_that_is_no_amount_leaves_out_one_resource_only():
    found = shares(answers(cpu=[("a", 50.0)], gpu=[("a", 50.0)], capacity=(100.0, 1.0, float("nan"))))
    assert found.by_queue == {"a": (0.5, 0.0, 0.0)}
    assert found.notes == ("the capacity of GPUs is nan: it counts as unused",)
