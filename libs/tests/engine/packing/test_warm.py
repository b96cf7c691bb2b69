"""What images compile beforehand is what the scheduler calls: other types would be compiled once more."""

import msgspec
import numpy as np
import pytest

from kai.engine.packing import Shape, warm
from kai.engine.packing.columns import TableHeadroom
from kai.engine.packing.workload import Workload
from kai.model.objects import Node, Pod
from kai.snapshot.state import ClusterState, Kind, StateParams


def a_state():
    """Three nodes with four GPUs, two of them in use in parts."""
    state = ClusterState(StateParams())
    amounts = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "4", "pods": "110"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("a", "b", "c"):
        metadata = {"name": name, "labels": {"nvidia.com/gpu.memory": "81920"}}
        state.apply(Kind.NODE, msgspec.convert({"metadata": metadata, "status": status}, Node))
    for name in ("one", "two"):
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "annotations": {"gpu-fraction": "0.5"},
            "labels": {"runai-gpu-group": name},
        }
        pod = {
            "metadata": metadata,
            "spec": {"schedulerName": "kai-scheduler", "nodeName": "b", "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }
        state.apply(Kind.POD, msgspec.convert(pod, Pod))
    state.settle(1_900_000_000.0)
    return state


def test_types_are_those_that_the_scheduler_passes(monkeypatch):
    numba = pytest.importorskip("numba")
    from kai.engine.packing import compiled

    called, real = [], compiled._losses

    def noted(*arguments):
        called.append(tuple(numba.typeof(each) for each in arguments))
        return real(*arguments)

    monkeypatch.setattr(compiled, "_losses", noted)
    warm.main()
    headroom = TableHeadroom(
        Workload.of({Shape(4000, 2**30, 1): 3, Shape(10, 0, 1, 0.5): 1}), a_state().nodes
    )
    for request in (Shape(4000, 2**30, 1), Shape(10, 0, 2, 0.25), Shape(1, 1)):
        for rows in ([0, 1, 2], [2, 0], [1]):
            scores, _ = headroom.score(headroom.free(rows), request)
            assert np.isfinite(scores).all()
    assert len(called) == 10
    assert len(set(called)) == 1
