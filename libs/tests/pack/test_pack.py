from pathlib import Path

import numpy as np
import pytest

from kai.pack import report, strategies
from kai.pack.simulation import FULL_DEMAND, Packing, Simulation, arrivals_of, pack
from kai.pack.trace import InvalidTrace, bound_to_models, read_trace

TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


@pytest.fixture
def trace_of(tmp_path):
    def make(nodes, pods, *, nodes_header=NODES, pods_header=PODS):
        (tmp_path / "nodes.csv").write_text(nodes_header + "\n".join(nodes) + "\n")
        (tmp_path / "pods.csv").write_text(pods_header + "\n".join(pods) + "\n")
        return read_trace(tmp_path / "nodes.csv", tmp_path / "pods.csv")

    return make


def place_all(trace, strategy):
    """GPUs held after the trace's pods arrived once, in order."""
    made = strategies.make(strategy, capacity=trace.gpus_by_model)
    simulation = Simulation(trace, made)
    return simulation.run(list(trace.pods)).allocated[-1] * trace.gpus / 100


@pytest.mark.parametrize("strategy", strategies.NAMES)
def test_no_node_gives_more_than_it_has(trace_of, strategy):
    trace = trace_of(
        ["a,8000,1000,2,X", "b,4000,500,4,Y", "c,16000,300,1,X"],
        [
            "p,1000,100,1,1000,",
            "q,2000,50,1,300,",
            "r,500,10,1,700,X|Z",
            "s,3000,100,0,0,",
            "t,100,10,2,500,",
            "u,100,1,4,1000,",
        ],
    )
    simulation = Simulation(trace, strategies.make(strategy, capacity=trace.gpus_by_model))
    packing = simulation.run(arrivals_of(trace, 3))
    free = simulation._free
    assert (free.cpu_millis >= 0).all()
    assert (free.memory_bytes >= 0).all()
    assert (free.whole >= 0).all()
    assert (free.whole + (free.shared > 0).sum(axis=1) <= [2, 4, 1]).all()
    left = free.whole.sum() + free.shared.sum()
    assert packing.allocated[-1] == pytest.approx(100 * (1 - left / trace.gpus))
    assert (np.diff(packing.allocated) >= 0).all()
    assert packing.demanded[-1] > 100 * FULL_DEMAND


@pytest.mark.parametrize("strategy", strategies.NAMES)
def test_parts_share_a_device_when_nothing_else_is_left(trace_of, strategy):
    trace = trace_of(
        ["a,9000,900,2,X"], ["p,1,1,1,500,", "p,1,1,1,500,", "p,1,1,1,500,", "p,1,1,1,500,", "p,1,1,1,100,"]
    )
    assert place_all(trace, strategy) == pytest.approx(2.0)


def test_binpack_and_spread_choose_opposite_nodes_and_devices(trace_of):
    nodes = ["a,9000,900,4,X", "b,9000,900,4,X"]
    pods = ["p,1,1,1,1000,", "p,1,1,1,1000,", "p,1,1,1,300,", "p,1,1,1,300,"]
    free = {}
    for strategy in ("binpack", "spread"):
        trace = trace_of(nodes, pods)
        simulation = Simulation(trace, strategies.make(strategy, capacity=trace.gpus_by_model))
        simulation.run(list(trace.pods))
        free[strategy] = simulation._free
    assert free["binpack"].whole.tolist() == [1, 4]
    assert free["binpack"].shared.sum() == pytest.approx(0.4)
    assert free["spread"].whole.tolist() == [2, 2]
    assert free["spread"].shared.sum() == pytest.approx(1.4)


def test_headroom_keeps_cpu_beside_gpus(trace_of):
    """Pods without GPUs fill the node without GPUs to spare, though it comes last by name."""
    nodes = ["a,8000,900,8,X", "b,8000,900,0,X"]
    pods = ["p,1000,1,1,1000,"] + ["q,1000,1,0,0,"] * 8 + ["p,1000,1,1,1000,"] * 7
    assert place_all(trace_of(nodes, pods), "headroom") == 8
    assert place_all(trace_of(nodes, pods), "spread") < 8


def test_pods_stay_on_the_models_that_they_name(trace_of):
    trace = trace_of(
        ["a,9000,900,4,X", "b,9000,900,1,Y"], ["p,1,1,1,1000,Y", "p,1,1,1,1000,Y", "p,1,1,1,1000,Z"]
    )
    assert place_all(trace, "binpack") == 1


def test_a_part_of_the_pods_is_bound_to_models_that_can_take_them_by_their_gpus(trace_of):
    pods = ["p,1,1,1,1000,"] * 400 + ["q,1,1,4,1000,"] * 50 + ["r,1,1,0,0,"] * 50 + ["s,1,1,1,500,Y"] * 10
    trace = trace_of(["a,9000,900,6,X", "b,9000,900,2,Y"], pods)
    bound = bound_to_models(trace, 0.5)
    assert bound == bound_to_models(trace, 0.5) != bound_to_models(trace, 0.5, seed=1)
    small, large, plain, own = (
        [pod.groups for pod in bound.pods[first:last]]
        for first, last in ((0, 400), (400, 450), (450, 500), (500, 510))
    )
    assert 160 < sum(groups is not None for groups in small) < 240
    assert 100 < small.count(frozenset({0})) < 200
    assert set(large) == {None, frozenset({0})}
    assert (set(plain), set(own)) == ({None}, {frozenset({1})})


