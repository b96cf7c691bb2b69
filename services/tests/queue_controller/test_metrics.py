"""Series of queues by their exact names."""

import pytest
from prometheus_client import CollectorRegistry

from kai_queue_controller.metrics import ExtraLabels, QueueCollector
from kai_queue_controller.tree import Workloads, totals

RESOURCES = {
    "gpu": {"quota": 4.5},
    "cpu": {"quota": 16000},
    "memory": {"quota": 512},
}
UNLIMITED = {"gpu": {"quota": -1}, "cpu": {"quota": -1}, "memory": {"quota": -1}}


def registry_of(queues, workloads=None, *, prefix="kai", extra=None):
    registry = CollectorRegistry()
    registry.register(
        QueueCollector(
            lambda: queues,
            lambda: totals(queues, workloads or Workloads()),
            prefix=prefix,
            extra=extra or ExtraLabels({}, {}),
        )
    )
    return registry


def value(registry, name, queue="team", display_name="", **labels):
    identity = {"queue_name": queue, "queue_metadata_name": queue, "queue_display_name": display_name}
    return registry.get_sample_value(name, {**identity, **labels})


def test_quotas_in_usual_units(build):
    registry = registry_of({"team": build.queue("team", resources=RESOURCES, display_name="The Team")})
    names = {
        "kai_queue_info": 1,
        "kai_queue_deserved_gpus": 4.5,
        "kai_queue_quota_cpu_cores": 16,
        "kai_queue_quota_memory_bytes": 512e6,
    }
    assert {name: value(registry, name, display_name="The Team") for name in names} == names


@pytest.mark.parametrize(("resources", "expected"), [(UNLIMITED, -1), (None, 0)])
def test_unlimited_stays_and_none_is_nothing(build, resources, expected):
    registry = registry_of({"team": build.queue("team", resources=resources)})
    for name in ("deserved_gpus", "quota_cpu_cores", "quota_memory_bytes"):
        assert value(registry, f"kai_queue_{name}") == expected


def test_allocation_is_that_of_the_whole_subtree_rounded(build):
    workloads = Workloads()
    held = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "333333u", "gpu.nvidia.com": "8"}
    group = build.group("g", queue="leaf", resources={"allocated": held})
    workloads.put(group.key, "leaf", group.status.resources_status)
    registry = registry_of(build.queues("team", "leaf"), workloads)
    assert value(registry, "kai_queue_allocated_cpu_cores") == 1.5
    assert value(registry, "kai_queue_allocated_memory_bytes") == 2**30
    assert value(registry, "kai_queue_allocated_gpus") == 0.3333


def test_the_prefix_and_labels_of_queues_can_be_configured(build):
    extra = ExtraLabels({"tier": "level", "cost": "center"}, {"tier": "low"})
    queues = {
        "team": build.queue("team", labels={"cost": "c7"}),
        "other": build.queue("other", labels={"tier": "high"}),
    }
    registry = registry_of(queues, prefix="acme", extra=extra)
    assert value(registry, "acme_queue_info", center="c7", level="low") == 1
    assert value(registry, "acme_queue_info", "other", center="", level="high") == 1


def test_a_label_that_says_nothing_is_a_label(build):
    extra = ExtraLabels({"tier": "level"}, {"tier": "low"})
    registry = registry_of({"team": build.queue("team", labels={"tier": ""})}, extra=extra)
    assert value(registry, "kai_queue_info", level="") == 1


def test_a_queue_that_is_gone_has_no_series(build):
    queues = {"team": build.queue("team")}
    registry = registry_of(queues)
    assert value(registry, "kai_queue_info") == 1
    queues.clear()
    assert value(registry, "kai_queue_info") is None
