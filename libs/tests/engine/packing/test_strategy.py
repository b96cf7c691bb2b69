"""The strategy ``headroom`` as the scheduler runs it, by the arguments of ``nodeplacement``."""

import msgspec
import pytest

from kai.engine import Engine, SchedulerConfig
from kai.engine.packing import Shape
from kai.engine.packing.columns import ClassHeadroom, TableHeadroom, expected_shapes
from kai.engine.packing.workload import Workload
from kai.model.objects import Node, Pod, PodGroup, Queue
from kai.snapshot.state import ClusterState, Kind, StateParams

NOW = 1_900_000_000.0
PLUGINS = ["predicates", "proportion", "priority", "nodeavailability", "gpupack", "resourcetype", "taskorder"]


def a_config(strategy):
    plugins = "".join(f"  - name: {name}\n" for name in PLUGINS)
    if strategy == "binpack":
        plugins += "  - name: gpusharingorder\n"
    placement = f"  - name: nodeplacement\n    arguments: {{cpu: {strategy}, gpu: {strategy}}}\n"
    return SchedulerConfig.parse(f"actions: allocate\ntiers:\n- plugins:\n{plugins}{placement}")


def a_node(name, *, gpus=0, cpu="32"):
    amounts = {"cpu": cpu, "memory": "256Gi", "nvidia.com/gpu": str(gpus), "pods": "110"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": str(gpus)}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)


def a_pod(name, *, gpus=0, fraction="", cpu="4", node="", group=""):
    requests = {"cpu": cpu, "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    annotations = {"pod-group-name": name} | ({"gpu-fraction": fraction} if fraction else {})
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": name,
                "annotations": annotations,
                "labels": {"runai-gpu-group": group} if group else {},
            },
            "spec": {
                "schedulerName": "kai-scheduler",
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Running" if node else "Pending"},
        },
        Pod,
    )


def a_state(nodes, pods):
    state = ClusterState(StateParams())
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": free, "memory": free, "gpu": free}
    for name, parent in (("top", ""), ("q", "top")):
        spec = {"parentQueue": parent, "resources": resources}
        state.apply(Kind.QUEUE, msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue))
    for node in nodes:
        state.apply(Kind.NODE, node)
    for pod in pods:
        group = {
            "metadata": {"name": pod.metadata.name, "namespace": "ns"},
            "spec": {"queue": "q", "minMember": 1},
        }
        state.apply(Kind.POD_GROUP, msgspec.convert(group, PodGroup))
        state.apply(Kind.POD, pod)
    return state


def decisions(strategy, nodes, pods):
    result = Engine(a_config(strategy)).run(a_state(nodes, pods), now=NOW)
    return {bind.pod.name: bind for bind in result.binds}


def test_pods_without_gpus_leave_the_cpu_beside_gpus():
    """The first node needs all its CPU for its GPUs, the second has plenty."""
    nodes = [a_node("a", gpus=8, cpu="32"), a_node("b", gpus=2, cpu="64")]
    pods = [a_pod("cpu", cpu="16"), *(a_pod(f"g{at}", gpus=1) for at in range(10))]
    assert decisions("binpack", nodes, [pods[0]])["cpu"].node == "a"
    bound = decisions("headroom", nodes, pods)
    assert bound["cpu"].node == "b"
    assert len(bound) == 11


def test_a_part_joins_the_device_that_it_fills():
    nodes = [a_node("a", gpus=2, cpu="64")]
    running = [
        a_pod("r0", fraction="0.5", node="a", group="half"),
        a_pod("r1", fraction="0.2", node="a", group="fifth"),
        a_pod("r2", gpus=1, node="b"),
    ]
    bound = decisions("headroom", nodes, [*running, a_pod("p", fraction="0.5")])["p"]
    assert bound.gpu_groups == ("half",)


@pytest.mark.parametrize("strategy", ["binpack", "spread", "headroom"])
def test_every_strategy_fills_the_cluster(strategy):
    nodes = [a_node("a", gpus=2, cpu="64"), a_node("b", gpus=2, cpu="64")]
    pods = [a_pod(f"w{at}", gpus=1) for at in range(3)] + [a_pod(f"h{at}", fraction="0.5") for at in range(3)]
    bound = decisions(strategy, nodes, pods)
    assert len(bound) == 5


def test_counts_are_rounded_so_that_the_mix_seldom_changes():
    pods = [a_pod(f"p{at}", gpus=2) for at in range(5)] + [a_pod("c"), a_pod("h", fraction="0.25")]
    state = a_state([a_node("a", gpus=8)], pods)
    state.settle(NOW)
    counts = [(task.cls, 1) for task in state.tasks.values()]
    shapes = expected_shapes(counts, state.nodes)
    assert shapes == {
        Shape(4000, 2**30, 2, 1.0): 4.0,
        Shape(4000, 2**30, 1, 0.25): 1.0,
    }


def test_scores_follow_the_columns():
    nodes = [a_node("a", gpus=8), a_node("b", gpus=8, cpu="2")]
    state = a_state(nodes, [a_pod("r", fraction="0.3", node="a", group="g"), a_pod("p", gpus=1)])
    state.settle(NOW)
    headroom = TableHeadroom(Workload.of({Shape(4000, 2**30, 1): 1}), state.nodes)
    free = headroom.free([0, 1])
    assert free.whole.tolist() == [7, 8]
    assert free.shared[:, 0].tolist() == pytest.approx([0.7, 0.0], abs=1e-4)
    scores = ClassHeadroom(headroom, state.tasks["p"].cls).of([0, 1])
    assert 0 < scores[0] <= 9
    assert scores[1] == 0
    state.remove(Kind.POD, "ns/r")
    state.settle(NOW)
    assert headroom.free([0]).whole.tolist() == [8]
    assert headroom.free([0]).shared.sum() == 0