def test_headroom_keeps_a_model_for_those_who_need_it(trace_of):
    """Whoever may run anywhere comes first, and would take by name the model that others need."""
    trace = trace_of(
        ["a,9000,900,4,X", "b,9000,900,4,Y"],
        [*["p,1,1,1,1000,X"], *["p,1,1,1,1000,"] * 4, *["p,1,1,1,1000,X"] * 3],
    )
    assert place_all(trace, "headroom") == 8
    assert place_all(trace, "binpack") < 8


def test_runs_repeat_by_seed(trace_of):
    trace = trace_of(["a,9000,900,8,X"] * 3, ["p,900,1,1,1000,", "q,100,1,1,330,", "r,2000,1,0,0,"])
    first, again, other = (pack(trace, "headroom", seed).allocated for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_the_figure_is_read_before_demand_exceeds_it():
    packing = Packing(np.array([40.0, 80.0, 100.0, 120.0]), np.array([40.0, 70.0, 85.0, 90.0]))
    assert [packing.at(percent) for percent in (0, 40, 99.9, 100, 130)] == [0, 40, 70, 85, 90]


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        (["a,x,1,1,X"], ["p,1,1,1,1000,"], "line 2: cpu_milli is 'x', not a number"),
        (["a,1,-1,1,X"], ["p,1,1,1,1000,"], "memory_mib is negative"),
        (["a,1,1,0,X"], ["p,1,1,1,1000,"], "there are no GPUs"),
        (["a,1,1,1,X"], ["p,1,1,1,2000,"], "gpu_milli is 2000; it must be within 1 and 1000"),
        (["a,1,1,1,X"], ["p,1,1,0,0,"], "no pod asks for a GPU"),
        (["a,1,1,1,X", "b,1,1"], ["p,1,1,1,1000,"], r"nodes\.csv, line 3: column 'gpu' is missing"),
        (["a,1,1,1"], ["p,1,1,1,1000,"], r"nodes\.csv, line 2: column 'model' is missing"),
        (["a,1,1,1,X"], ["p,1,1"], r"pods\.csv, line 2: column 'num_gpu' is missing"),
        (["a,1,1,1,X"], ["p,1,1,1,1000"], r"pods\.csv, line 2: column 'gpu_spec' is missing"),
        (["a,1,1,1,X", "", "b,x,1,1,X"], ["p,1,1,1,1000,"], "line 4: cpu_milli is 'x', not a number"),
        (["a,1,1,inf,X"], ["p,1,1,1,1000,"], "line 2: gpu is 'inf', not a number"),
        (["a,nan,1,1,X"], ["p,1,1,1,1000,"], "line 2: cpu_milli is 'nan', not a number"),
        (["a,1,1,1,X"], ["p,1,1e999,1,1000,"], "line 2: memory_mib is '1e999', not a number"),
        (["a,1,1,1.5,X"], ["p,1,1,1,1000,"], "line 2: gpu is '1.5', not a whole number"),
        (["a,1,1,1,X"], ["p,1,1,1,99.5,"], "line 2: gpu_milli is '99.5', not a whole number"),
    ],
)
def test_a_file_that_is_no_trace_is_explained(trace_of, nodes, pods, message):
    with pytest.raises(InvalidTrace, match=message):
        trace_of(nodes, pods)


def test_a_column_that_all_pods_may_lack_is_not_missed(trace_of):
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
    trace = trace_of(["a,1,1,2.0,X"], ["p,1,,1,1000"], pods_header=header)
    assert trace.gpus == 2
    assert (trace.pods[0].groups, trace.pods[0].memory_bytes) == (None, 0)


def test_a_missing_column_or_file_is_named(trace_of, tmp_path):
    with pytest.raises(InvalidTrace, match="column 'gpu' is missing"):
        trace_of(["a,1,1,X"], ["p,1,1,1,1000,"], nodes_header="sn,cpu_milli,memory_mib,model\n")
    with pytest.raises(InvalidTrace, match=r"none\.csv"):
        read_trace(tmp_path / "none.csv", tmp_path / "none.csv")


@pytest.mark.skipif(not TRACES.exists(), reason="../shared is not here")
def test_headroom_packs_the_public_trace_better_than_binpack():
    pytest.importorskip("numba")
    trace = read_trace(TRACES / "openb_node_list_gpu_node.csv", TRACES / "openb_pod_list_default.csv")
    headroom, binpack = (report.run(trace, name, [0]) for name in ("headroom", "binpack"))
    assert headroom.per_seed()[0] >= 96.0
    assert binpack.per_seed()[0] == pytest.approx(91.9, abs=1.0)
