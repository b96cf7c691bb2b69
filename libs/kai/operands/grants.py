"""What the roles of an installation were made for: its chart says so, since its values decide on them.

A Config or a shard may ask for more at any time, and the operator can give nobody rights. So what nobody was
given the rights for is refused, by the field that asks for it; who asks for less is not. Flags of all
schedulers in a Config are looked at with each shard, which may take them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.operands.facts import Facts
from kai.operands.manifests import Installation
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.fields import Fields, ListOf, read_fields, value
from kai.operands.spec.flags import switched
from kai.operands.spec.kinds import OPTIONAL_NAME, SWITCH, TEXT
from kai.operands.spec.pods import ServiceSpec
from kai.operands.spec.problems import InvalidSpec, Place, Problem
from kai.operands.spec.shards import Shard

_EVICTS: Final = "eviction-api"
_CONDITIONS: Final = "update-pod-eviction-condition"
_WAITS: Final = "wait-for-config-maps"
_OF_CHART: Final = "scheduler.args"
_RESERVATION_IMAGE: Final = "resource-reservation-pod-image"
_SCALING_IMAGE: Final = "scaling-pod-image"
_NAMESPACES: Final = "namespace-label-selector"
#: The account that the role of a Prometheus of ours is for.
_PROMETHEUS: Final = "prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants(Fields):
    """What there are roles for beyond the least; the defaults are those of a chart without values."""

    admission: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    binder: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    pod_grouper: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    pod_group_controller: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    queue_controller: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    scheduler: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    node_scale_adjuster: bool = value(SWITCH, False, meaning="Whether the component has its role.")
    numa_placement_exporter: bool = value(SWITCH, True, meaning="Whether the component has its role.")
    insight: bool = value(SWITCH, False, meaning="Whether the component has its role.")
    insight_reviews: bool = value(
        SWITCH, False, meaning="Whether insight may ask who calls it over HTTP, and what he may see."
    )
    prometheus: bool = value(SWITCH, True, meaning="Whether a Prometheus of ours has its role.")
    evictions: bool = value(SWITCH, False, meaning="Whether schedulers may evict, instead of deleting.")
    eviction_conditions: bool = value(
        SWITCH, False, meaning="Whether schedulers may write conditions of pods."
    )
    config_maps: bool = value(SWITCH, True, meaning="Whether schedulers may look for ConfigMaps.")
    namespaces: bool = value(SWITCH, False, meaning="Whether the pod-grouper may look at namespaces.")
    priorities: str = value(
        TEXT, "", meaning="NAMESPACE/NAME of the ConfigMap that the pod-grouper may read."
    )
    scheduler_name: str = value(OPTIONAL_NAME, "", meaning="The one of the policies; empty without policies.")
    reservation_namespace: str = value(
        OPTIONAL_NAME, "kai-resource-reservation", meaning="Where reservation pods may be."
    )
    reservation_account: str = value(
        OPTIONAL_NAME, "kai-resource-reservation", meaning="The account of theirs that has the role."
    )
    reservation_label: str = value(
        TEXT, "", meaning="Label app of reservation pods in policies; empty without policies."
    )
    reservation_images: tuple[str, ...] = value(
        ListOf(TEXT), (), meaning="Images of reservation pods in policies; none without policies."
    )
    scaling_namespace: str = value(OPTIONAL_NAME, "kai-scale-adjust", meaning="Where scaling pods may be.")
    scaling_images: tuple[str, ...] = value(
        ListOf(TEXT), (), meaning="Images of scaling pods in policies; none without policies."
    )


def read_grants(text: str) -> Grants:
    """Grants from their JSON form; what is absent has its default.

    Raises:
        InvalidSpec: it cannot be used.
    """
    problems: list[Problem] = []
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise InvalidSpec("grants", [Problem("grants", f"are no JSON: {error}")]) from None
    found = read_fields(given, base=Grants(), at=Place("grants", problems))
    if problems:
        raise InvalidSpec("grants", problems)
    return found


# --- Config ------------------------------------------------------------------------------------
def beyond(config: ConfigSpec, grants: Grants, facts: Facts = Facts()) -> list[Problem]:  # noqa: B008 (frozen)
    """The fields of a Config that ask for more than its installation has rights for."""
    return [
        *_components(config, grants),
        *_names(config, grants),
        *_images(Installation(config=config, facts=facts), grants),
        *_grouping(config, grants),
    ]


def _components(config: ConfigSpec, grants: Grants) -> Iterator[Problem]:
    """Those that have no role, and their names in the values."""
    rows = (
        ("admission", config.admission.service.enabled, grants.admission, "admission.enabled"),
        ("binder", config.binder.service.enabled, grants.binder, "binder.enabled"),
        ("podGrouper", config.pod_grouper.service.enabled, grants.pod_grouper, "podgrouper.enabled"),
        (
            "podGroupController",
            config.pod_group_controller.service.enabled,
            grants.pod_group_controller,
            "podgroupcontroller.enabled",
        ),
        (
            "queueController",
            config.queue_controller.service.enabled,
            grants.queue_controller,
            "queuecontroller.enabled",
        ),
        ("scheduler", config.scheduler.service.enabled, grants.scheduler, "scheduler.enabled"),
        (
            "nodeScaleAdjuster",
            config.node_scale_adjuster.service.enabled,
            grants.node_scale_adjuster,
            "global.clusterAutoscaling",
        ),
        (
            "numaPlacementExporter",
            config.numa_placement_exporter.service.enabled is not False,  # where a shard looks at zones
            grants.numa_placement_exporter,
            "numaPlacementExporter.enabled",
        ),
        ("insight", config.insight.service.enabled, grants.insight, "insight.enabled"),
    )
    for spelling, wanted, granted, said_by in rows:
        if wanted and not granted:
            yield Problem(
                f"spec.{spelling}.service.enabled",
                f"asks for a component that was given no rights: set {said_by} of the chart",
            )
    insight = config.insight
    if insight.service.enabled and grants.insight and insight.http_port and not grants.insight_reviews:
        yield Problem(
            "spec.insight.httpPort",
            "asks for questions over HTTP, and insight may not ask the API server who asks them: set "
            "insight.ports.httpPort of the chart",
        )
    if config.prometheus.ours and not grants.prometheus:
        yield Problem(
            "spec.prometheus.enabled",
            "asks for a Prometheus that was given no rights: set prometheus.enabled of the chart, and no "
            "prometheus.externalPrometheusUrl",
        )


def _names(config: ConfigSpec, grants: Grants) -> Iterator[Problem]:
    """Names by which rights were given."""
    usual, reservation = ConfigSpec(), config.binder.resource_reservation
    checks, usual_checks = (
        (each.queue_controller.webhooks, each.pod_group_controller.webhooks) for each in (config, usual)
    )
    webhooks = "the operator may keep webhooks of this name alone"
    rows = [
        (
            f"admission.{kind}WebhookConfigurationName",
            getattr(config.admission, f"{kind}_webhook_configuration_name"),
            getattr(usual.admission, f"{kind}_webhook_configuration_name"),
            webhooks,
        )
        for kind in ("mutating", "validating")
    ]
    rows += [
        (
            f"{component}.webhooks.webhookConfigurationNamePrefix",
            given.webhook_configuration_name_prefix,
            known.webhook_configuration_name_prefix,
            webhooks,
        )
        for component, given, known in zip(
            ("queueController", "podGroupController"), checks, usual_checks, strict=True
        )
    ]
    rows += [
        (
            "binder.resourceReservation.namespace",
            reservation.namespace,
            grants.reservation_namespace,
            "rights were given there; set global.resourceReservation.namespace of the chart",
        ),
        (
            "binder.resourceReservation.serviceAccountName",
            reservation.service_account_name,
            grants.reservation_account,
            "it has the rights; set global.resourceReservation.serviceAccount of the chart",
        ),
    ]
    adjuster = config.node_scale_adjuster
    if adjuster.service.enabled:
        rows += [
            (
                "nodeScaleAdjuster.args.nodeScaleNamespace",
                adjuster.args.node_scale_namespace,
                grants.scaling_namespace,
                "rights were given there; set nodescaleadjuster.scalingPodNamespace of the chart",
            ),
        ]
    if grants.reservation_label:
        why = "policies know this label; set global.resourceReservation.appLabel of the chart"
        field = "binder.resourceReservation.appLabel"
        rows.append((field, reservation.app_label, grants.reservation_label, why))
    if config.prometheus.ours:
        rows.append(
            ("prometheus.instanceName", config.prometheus.instance_name, _PROMETHEUS, "it has the rights")
        )
    if grants.scheduler_name:
        rows.append(
            (
                "global.schedulerName",
                config.everywhere.scheduler_name,
                grants.scheduler_name,
                "policies know this name; set global.schedulerName of the chart",
            )
        )
    for field, given, granted, why in rows:
        if given != granted:
            yield Problem(f"spec.{field}", f"is {given}; it must be {granted}: {why}")


def _images(installation: Installation, grants: Grants) -> Iterator[Problem]:
    """What pods run that are made for others. Tags are not looked at: they change with each release."""
    binder, adjuster = installation.config.binder, installation.config.node_scale_adjuster
    image = installation.image(binder.resource_reservation.image)
    said = _said("binder", binder.service, _RESERVATION_IMAGE, "resourceReservation.image", image)
    rows = [(*said, grants.reservation_images, "binder.resourceReservationImage")]
    if adjuster.service.enabled:
        image = installation.image(adjuster.args.scaling_pod_image)
        said = _said("nodeScaleAdjuster", adjuster.service, _SCALING_IMAGE, "args.scalingPodImage", image)
        rows.append((*said, grants.scaling_images, "nodescaleadjuster.scalingPodImage"))
    for field, image, granted, said_by in rows:
        if granted and _untagged(image) not in map(_untagged, granted):
            yield Problem(
                f"spec.{field}",
                f"is {image}; policies know {', '.join(granted)}: set {said_by} of the chart, or name it in "
                "admissionPolicies.reservationImages",
            )


def _said(component: str, service: ServiceSpec, flag: str, field: str, value: str) -> tuple[str, str]:
    """Where it is said, and what: a flag of the user's own wins over the field."""
    if given := service.extra_args.get(flag):
        return f"{component}.service.extraArgs.{flag}", given
    return f"{component}.{field}", value


