"""Who waits for a part of a GPU, and the pods that stand for them before a cluster autoscaler."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec

from kai.model import names
from kai.model.faults import OutOfBounds
from kai.model.objects import ApiObject, ApiStruct, Condition, Container, Pod
from kai.model.resource_lists import parsed
from kai.model.rules.gpu_shares import Share, asked_share
from kai.model.rules.phases import has_ended
from kai.snapshot.times import seconds

_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_DIGEST: Final = 16


class Wish(Enum):
    """What a pod without a node says of itself."""

    #: No node can take it.
    NODE = auto()
    #: Nothing, so that what it said before counts.
    SILENT = auto()
    #: It needs no node, at least not now.
    NONE = auto()


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node that asks for a part of GPUs."""

    pod: Pod
    share: Share

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.pod.key

    @property
    def uid(self) -> str:
        """Tells it from others of the same name."""
        return self.pod.metadata.uid

    @property
    def wish(self) -> Wish:
        """Whether a node is to be added for it."""
        scheduled = _condition(self.pod.status.conditions)
        if scheduled is None:
            return Wish.SILENT
        return Wish.NODE if _fits_nowhere(scheduled) else Wish.NONE

    @property
    def places(self) -> bytes:
        """The same for all pods that the same nodes suit, as far as their owners said so."""
        spec = self.pod.spec
        return msgspec.json.encode(
            (spec.node_selector or {}, spec.affinity or {}, spec.tolerations or []), order="deterministic"
        )


def waiting_pod(pod: Pod) -> WaitingPod | None:
    """The pod, if it waits for a part of GPUs; one whose request cannot be read does not (it is told so)."""
    if pod.spec.node_name or has_ended(pod.status.phase) or pod.metadata.deletion_timestamp:
        return None
    try:
        share = asked_share(pod.annotations)
    except OutOfBounds:
        return None
    return WaitingPod(pod, share) if share is not None else None


class _ScalingSpec(ApiStruct):
    node_name: str = ""
    containers: list[Container] = msgspec.field(default_factory=list)


class _ScalingStatus(ApiStruct):
    phase: str = ""
    conditions: list[Condition] | None = None


class ScalingPod(ApiObject):
    """A pod of ours that a cluster autoscaler sees, as the API server tells it."""

    spec: _ScalingSpec = msgspec.field(default_factory=_ScalingSpec)
    status: _ScalingStatus = msgspec.field(default_factory=_ScalingStatus)

    @property
    def stands_for(self) -> str:
        """``namespace/name`` of the pod that waits; empty if it does not say."""
        _, _, key = self.annotations.get(names.SCALING_FOR, "").partition(" ")
        if key:
            return key
        name = self.labels.get(names.SHARED_GPU_POD_NAME, "")
        return f"{self.labels.get(names.SHARED_GPU_POD_NAMESPACE, '')}/{name}" if name else ""

    @property
    def stands_for_uid(self) -> str:
        """The uid of that pod; empty if only names were written down, as another version of KAI does."""
        return self.annotations.get(names.SCALING_FOR, "").partition(" ")[0]

    @property
    def devices(self) -> int:
        """How many GPUs it asks for."""
        resources = self.spec.containers[0].resources if self.spec.containers else None
        asked = (resources.requests or {}) if resources is not None else {}
        return int(parsed(asked.get(names.NVIDIA_GPU, "")))

    @property
    def ended(self) -> bool:
        """Whether it has done what it was there for, or never will."""
        return has_ended(self.status.phase)

    @property
    def going(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.metadata.deletion_timestamp)

    @property
    def placed(self) -> bool:
        """Whether it has a node."""
        return bool(self.spec.node_name)

    @property
    def marked(self) -> bool:
        """Whether it says that no node can take it, which is what a cluster autoscaler goes by."""
        scheduled = _condition(self.status.conditions)
        return scheduled is not None and _fits_nowhere(scheduled)

    @property
    def since(self) -> float:
        """Unix seconds since which it is placed, or else waits; the time of its creation if nothing says."""
        scheduled = _condition(self.status.conditions)
        said = scheduled is not None and (scheduled.status == "True") == self.placed
        changed = seconds(scheduled.last_transition_time) if scheduled is not None and said else 0.0
        return changed or seconds(self.metadata.creation_timestamp)


def _condition(conditions: list[Condition] | None) -> Condition | None:
    return next((each for each in conditions or () if each.type == "PodScheduled"), None)


def _fits_nowhere(scheduled: Condition) -> bool:
    return scheduled.status == "False" and scheduled.reason == "Unschedulable"


# --- names -------------------------------------------------------------------------------------
def scaling_pod_name(key: str, *, plain: bool = True) -> str:
    """Name of the scaling pod for ``namespace/name``: both, joined; with ``plain=False`` never ambiguous.

    A name that would be too long ends in a digest of the key instead.
    """
    name = key.replace("/", "-")
    return name if plain and len(name) <= _LONGEST_NAME else _with_digest(name, key, _LONGEST_NAME)


def label_value(text: str) -> str:
    """A name as the value of a label; one that is too long ends in a digest of itself."""
    return text if len(text) <= _LONGEST_LABEL else _with_digest(text, text, _LONGEST_LABEL)


def _with_digest(name: str, digested: str, longest: int) -> str:
    digest = hashlib.sha256(digested.encode()).hexdigest()[:_DIGEST]
    return f"{name[: longest - _DIGEST - 1].rstrip('-.')}-{digest}"
