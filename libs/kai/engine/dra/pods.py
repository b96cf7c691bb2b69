"""What a pod asks for by claims and by extended resources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kai.model.objects import Pod
from kai.model.rules.device_claims import claim_entries

#: How the key of a synthetic claim ends.
SYNTHETIC: Final = "/<extended-resources>"


@dataclass(frozen=True, slots=True, kw_only=True)
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
    #: GPUs that claims ask for.
    gpus: int = 0

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
    found: dict[str, PodClaim] = {}
    for each in claim_entries(pod):
        if each.awaited:
            return tuple(found.values()), f"claim {each.called!r} has not been made from its template yet"
        if each.name is not None:
            key = f"{namespace}/{each.name}"
            found.setdefault(key, PodClaim(name=each.called, key=key, from_template=each.from_template))
    extended = (pod.status.extended_resource_claim_status or {}).get("resourceClaimName")
    if extended:
        key = f"{namespace}/{extended}"
        found.setdefault(key, PodClaim(name="", key=key, from_template=True))
    return tuple(found.values()), None
