"""Which resource claims a pod has, and how many GPUs a claim asks for: the original's rule.

A class or a driver is of GPUs if its name says so. Counted are exact requests: which of several alternatives
a claim will get is not known before.
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


def gpus_of_request(device_class: str, mode: str, count: int) -> int:
    """GPUs of one exact request; of all that there are, which is not known before, one is counted."""
    if not is_gpu_name(device_class):
        return 0
    return 1 if mode == "All" else max(count, 1)


def claimed_gpus(claim: dra.ResourceClaim) -> tuple[str, int] | None:
    """The device class that a claim's GPUs are counted under (the first one of them), and their number.

    None without GPUs, and for a claim that was made for an extended resource: the pod's requests have it.
    """
    if claim.annotations.get(dra.EXTENDED_CLAIM_ANNOTATION) == "true":
        return None
    device_class, count = "", 0
    for request in claim.spec.devices.requests:
        exact = request.exactly
        if exact is None:
            continue
        gpus = gpus_of_request(exact.device_class_name, exact.allocation_mode, exact.count)
        if gpus:
            device_class = device_class or exact.device_class_name
            count += gpus
    return (device_class, min(count, INT64_MAX)) if device_class else None


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
