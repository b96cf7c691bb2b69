"""What images compile beforehand is what the scheduler calls: other types would be compiled once more."""

import numpy as np
import pytest

from kai.engine.packing import Shape, warm
from kai.engine.packing.columns import Expected, TableHeadroom
from libs.tests.engine.builders import NOW, a_node, a_pod, a_state


def a_table():
    """Three nodes with four GPUs, two of them in use in parts."""
    nodes = (a_node(name, gpus=4, cpu="32", memory="256Gi", gpu_memory_mib=81_920) for name in "abc")
    state = a_state(nodes, (a_pod(name, fraction=0.5, groups=(name,), node="b") for name in ("one", "two")))
    state.settle(NOW)
    return state.nodes


def test_types_are_those_that_the_scheduler_passes(monkeypatch):
    numba = pytest.importorskip("numba")
    from kai.engine.packing import compiled

    called, real = [], compiled._losses

    def noted(*arguments):
        called.append(tuple(numba.typeof(each) for each in arguments))
        return real(*arguments)

    monkeypatch.setattr(compiled, "_losses", noted)
    warm.main()
    mix = Expected(
        shapes={Shape(4000, 2**30, 1): 3, Shape(10, 0, 1, 0.5, frozenset({1})): 1},
        group=np.array([0, 1, 0]),
        capacity=np.array([4.0, 2.0]),
    )
    headroom = TableHeadroom(mix, a_table())
    for request in (Shape(4000, 2**30, 1), Shape(10, 0, 2, 0.25), Shape(1, 1)):
        for rows in ([0, 1, 2], [2, 0], [1]):
            scores, _ = headroom.score(headroom.free(rows), request)
            assert np.isfinite(scores).all()
    assert len(called) == 10
    assert len(set(called)) == 1
