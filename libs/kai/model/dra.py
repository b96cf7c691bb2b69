"""Dynamic resource allocation (``resource.k8s.io/v1``), as far as the product reads it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kai.model.objects import ApiObject, ApiStruct, Json

ADMIN_NAMESPACE_LABEL: Final = "resource.kubernetes.io/admin-access"
EXTENDED_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
DEVICE_CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: Most pods that may use one claim, and most devices in one allocation.
RESERVED_FOR_MAX: Final = 256
RESULTS_MAX: Final = 32


# --- what devices there are --------------------------------------------------------------------
class DeviceAttribute(ApiStruct):
    """A property of a device; exactly one field is set."""

    integer: int | None = msgspec.field(default=None, name="int")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class DeviceCapacity(ApiStruct):
    """An amount that a device has."""

    value: str = "0"


class Counter(ApiStruct):
    """An amount of a shared counter."""

    value: str = "0"


class CounterSet(ApiStruct):
    """Counters of a pool that its partitions draw from."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class CounterConsumption(ApiStruct):
    """What one partition draws from a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(ApiStruct):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Device(ApiStruct):
    """One device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: list[CounterConsumption] = msgspec.field(default_factory=list)
    node_name: str | None = None
    node_selector: Json | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] = msgspec.field(default_factory=list)
    allow_multiple_allocations: bool | None = None
    #: Which conditions its driver must set on it, once it is allocated, before its pod may be bound; and
    #: which of them say that it cannot be used.
    binding_conditions: list[str] = msgspec.field(default_factory=list)
    binding_failure_conditions: list[str] = msgspec.field(default_factory=list)
    #: Whether it is of use to the node alone for which it was allocated.
    binds_to_node: bool | None = None


class ResourcePool(ApiStruct):
    """Which pool a slice is part of; slices of an older generation count no more."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(ApiStruct):
    """``spec`` of a ResourceSlice. One of node name, node selector, all nodes, or per device."""

    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: Json | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] = msgspec.field(default_factory=list)
    shared_counters: list[CounterSet] = msgspec.field(default_factory=list)


class ResourceSlice(ApiObject):
    """resource.k8s.io/v1 ResourceSlice."""

    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


# --- what is asked for -------------------------------------------------------------------------
class CelSelector(ApiStruct):
    """An expression over ``device``."""

    expression: str = ""


class DeviceSelector(ApiStruct):
    """A condition that a device must meet."""

    cel: CelSelector | None = None


class DeviceToleration(ApiStruct):
    """A toleration of device taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(ApiStruct):
    """Amounts that a device must have at least; a driver's own names may be without its domain."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)


class DeviceSubRequest(ApiStruct):
    """Devices of one class; one alternative of a prioritised list, or (see below) the whole request."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] = msgspec.field(default_factory=list)
    allocation_mode: str = ""
    count: int = 0
    tolerations: list[DeviceToleration] = msgspec.field(default_factory=list)
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(DeviceSubRequest):
    """Devices of one class, without alternatives."""

    admin_access: bool | None = None


class DeviceRequest(ApiStruct):
    """One request of a claim: exact, or the first alternative that can be had."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] = msgspec.field(default_factory=list)


class DeviceConstraint(ApiStruct):
    """What the devices of several requests (all, if none is named) must have in common, or must not."""

    requests: list[str] = msgspec.field(default_factory=list)
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(ApiStruct):
    """``spec.devices`` of a claim. ``config`` is handed on to the driver as it is."""

    requests: list[DeviceRequest] = msgspec.field(default_factory=list)
    constraints: list[DeviceConstraint] = msgspec.field(default_factory=list)
    config: list[Json] = msgspec.field(default_factory=list)


class ResourceClaimSpec(ApiStruct):
    """``spec`` of a ResourceClaim."""

    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class DeviceResult(ApiStruct):
    """One allocated device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = msgspec.field(default_factory=list)
    #: As the device had them when it was allocated.
    binding_conditions: list[str] = msgspec.field(default_factory=list)
    binding_failure_conditions: list[str] = msgspec.field(default_factory=list)


class DeviceAllocation(ApiStruct):
    """Allocated devices and their configuration."""

    results: list[DeviceResult] = msgspec.field(default_factory=list)
    config: list[Json] = msgspec.field(default_factory=list)


class AllocationResult(ApiStruct):
    """``status.allocation``; without a node selector the devices can be used anywhere."""

    devices: DeviceAllocation = msgspec.field(default_factory=DeviceAllocation)
    node_selector: Json | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(ApiStruct):
    """Who may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimObjectStatus(ApiStruct):
    """``status`` of a ResourceClaim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ClaimConsumer] = msgspec.field(default_factory=list)
    devices: list[dict[str, Any]] | None = None


class ResourceClaim(ApiObject):
    """resource.k8s.io/v1 ResourceClaim."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimObjectStatus = msgspec.field(default_factory=ResourceClaimObjectStatus)


class DeviceClassSpec(ApiStruct):
    """``spec`` of a DeviceClass."""

    selectors: list[DeviceSelector] = msgspec.field(default_factory=list)
    config: list[Json] = msgspec.field(default_factory=list)
    extended_resource_name: str | None = None


class DeviceClass(ApiObject):
    """resource.k8s.io/v1 DeviceClass."""

    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)

    @property
    def resources(self) -> tuple[str, ...]:
        """The extended resources by which its devices are to be had without a claim of the user's."""
        own, chosen = DEVICE_CLASS_RESOURCE_PREFIX + self.metadata.name, self.spec.extended_resource_name
        return (own, chosen) if chosen else (own,)
