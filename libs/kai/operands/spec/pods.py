"""What all components have in common: image, resources, autoscaling, disruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kai.model import quantity
from kai.operands.spec.fields import Fields, MapOf, Part, part, refused, value
from kai.operands.spec.kinds import AMOUNTS, FLAG, POSITIVE, REPLICAS, SWITCH, integer, one_of, text
from kai.operands.spec.problems import Place
from kai.operands.spec.shapes import AFFINITY, RESOURCE_POLICY, UPDATE_POLICY

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
#: All components are one image.
IMAGE_NAME: Final = "kai-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec(Fields):
    """Where an image is: ``<repository>/<name>:<tag>``. What is empty is as with the operator's own image."""

    repository: str = value(text(), "", meaning="Registry and path; that of the operator if not set.")
    name: str = value(text(), IMAGE_NAME, meaning="Name of the image; all components are one.")
    tag: str = value(text(), "", meaning="Tag; that of the operator if not set.")
    pull_policy: str = value(
        one_of(PULL_POLICIES),
        "IfNotPresent",
        meaning="When the image is pulled: Always, IfNotPresent or Never.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesSpec(Fields):
    """Requests and limits by resource. One that is not named is as without; an empty mapping means none."""

    requests: Mapping[str, str] = value(AMOUNTS, {}, meaning="What the component is sure to have.")
    limits: Mapping[str, str] = value(AMOUNTS, {}, meaning="What the component never gets more than.")
    claims: None = refused(
        "pods of the components have no resource claims; remove it",
        openapi={"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    )

    def manifest(self) -> dict[str, Any]:
        """``resources`` of a container; empty if there are none."""
        parts = {"requests": dict(self.requests), "limits": dict(self.limits)}
        return {name: amounts for name, amounts in parts.items() if amounts}


class _Resources(Part[ResourcesSpec]):
    """Requests and limits. Of the two a default gives way to what is said, so that none asks for too much."""

    def read(self, given: Any, *, base: ResourcesSpec | None, at: Place) -> ResourcesSpec:
        """What is given, over what holds without it."""
        found = Part.read(self, given, base=base, at=at)
        requests, limits = dict(found.requests), dict(found.limits)
        for name, least in found.requests.items():
            most = limits.get(name, least)
            if quantity.parse(least) <= quantity.parse(most):
                continue
            if not says(given, "limits", name):
                limits[name] = least
            elif not says(given, "requests", name):
                requests[name] = most
            else:
                at.below("requests").below(name).complain(
                    f"is {least}; it must not be above limits.{name}, {most}"
                )
        return replace(found, requests=requests, limits=limits)


def says(given: Any, *path: str) -> bool:
    """Whether a manifest has a value at this path."""
    for key in path:
        given = given.get(key) if isinstance(given, Mapping) else None
    return given is not None


def own_resources(default: ResourcesSpec | None = None, *, meaning: str) -> Any:
    """Field of what runs."""
    return value(_Resources(ResourcesSpec), default or ResourcesSpec(), meaning=meaning)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec(Fields):
    """How many requests a component may send to the API server."""

    qps: int | None = value(POSITIVE, meaning="Requests a second, over time; no bound if not set.")
    burst: int | None = value(POSITIVE, meaning="Requests at once; as qps if not set.")

    def check(self, at: Place) -> None:
        """A burst is of something."""
        if self.burst is not None and self.qps is None:
            at.below("burst").complain("has no meaning without qps; set qps as well")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionSpec(Fields):
    """How many replicas may be away for maintenance; of one replica alone there is no budget."""

    enabled: bool = value(SWITCH, True, meaning="Whether there is a budget, with more than one replica.")
    max_unavailable: int = value(integer(least=0), 1, meaning="How many replicas may be away.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSpec(Fields):
    """A VerticalPodAutoscaler of a component; the cluster must have that kind."""

    enabled: bool = value(SWITCH, False, meaning="Whether there is one.")
    update_policy: Mapping[str, Any] = value(
        UPDATE_POLICY, {"updateMode": "InPlaceOrRecreate"}, meaning="As in a VerticalPodAutoscaler."
    )
    resource_policy: Mapping[str, Any] = value(
        RESOURCE_POLICY, {}, meaning="As in a VerticalPodAutoscaler: bounds by container."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec(Fields):
    """How a component runs."""

    enabled: bool = value(SWITCH, True, meaning="Whether the component is deployed.")
    image: ImageSpec = part(ImageSpec, meaning="Its image.")
    resources: ResourcesSpec = own_resources(meaning="Its requests and limits.")
    k8s_client_config: ClientSpec = part(ClientSpec, meaning="Most requests to the API server.")
    affinity: Mapping[str, Any] = value(
        AFFINITY,
        {},
        meaning="Where its pods go; each section of it wins over the same of spec.global.affinity.",
    )
    pod_disruption_budget: DisruptionSpec = part(DisruptionSpec, meaning="How many of its pods may be away.")
    extra_args: Mapping[str, str] = value(
        MapOf(FLAG),
        {},
        meaning="More flags of its process, without dashes; they win over all other settings.",
    )


def a_service(*, requests: Mapping[str, str], limits: Mapping[str, str], enabled: bool = True) -> ServiceSpec:
    """A component with these resources unless a Config says otherwise."""
    return ServiceSpec(enabled=enabled, resources=ResourcesSpec(requests=requests, limits=limits))


def own_replicas() -> Any:
    """Field of a component."""
    return value(REPLICAS, meaning="Replicas; as spec.global.replicaCount if not set.")


def own_autoscaling() -> Any:
    """Field of a component."""
    return value(Part(AutoscalingSpec), meaning="Autoscaling; as spec.global.vpa if not set.")
