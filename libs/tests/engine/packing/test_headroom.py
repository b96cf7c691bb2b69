import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine.packing import FreeNodes, Headroom, Shape, Workload

CPU_POD, GPU_POD, HALF = Shape(4, 4), Shape(4, 4, 1), Shape(2, 2, 1, 0.5)


def room(cpu=32.0, memory=64.0, whole=0, shared=(), group=0):
    return cpu, memory, whole, shared, group


def rooms(*rows):
    width = max(1, *(len(row[3]) for row in rows))
    shared = np.zeros((len(rows), width))
    for at, row in enumerate(rows):
        shared[at, : len(row[3])] = row[3]
    cpu, memory, whole = (np.array([float(row[column]) for row in rows]) for column in range(3))
    return FreeNodes(cpu, memory, whole, shared, np.array([row[4] for row in rows]))


@pytest.fixture(params=[True, False], ids=["compiled", "numpy"])
def compile_(request):
    if request.param:
        pytest.importorskip("numba")
    return request.param


def best(compile_, workload, request, *rows, groups=1):
    """The best node and the device chosen there."""
    headroom = Headroom(Workload.of(workload, capacity=np.ones(groups)), compile_=compile_)
    score, device = headroom.score(rooms(*rows), request)
    at = int(np.argmax(score))
    return at, int(device[at])


def test_a_pod_without_gpus_goes_where_gpus_have_no_use_for_its_cpu(compile_):
    usable, stranded, plain = room(cpu=16, whole=4), room(cpu=6, whole=0), room(cpu=40, whole=4)
    assert best(compile_, {GPU_POD: 1}, CPU_POD, usable, stranded)[0] == 1
    assert best(compile_, {GPU_POD: 1}, CPU_POD, usable, plain)[0] == 1


def test_a_part_goes_into_the_hole_that_it_fills(compile_):
    node = room(whole=2, shared=(0.8, 0.5))
    assert best(compile_, {GPU_POD: 1, HALF: 1}, HALF, node) == (0, 1)


def test_a_part_takes_a_whole_device_where_no_hole_has_room(compile_):
    assert best(compile_, {GPU_POD: 1}, HALF, room(whole=2, shared=(0.4,))) == (0, -1)


def test_a_device_is_rather_opened_than_a_hole_filled_that_others_fill_well(compile_):
    third, node = Shape(1, 1, 1, 0.3), room(whole=1, shared=(0.5,))
    assert best(compile_, {HALF: 100, third: 10}, third, node) == (0, -1)
    assert best(compile_, {HALF: 100, third: 10}, HALF, node) == (0, 0)


def test_a_whole_device_is_taken_where_cpu_is_short_anyway(compile_):
    """The first node could never fill its devices, the second could."""
    assert best(compile_, {GPU_POD: 1}, Shape(1, 1, 1), room(cpu=8, whole=8), room(cpu=32, whole=8))[0] == 0


def test_nodes_that_others_may_not_use_are_taken_first(compile_):
    picky = GPU_POD._replace(groups=frozenset({0}))
    wanted, left_over = room(whole=4, group=0), room(whole=4, group=1)
    assert best(compile_, {picky: 3, GPU_POD: 1}, GPU_POD, wanted, left_over, groups=2)[0] == 1


def test_a_shape_weighs_more_where_it_has_few_gpus_to_choose_from_and_nothing_elsewhere():
    picky = GPU_POD._replace(groups=frozenset({0}))
    workload = Workload.of({picky: 1, GPU_POD: 1}, capacity=np.array([10.0, 30.0]))
    assert workload.weight.tolist() == [[0.5, 2.0], [0.5, 0.0]]


def test_beside_a_device_goes_what_pods_ask_for_on_the_average():
    assert Workload.of({GPU_POD: 1, HALF._replace(cpu_millis=8): 2, CPU_POD: 7}).beside.tolist() == [10, 4]


def test_a_shape_that_no_node_can_take_weighs_nothing():
    lost = GPU_POD._replace(groups=frozenset())
    assert Workload.of({lost: 1, GPU_POD: 1}, capacity=np.ones(2)).weight.sum(axis=1).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "request_", [Shape(64, 1), Shape(1, 99), Shape(1, 1, 3), Shape(1, 1, 1, 0.9), Shape(1, 1, 4, 0.5)]
)
def test_what_does_not_fit_has_no_score(compile_, request_):
    whole = 2 if request_.portion == 1 or request_.devices > 1 else 0
    score, _ = Headroom(Workload.of({GPU_POD: 1}), compile_=compile_).score(
        rooms(room(whole=whole, shared=(0.6,))), request_
    )
    assert score.tolist() == [-np.inf]


def test_a_workload_without_gpus_expects_whole_devices():
    workload = Workload.of({CPU_POD: 5})
    assert (workload.devices.tolist(), workload.weight.tolist()) == ([1.0], [[1.0]])


parts = st.lists(st.sampled_from([0.0, 0.1, 0.19, 0.5, 0.53, 0.9]), max_size=4)
rows = st.lists(
    st.builds(
        room,
        cpu=st.sampled_from([0.0, 1.0, 4.0, 9.5, 30.0]),
        memory=st.sampled_from([0.0, 2.0, 16.0, 100.0]),
        whole=st.integers(0, 4),
        shared=parts,
        group=st.integers(0, 1),
    ),
    min_size=1,
    max_size=6,
)
shapes = st.builds(
    Shape,
    cpu_millis=st.sampled_from([0.0, 1.0, 3.0, 8.0]),
    memory_bytes=st.sampled_from([0.0, 2.0, 8.0]),
    devices=st.sampled_from([0, 1, 1, 2, 4]),
    portion=st.sampled_from([1.0, 1.0, 0.5, 0.19, 0.81]),
    groups=st.sampled_from([None, frozenset({0}), frozenset({1})]),
)


@settings(max_examples=300)
@given(rows, st.lists(st.tuples(shapes, st.integers(1, 9)), max_size=6), shapes)
def test_compiled_and_numpy_agree_and_no_placement_gains(free, counts, request):
    pytest.importorskip("numba")
    workload = Workload.of(dict(counts), capacity=np.array([3.0, 5.0]))
    fast, fast_device = Headroom(workload).loss(rooms(*free), request)
    plain, plain_device = Headroom(workload, compile_=False).loss(rooms(*free), request)
    assert np.allclose(fast, plain, atol=1e-5)
    assert fast_device.tolist() == plain_device.tolist()
    assert (fast >= -1e-9).all()
