"""``bindRequests`` of a snapshot file: decisions that were under way when it was taken."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kai.model import dra
from kai.model.decisions import NO_ALLOTMENT, Allotment
from kai.model.failures import all_over
from kai.model.ids import GpuGroup
from kai.model.objects import Json
from kai.snapshot.rows import PodFacts, Task
from kai.snapshot.state import ClusterState


class _Meta(msgspec.Struct):
    namespace: str = ""


class _GpuGroup(msgspec.Struct):
    id: str = ""


class _ClaimAllocation(msgspec.Struct):
    name: str
    allocation: dra.AllocationResult


class _ExtendedClaim(msgspec.Struct, rename="camel"):
    allocation: dra.AllocationResult
    device_requests: list[dra.DeviceRequest] = []
    container_mappings: list[Json] = []


class _Zone(msgspec.Struct):
    zone: str
    amount: dict[str, str]


class _Spec(msgspec.Struct, rename="camel"):
    pod_name: str = ""
    selected_node: str = ""
    #: Newer schedulers write the second of these.
    selected_gpu_groups: list[str] = msgspec.field(name="selectedGPUGroups", default=[])
    selected_fractional_gpu_groups: list[_GpuGroup] = []
    resource_claim_allocations: list[_ClaimAllocation] = []
    extended_resource_claim_allocation: _ExtendedClaim | None = None
    predicted_numa_zones: list[_Zone] = msgspec.field(name="predictedNUMAZones", default=[])
    backoff_limit: int | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    failed_attempts: int = 0


class BindRequest(msgspec.Struct):
    """What counts of a BindRequest."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def failed(self) -> bool:
        """Whether nobody tries any more."""
        limit = self.spec.backoff_limit
        return self.status.phase == "Failed" and (limit is None or self.status.failed_attempts >= limit)

    @property
    def gpu_groups(self) -> tuple[GpuGroup, ...]:
        """The shared devices that the pod gets."""
        spec = self.spec
        fractional = [each.id for each in spec.selected_fractional_gpu_groups]
        return tuple(map(GpuGroup, fractional or spec.selected_gpu_groups))

    @property
    def allotment(self) -> Allotment | None:
        """Claims and zones, as decisions carry them; None if there are none."""
        found = Allotment(
            claims=tuple(msgspec.to_builtins(self.spec.resource_claim_allocations)),
            extended_claim=msgspec.to_builtins(self.spec.extended_resource_claim_allocation),
            numa=tuple(msgspec.to_builtins(self.spec.predicted_numa_zones)),
        )
        return None if found == NO_ALLOTMENT else found


def assume(state: ClusterState, request: BindRequest) -> None:
    """Let the pod count as placed, unless it is bound already, the binder gave up, or the node is gone."""
    spec = request.spec
    task = state.task(f"{request.metadata.namespace}/{spec.pod_name}")
    if request.failed or spec.selected_node not in state.nodes.by_name:
        return
    if task is not None and task.facts is not None and not task.facts.node_name:
        state.assume_bind(
            task.uid, spec.selected_node, groups=request.gpu_groups, allotment=request.allotment
        )


def under_way(state: ClusterState) -> Iterator[Json]:
    """Decisions whose effect the watch has not shown yet, as the original's bind requests for them.

    Raises:
        FailedOver: one cannot be told.
    """
    for task in sorted(state.tasks.values(), key=lambda task: task.key):
        facts = task.facts
        if facts is not None and facts.assumed_node:
            with all_over(f"Pod {task.key}"):
                request = _request(state, task, facts)
            yield request


def _request(state: ClusterState, task: Task, facts: PodFacts) -> Json:
    node = state.nodes.by_name.get(facts.assumed_node)
    received, portion = task.cls.received(state.min_gpu_memory_mib if node is None else node.gpu_memory_mib)
    spec: Json = {
        "podName": task.name,
        "selectedNode": facts.assumed_node,
        "receivedResourceType": received.annotation,
        "receivedGPU": {"count": task.cls.devices, "portion": f"{portion:.2f}"},
    }
    allotted = facts.assumed_allotment or NO_ALLOTMENT
    optional = {
        "selectedGPUGroups": facts.assumed_groups,
        "resourceClaimAllocations": allotted.claims,
        "extendedResourceClaimAllocation": allotted.extended_claim,
        "predictedNUMAZones": allotted.numa,
    }
    return {
        "metadata": {
            "name": task.name,
            "namespace": task.namespace,
            "labels": {"selected-node": facts.assumed_node},
        },
        "spec": spec | {key: value for key, value in optional.items() if value},
        "status": {"phase": "Pending"},
    }
