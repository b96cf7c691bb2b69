"""What is taken in follows the rules that controllers and binder follow."""

import pytest

from kai.bench.objects import a_group, a_node, a_pod
from kai.engine import Engine, SchedulerConfig
from kai.model.objects import (
    ObjectMeta,
    PodGroup,
    PodGroupSpec,
    PriorityClass,
    SubGroup,
)
from kai.model.rules import minimums
from kai.snapshot.jobs import tree
from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_state, claiming

NOW = 1_900_000_000.0


def a_default(name, value):
    return Kind.PRIORITY_CLASS, PriorityClass(
        metadata=ObjectMeta(name=name), value=value, global_default=True
    )


def test_of_several_default_priority_classes_the_lowest_counts():
    state = a_state(a_default("a", 120), a_default("b", 70), a_group("job", queue="team", priority=""))
    [job] = state.jobs.values()
    assert (job.priority, job.preemptible) == (70, True)


@pytest.mark.parametrize("device_class", ["gpu.example.com", "GPU.example.com"])
def test_gpus_of_claims_are_counted_however_their_class_is_written(device_class):
    exactly = {"deviceClassName": device_class, "count": 2}
    claim = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    state = a_state(
        a_group("job", queue="team"),
        (Kind.RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": claim}),
        a_pod("pod", group="job", spec=claiming("c")),
    )
    [task] = state.tasks.values()
    assert task.cls.dra_gpus == 2


def test_a_pod_with_both_forms_of_labels_holds_a_part_of_each_device():
    pod = a_pod("pod", group="job", fraction=0.5, devices=2, node="n", groups=("a", "b"))
    pod.metadata.labels = {"runai-gpu-group/a": "a", "runai-gpu-group": "b"}
    state = a_state(
        a_node("n", gpus=2, gpu_memory_mib=16_000),
        a_group("job", queue="team"),
        pod,
    )
    [node] = state.nodes.nodes
    assert sorted(node.groups) == ["a", "b"]


def test_a_pod_may_have_all_the_memory_that_a_gpu_has():
    state = a_state(
        a_node("n", gpus=1, gpu_memory_mib=81_559),
        a_group("all", queue="team"),
        a_pod("all", group="all", gpu_memory_mib=81_559),
        a_group("more", queue="team", created=1),
        a_pod("more", group="more", gpu_memory_mib=1),
    )
    binds = Engine(SchedulerConfig()).run(state, NOW).binds
    assert [(bind.pod.name, bind.gpu_portion) for bind in binds] == [("all", 1.0)]
    state.check()


@pytest.mark.parametrize(
    ("minimum", "parts"),
    [
        (None, []),
        (0, []),
        (3, []),
        (None, [SubGroup(name="a", min_member=2), SubGroup(name="b")]),
        (1, [SubGroup(name="a", min_member=2), SubGroup(name="b", min_member=1)]),
    ],
)
def test_a_tree_needs_what_the_rule_of_minimums_says(minimum, parts):
    spec = PodGroupSpec(queue="team", sub_groups=parts)
    if parts:
        spec.min_sub_group = minimum
    else:
        spec.min_member = minimum
    root, leaves, _ = tree(PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec))
    if parts:
        assert root.threshold == minimums.subgroups(minimum, minimums.children(parts)[""])
        assert [leaf.threshold for leaf in leaves.values()] == [minimums.pods_of_leaf(each) for each in parts]
    else:
        assert [leaf.threshold for leaf in leaves.values()] == [minimums.pods_of_group(spec)]
        assert root.threshold == 1
