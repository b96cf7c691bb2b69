"""What a pod asks for by claims and by extended resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kai.model import dra
from kai.model.objects import Pod

#: How the key of a synthetic claim ends.
SYNTHETIC: Final = "/<extended-resources>"
#: What a class or a driver of GPUs has in its name.
_GPU = "gpu"


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim as the pod names it (empty for the synthetic one), and the object behind it."""

    name: str
    key: str
    from_template: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """The claims and DRA-backed extended resources of one pod; false if it has neither."""

    pod: Pod
    claims: tuple[PodClaim, ...]
    #: A claim of the pod that cannot be resolved to an object, in words.
    unresolved: str | None
    #: Device class by extended resource.
    resources: dict[str, str] = field(default_factory=dict)
    #: GPUs by device class, as far as claims ask for them.
    gpus: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.claims or self.resources or self.unresolved)

    @property
    def pod_uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def extended_key(self) -> str:
        """The key under which the synthetic claim is kept; no object can have this name."""
        return self.pod.key + SYNTHETIC


def claims_of(pod: Pod) -> tuple[tuple[PodClaim, ...], str | None]:
    """The claim objects of a pod, each once, and what could not be resolved.

    Claims made from templates are named by the pod's status; one for which no object is needed is left out.
    """
    namespace = pod.metadata.namespace
    generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    found: dict[str, PodClaim] = {}
    for each in pod.spec.resource_claims or ():
        name = each.resource_claim_name
        from_template = name is None
        if name is None:
            if each.name not in generated:
                return tuple(found.values()), f"claim {each.name!r} has not been made from its template yet"
            name = generated[each.name]
            if name is None:
                continue
        key = f"{namespace}/{name}"
        found.setdefault(key, PodClaim(each.name, key, from_template))
    extended = (pod.status.extended_resource_claim_status or {}).get("resourceClaimName")
    if extended:
        key = f"{namespace}/{extended}"
        found.setdefault(key, PodClaim("", key, from_template=True))
    return tuple(found.values()), None


def is_gpu_claim(claim: dra.ResourceClaim) -> bool:
    """Whether any of its requests (or their alternatives) is for a class whose name contains ``gpu``."""
    return any(
        _GPU in spec.device_class_name for request in claim.spec.devices.requests for spec in _specs(request)
    )


def gpus_of_claim(claim: dra.ResourceClaim) -> dict[str, int]:
    """GPUs by device class.

    The count of exact requests, one for all, the most that an alternative asks for.
    """
    gpus: dict[str, int] = {}
    if (claim.metadata.annotations or {}).get(dra.EXTENDED_CLAIM_ANNOTATION) == "true":
        return gpus
    for request in claim.spec.devices.requests:
        counts = [
            (1 if spec.allocation_mode == "All" else spec.count or 1, spec.device_class_name)
            for spec in _specs(request)
            if _GPU in spec.device_class_name
        ]
        if counts:
            count, class_ = max(counts, key=lambda each: each[0])
            gpus[class_] = gpus.get(class_, 0) + count
    return gpus


def _specs(request: dra.DeviceRequest) -> list[dra.DeviceSubRequest]:
    return [request.exactly] if request.exactly is not None else list(request.first_available)
