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
    """A claim as the pod names it, and the object behind it."""

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
    #: Key of the claim that was made for those; empty where none is known.
    made: str = ""
    #: GPUs that claims ask for.
    gpus: int = 0

    def __bool__(self) -> bool:
        return bool(self.claims or self.resources or self.unresolved or self.made)

    @property
    def pod_uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def extended_key(self) -> str:
        """The key of the claim for extended resources; of one that is not made yet no object's name."""
        return self.made or self.pod.key + SYNTHETIC


def claims_of(pod: Pod) -> tuple[tuple[PodClaim, ...], str | None]:
    """The claim objects that a pod's spec names, each once, and what could not be resolved.

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
    return tuple(found.values()), None


def made_for_extended(pod: Pod) -> str:
    """Key of the claim that the pod's status names for its extended resources; empty if it names none."""
    name = (pod.status.extended_resource_claim_status or {}).get("resourceClaimName")
    return f"{pod.metadata.namespace}/{name}" if name else ""
