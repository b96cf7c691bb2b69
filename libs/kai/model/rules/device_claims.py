"""Which resource claims a pod has, and how many GPUs a claim has, or asks for.

A class or a driver is of GPUs if its name says so: the original's rule. Which of several alternatives a claim
will get is not known before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kai.model import dra
from kai.model.objects import PodResourceClaim, ResourceClaimStatus
from kai.model.quantity import INT64_MAX


class _Spec(Protocol):
    @property
    def resource_claims(self) -> Sequence[PodResourceClaim] | None: ...


class _Status(Protocol):
    @property
    def resource_claim_statuses(self) -> Sequence[ResourceClaimStatus] | None: ...


class AnyPod(Protocol):
    """A pod, as far as its claims go."""

    @property
    def spec(self) -> _Spec:
        """What it names."""
        ...

    @property
    def status(self) -> _Status:
        """What was made of its templates."""
        ...


class ClaimEntry(NamedTuple):
    """A claim as a pod calls it, and the name of the object behind it."""

    called: str
    #: None while it has not been made from its template, and where Kubernetes says that none is needed.
    name: str | None
    from_template: bool = False
    #: Whether it has not been made yet.
    awaited: bool = False


def claim_entries(pod: AnyPod) -> Iterator[ClaimEntry]:
    """The claims of a pod, as it lists them."""
    if not pod.spec.resource_claims:
        return
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield ClaimEntry(claim.name, claim.resource_claim_name)
        else:
            name, awaited = made.get(claim.name) or None, claim.name not in made
            yield ClaimEntry(claim.name, name, from_template=True, awaited=awaited)


def is_gpu_name(name: str) -> bool:
    """Whether a device class or a driver is of GPUs."""
    return "gpu" in name.lower()


def claimed_gpus(claim: dra.ResourceClaim) -> tuple[str, int] | None:
    """The device class that a claim's GPUs are counted under (the first one of them), and their number.

    Counted is what it has got, else what its exact requests ask for; never what is only administered. None
    without GPUs. A claim that was made for extended resources is none of those that its pod names, and the
    pod's requests have it; that a claim says so of itself, which its owner may write, changes nothing.
    """
    allocation = claim.status.allocation
    found = list(_asked_for(claim) if allocation is None else _received(claim, allocation))
    return (found[0][0], min(sum(gpus for _, gpus in found), INT64_MAX)) if found else None


def is_for_gpus(claim: dra.ResourceClaim) -> bool:
    """Whether a claim has got GPUs, or may get some, be it to administer them."""
    allocation = claim.status.allocation
    if allocation is None:
        return may_take_gpus(claim)
    return any(_is_gpu(*each) for each in _results(claim, allocation))


def _asked_for(claim: dra.ResourceClaim) -> Iterator[tuple[str, int]]:
    """Device classes, and how many GPUs of them; of all that there are, which is not known before, one."""
    for request in claim.spec.devices.requests:
        exact = request.exactly
        if exact is not None and not exact.admin_access and is_gpu_name(exact.device_class_name):
            yield exact.device_class_name, 1 if exact.allocation_mode == "All" else max(exact.count, 1)


def _received(claim: dra.ResourceClaim, allocation: dra.AllocationResult) -> Iterator[tuple[str, int]]:
    """The device class of each GPU."""
    for result, device_class in _results(claim, allocation):
        if not result.admin_access and _is_gpu(result, device_class):
            yield device_class, 1


def _results(
    claim: dra.ResourceClaim, allocation: dra.AllocationResult
) -> Iterator[tuple[dra.DeviceResult, str]]:
    """The devices that a claim has got, and by which device class each."""
    classes = {
        name: spec.device_class_name
        for request in claim.spec.devices.requests
        for name, spec in (
            [(request.name, request.exactly)]
            if request.exactly is not None
            else [(f"{request.name}/{each.name}", each) for each in request.first_available]
        )
    }
    for result in allocation.devices.results:
        yield result, classes.get(result.request, result.driver)


def _is_gpu(result: dra.DeviceResult, device_class: str) -> bool:
    return is_gpu_name(device_class) or is_gpu_name(result.driver)


def device_of(described: Mapping[str, Any]) -> tuple[str, str, str]:
    """Driver, pool and name of the device that a part of a claim's status (JSON) is about."""
    driver, pool, device = (str(described.get(field, "")) for field in ("driver", "pool", "device"))
    return driver, pool, device


def may_take_gpus(claim: dra.ResourceClaim) -> bool:
    """Whether a request of a claim is for GPUs, be it as one of several alternatives."""
    return any(
        is_gpu_name(spec.device_class_name)
        for request in claim.spec.devices.requests
        for spec in ([request.exactly] if request.exactly is not None else request.first_available)
    )


def released(claim: Mapping[str, Any], pods: Collection[str]) -> dict[str, Any] | None:
    """The status of a claim (JSON) without these users (uids); None if none of them is one.

    Without its last user it is not allocated any more.
    """
    status = dict(claim.get("status") or {})
    users = list(status.get("reservedFor") or ())
    left = [user for user in users if user.get("uid") not in pods]
    if len(left) == len(users):
        return None
    status["reservedFor"] = left
    if not left:
        status.pop("allocation", None)
        status.pop("reservedFor")
    return status
