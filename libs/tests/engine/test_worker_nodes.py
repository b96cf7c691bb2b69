"""Nodes that labels set apart: for pods with GPUs, for others, and for MIG devices."""

import pytest

from kai.snapshot.state import StateParams
from libs.tests.engine.builders import SLICE, a_job, a_node, a_state, bound, cycle, slices

PLAIN, GPUS, MIG = "example.com/plain", "example.com/gpus", "example.com/mig"
RESTRICTED = StateParams(
    restrict_node_scheduling=True,
    cpu_worker_label_key=PLAIN,
    gpu_worker_label_key=GPUS,
    mig_worker_label_key=MIG,
)


def test_pods_go_to_nodes_with_the_labels_that_the_scheduler_was_told() -> None:
    """Those that are called like that by default count for nothing then."""
    state = a_state(
        a_node("a", gpus=1, labels={"node-role.kubernetes.io/gpu-worker": ""}),
        a_node("b", gpus=1, labels={PLAIN: ""}),
        a_node("c", gpus=1, labels={GPUS: ""}),
        a_job("trains", gpus=1),
        a_job("prepares"),
        params=RESTRICTED,
    )
    assert bound(cycle(state)) == {"trains-0": "c", "prepares-0": "b"}


@pytest.mark.parametrize("key", [MIG, "node-role.kubernetes.io/mig-enabled"])
@pytest.mark.parametrize(("said", "placed"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_a_label_says_by_its_value_whether_a_node_has_mig_devices(key, said, placed) -> None:
    """Whether nodes are restricted or not, and whatever its device plugin offers."""
    params = RESTRICTED if key == MIG else StateParams()
    state = a_state(
        a_node("n", extra={SLICE: "1"}, labels={key: said, GPUS: ""}), slices(a_job("j")), params=params
    )
    assert bool(bound(cycle(state))) is placed


@pytest.mark.parametrize("params", [RESTRICTED, StateParams()], ids=["restricted", "not restricted"])
def test_a_node_without_that_label_has_what_its_device_plugin_offers(params) -> None:
    state = a_state(
        a_node("none", labels={GPUS: ""}),
        a_node("some", extra={SLICE: "1"}, labels={GPUS: ""}),
        slices(a_job("j")),
        params=params,
    )
    assert bound(cycle(state)) == {"j-0": "some"}
