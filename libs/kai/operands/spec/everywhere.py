"""``spec.global``: what holds for all components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kai.model import names
from kai.operands.spec.fields import Fields, part, refused, value
from kai.operands.spec.kinds import (
    LABEL_KEY,
    LABELS,
    NAMES,
    OPTIONAL_LABEL_KEY,
    OPTIONAL_NAME,
    REPLICAS,
    SHORT_NAME,
    SWITCH,
    one_of,
)
from kai.operands.spec.pods import AutoscalingSpec
from kai.operands.spec.problems import Place
from kai.operands.spec.shapes import AFFINITY, CONTAINER_SECURITY, POD_SECURITY, TOLERATIONS


class GpuSharingMode(StrEnum):
    """Presets of who may share GPUs, by the names of the original."""

    DISABLED = "Disabled"
    NON_MEMORY_ENFORCED = "NonMemoryEnforced"
    HAMI_CORE = "HamiCore"
    NV_FRACTIONS = "NvFractions"


_NO_FRACTIONS_OF_NVIDIA: Final = (
    "NvFractions needs an operator of NVIDIA's that is not part of this product; "
    "choose NonMemoryEnforced, HamiCore or Disabled"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec(Fields):
    """Connections between our processes."""

    enabled: bool = value(
        SWITCH, True, meaning="Whether they are encrypted, and both sides show certificates."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalSpec(Fields):
    """Settings of all components."""

    openshift: bool = value(SWITCH, False, meaning="Whether the cluster gives out user ids by itself.")
    security_context: Mapping[str, Any] = value(
        CONTAINER_SECURITY, {}, meaning="Of all containers, over what they have without it."
    )
    pod_security_context: Mapping[str, Any] = value(
        POD_SECURITY, {}, meaning="Of all pods, over what they have without it."
    )
    affinity: Mapping[str, Any] = value(
        AFFINITY, {}, meaning="Where pods go; sections of a component's own win."
    )
    require_default_pod_anti_affinity_term: bool = value(
        SWITCH,
        False,
        meaning="Replicas must run on different nodes, instead of only preferring to; an update then ends "
        "each before another takes its place.",
    )
    node_selector: Mapping[str, str] = value(LABELS, {}, meaning="Labels of the nodes that pods may use.")
    tolerations: tuple[Any, ...] = value(TOLERATIONS, (), meaning="Taints that pods tolerate.")
    daemonsets_tolerations: tuple[Any, ...] = value(
        TOLERATIONS, (), meaning="Taints that pods of DaemonSets tolerate, beside their own."
    )
    priority_class_name: str = value(OPTIONAL_NAME, "", meaning="Priority class of all pods.")
    images_pull_secret: str = value(OPTIONAL_NAME, "", meaning="Deprecated; see additionalImagePullSecrets.")
    additional_image_pull_secrets: tuple[str, ...] = value(
        NAMES, (), meaning="Names of the secrets by which images are pulled."
    )
    replica_count: int = value(
        REPLICAS, 1, meaning="Replicas of every component that does not say otherwise."
    )
    queue_label_key: str = value(LABEL_KEY, names.QUEUE_LABEL, meaning="Label that names the queue.")
    scheduler_name: str = value(
        SHORT_NAME, names.SCHEDULER_NAME, meaning="spec.schedulerName of the pods that are ours."
    )
    node_pool_label_key: str = value(
        OPTIONAL_LABEL_KEY,
        names.NODE_POOL_LABEL,
        meaning="Label that names the node pool of an object; empty: every scheduler serves all.",
    )
    namespace_label_selector: Mapping[str, str] = value(
        LABELS, {}, meaning="Only pods in namespaces with these labels are admitted and grouped."
    )
    pod_label_selector: Mapping[str, str] = value(
        LABELS, {}, meaning="Only pods with these labels are admitted and grouped."
    )
    json_log: bool = value(SWITCH, False, meaning="Structured logs for machines.")
    gpu_sharing_mode: str | None = value(
        one_of(GpuSharingMode), meaning="Preset of admission.gpuSharing and of the binder's plugin hamicore."
    )
    vpa: AutoscalingSpec = part(
        AutoscalingSpec, meaning="Autoscaling of every component that does not say otherwise."
    )
    tls: TlsSpec = part(TlsSpec, meaning="Connections between our processes.")
    fips_only: None = refused(
        "it is about Go; use images whose OpenSSL is in FIPS mode",
        openapi={"type": "boolean"},
        spelling="fipsOnly",
    )

    def check(self, at: Place) -> None:
        """A preset must be one that is here."""
        if self.gpu_sharing_mode == GpuSharingMode.NV_FRACTIONS:
            at.below("gpuSharingMode").complain(f"cannot be had: {_NO_FRACTIONS_OF_NVIDIA}")

    @property
    def pull_secrets(self) -> tuple[str, ...]:
        """Names of all secrets by which images are pulled, each once."""
        older = (self.images_pull_secret,) if self.images_pull_secret else ()
        return tuple(dict.fromkeys((*self.additional_image_pull_secrets, *older)))
