"""A small cluster, what its queues are charged, and claims of its GPUs."""

from typing import Any

from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_node, a_state


def settled(*world) -> ClusterState:
    state = a_state(
        a_node("n0", gpus=2, gpu_memory_mib=16_000, cpu="8"),
        a_node("n1", gpus=2, gpu_memory_mib=16_000),
        *world,
    )
    state.settle(NOW)
    return state


def charges(state: ClusterState) -> dict[str, tuple[float, float]]:
    """GPUs that queues are charged for, and of these for what cannot be preempted; columns say the same."""
    for queue in state.queue_rows:
        assert state.ledger.charges.allocated[queue.row, 2] == queue.allocated.gpu_centi / 100
        assert state.ledger.charges.non_preemptible[queue.row, 2] == queue.non_preemptible.gpu_centi / 100
    return {
        queue.name: (queue.allocated.gpu_centi / 100, queue.non_preemptible.gpu_centi / 100)
        for queue in state.queue_rows
    }


def a_gpu_claim(name: str, *, gpus: int) -> tuple[Kind, Any]:
    """A resource claim for GPUs, which all pods that name it share."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": gpus}}
    meta = {"name": name, "namespace": "default"}
    return Kind.RESOURCE_CLAIM, {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