def _untagged(image: str) -> str:
    """Where an image is, of whichever version."""
    folder, slash, name = image.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def _grouping(config: ConfigSpec, grants: Grants) -> Iterator[Problem]:
    """What the pod-grouper looks at."""
    args, extra = config.pod_grouper.args, config.pod_grouper.service.extra_args
    chosen = (
        "spec.global.namespaceLabelSelector"
        if config.everywhere.namespace_label_selector
        else f"spec.podGrouper.service.extraArgs.{_NAMESPACES}"
    )
    if (config.everywhere.namespace_label_selector or extra.get(_NAMESPACES)) and not grants.namespaces:
        yield Problem(
            chosen,
            "is set, and the pod-grouper may not look at namespaces: set global.namespaceLabelSelector "
            "of the chart",
        )
    named = f"{args.default_priorities_config_map_namespace}/{args.default_priorities_config_map_name}"
    if args.default_priorities_config_map_name and named != grants.priorities:
        yield Problem(
            "spec.podGrouper.args.defaultPrioritiesConfigMapName",
            f"means {named}, which the pod-grouper may not read: set defaultPrioritiesConfigMapName and "
            "defaultPrioritiesConfigMapNamespace in podgrouper of the chart",
        )


# --- shards ------------------------------------------------------------------------------------
def beyond_shard(shard: Shard, config: ConfigSpec, grants: Grants) -> list[Problem]:
    """The fields of a shard that ask for more than its installation has rights for."""
    return list(_scheduling({**config.scheduler.service.extra_args, **shard.spec.args}, grants))


def _scheduling(flags: Mapping[str, str], grants: Grants) -> Iterator[Problem]:
    """What schedulers may do to pods."""
    evicts = bool(switched(flags, _EVICTS))
    if evicts != grants.evictions:
        may, instead = ("evict pods", "delete them") if grants.evictions else ("delete pods", "evict them")
        yield Problem(
            f"spec.args.{_EVICTS}",
            f"is {str(evicts).lower()}, and schedulers were given the right to {may}, not to {instead}: set "
            f"{_OF_CHART}.{_EVICTS} of the chart",
        )
    if switched(flags, _CONDITIONS) and not grants.eviction_conditions:
        yield Problem(
            f"spec.args.{_CONDITIONS}",
            f"is true, and schedulers may not write the status of pods: set {_OF_CHART}.{_CONDITIONS} of the "
            "chart",
        )
    if switched(flags, _WAITS) is not False and not grants.config_maps:
        yield Problem(
            f"spec.args.{_WAITS}",
            f"is true, and schedulers may not look for ConfigMaps: leave {_OF_CHART}.{_WAITS} of the chart "
            "as it is",
        )
