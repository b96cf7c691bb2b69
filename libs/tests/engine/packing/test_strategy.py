"""The strategy ``headroom`` as the scheduler runs it, by the arguments of ``nodeplacement``."""

import pytest

from kai.engine import Engine, SchedulerConfig
from kai.engine.packing import Shape
from kai.engine.packing.columns import ClassHeadroom, TableHeadroom, expected
from kai.model.objects import Taint
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_job, a_node, a_state, task_of

PLUGINS = ["predicates", "proportion", "priority", "nodeavailability", "gpupack", "resourcetype", "taskorder"]


def a_config(strategy):
    plugins = "".join(f"  - name: {name}\n" for name in PLUGINS)
    if strategy == "binpack":
        plugins += "  - name: gpusharingorder\n"
    placement = f"  - name: nodeplacement\n    arguments: {{cpu: {strategy}, gpu: {strategy}}}\n"
    return SchedulerConfig.parse(f"actions: allocate\ntiers:\n- plugins:\n{plugins}{placement}")


def a_server(name, *, gpus=0, cpu="32"):
    return a_node(name, gpus=gpus, cpu=cpu, memory="256Gi", gpu_memory_mib=81_920)


def a_load(name, *, gpus=0, fraction=0, cpu="4", node="", group="", **more):
    """A pod, and a group for it alone."""
    shared = {"fraction": fraction, "groups": (group,) if group else ()}
    return a_job(name, gpus=gpus, cpu=cpu, memory="1Gi", on=node, **shared, **more)


def decisions(strategy, nodes, pods):
    result = Engine(a_config(strategy)).run(a_state(nodes, pods), now=NOW)
    return {bind.pod.name: bind for bind in result.binds}


def test_pods_without_gpus_leave_the_cpu_beside_gpus():
    """The first node needs all its CPU for its GPUs, the second has plenty."""
    nodes = [a_server("a", gpus=8, cpu="32"), a_server("b", gpus=2, cpu="64")]
    pods = [a_load("cpu", cpu="16"), *(a_load(f"g{at}", gpus=1) for at in range(10))]
    assert decisions("binpack", nodes, [pods[0]])["cpu-0"].node == "a"
    bound = decisions("headroom", nodes, pods)
    assert bound["cpu-0"].node == "b"
    assert len(bound) == 11


def test_a_part_joins_the_device_that_it_fills():
    nodes = [a_server("a", gpus=2, cpu="64")]
    running = [
        a_load("r0", fraction=0.5, node="a", group="half"),
        a_load("r1", fraction=0.2, node="a", group="fifth"),
        a_load("r2", gpus=1, node="b"),
    ]
    bound = decisions("headroom", nodes, [*running, a_load("p", fraction=0.5)])["p-0"]
    assert bound.gpu_groups == ("half",)


@pytest.mark.parametrize("strategy", ["binpack", "spread", "headroom"])
def test_every_strategy_fills_the_cluster(strategy):
    nodes = [a_server("a", gpus=2, cpu="64"), a_server("b", gpus=2, cpu="64")]
    pods = [a_load(f"w{at}", gpus=1) for at in range(3)] + [a_load(f"h{at}", fraction=0.5) for at in range(3)]
    bound = decisions(strategy, nodes, pods)
    assert len(bound) == 5


@pytest.mark.parametrize(
    "bound",
    [
        {"node_selector": {"model": "A"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "model", "operator": "In", "values": ["A"]}]}
                        ]
                    }
                }
            }
        },
    ],
    ids=["selector", "affinity"],
)
def test_pods_that_may_run_anywhere_leave_nodes_to_those_that_are_bound_to_them(bound):
    """Though these come first by name, and have as much free."""
    nodes = [a_node(f"n{model}", gpus=2, cpu="32", labels={"model": model}) for model in "AB"]
    running = a_load("runs", gpus=1, node="nA", spec=bound)
    elsewhere = a_load("other", gpus=1, node="nB")
    found = decisions("headroom", nodes, [running, elsewhere, a_load("free", gpus=1)])
    assert found["free-0"].node == "nB"
    assert decisions("binpack", nodes, [running, elsewhere, a_load("free", gpus=1)])["free-0"].node == "nA"


def test_nodes_that_repel_pods_are_worth_nothing_to_them():
    """What is kept for those who tolerate it is kept from nobody else's worth."""
    kept = a_node("kept", gpus=4, cpu="32")
    kept.spec.taints = [Taint(key="for", value="others", effect="NoSchedule")]
    state = a_state([kept, a_node("open", gpus=4, cpu="32")], [a_load("p", gpus=1)])
    session = Engine(a_config("headroom")).open(state, NOW)
    assert sorted(session.options.headroom.workload.weight.sum(axis=1)) == [0.0, 2.0]


def test_counts_are_rounded_so_that_the_mix_seldom_changes():
    pods = [a_load(f"p{at}", gpus=2) for at in range(5)] + [a_load("c"), a_load("h", fraction=0.25)]
    state = a_state([a_server("a", gpus=8)], pods)
    state.settle(NOW)
    counts = [(task.cls, 1) for task in state.tasks.values()]
    assert expected(counts, state.nodes, lambda cls: None).shapes == {
        Shape(4000, 2**30, 2, 1.0): 4.0,
        Shape(4000, 2**30, 1, 0.25): 1.0,
    }


def test_scores_follow_the_columns():
    nodes = [a_server("a", gpus=8), a_server("b", gpus=8, cpu="2")]
    state = a_state(nodes, [a_load("r", fraction=0.3, node="a", group="g"), a_load("p", gpus=1)])
    state.settle(NOW)
    mix = expected([(task_of(state, "p-0").cls, 1)], state.nodes, lambda cls: None)
    headroom = TableHeadroom(mix, state.nodes)
    free = headroom.free([0, 1])
    assert free.whole.tolist() == [7, 8]
    assert free.shared[:, 0].tolist() == pytest.approx([0.7, 0.0], abs=1e-4)
    scores = ClassHeadroom(headroom, task_of(state, "p-0").cls).of([0, 1])
    assert 0 < scores[0] <= 9
    assert scores[1] == 0
    state.remove(Kind.POD, "default/r-0")
    state.settle(NOW)
    assert headroom.free([0]).whole.tolist() == [8]
    assert headroom.free([0]).shared.sum() == 0
