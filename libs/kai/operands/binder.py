"""The binder: carries out what schedulers decide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kai.operands import security
from kai.operands.certificates import grpc_secret
from kai.operands.component import GRPC_CERTIFICATES, Component, account, objects_of, service, tls_flags
from kai.operands.manifests import Installation, Manifest
from kai.operands.spec.components import BinderSpec
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.plugins_of_binder import ELSEWHERE

NAME = "binder"
_SECONDS = "bindTimeoutSeconds"
_CDI = "cdiEnabled"
_BUILT_IN_SECONDS = 120


def operands(installation: Installation) -> list[Manifest]:
    """Its objects, and the account of reservation pods; none if it is switched off."""
    config = installation.config
    spec = config.binder
    if not spec.service.enabled:
        return []
    component = Component(
        name=NAME,
        module="kai_binder",
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=(*_flags(installation), *tls_flags(installation)),
        ports={"health": spec.probe_port, "http-metrics": spec.metrics_port},
        probe="health",
        secrets={GRPC_CERTIFICATES: grpc_secret(NAME)} if config.everywhere.tls.enabled else {},
    )
    return [
        account(NAME, installation),
        *_account_of_reservations(installation),
        *objects_of(component, installation),
        service(NAME, installation, {"http-metrics": (8080, "http-metrics")}),
    ]


def _account_of_reservations(installation: Installation) -> list[Manifest]:
    reservation = installation.config.binder.resource_reservation
    if not reservation.create_service_account:
        return []
    name, namespace = reservation.service_account_name, reservation.namespace
    return [account(name, installation, namespace=namespace, app=NAME)]


def _flags(installation: Installation) -> tuple[str, ...]:
    config = installation.config
    spec, reservation = config.binder, config.binder.resource_reservation
    return (
        f"--health-probe-bind-address=:{spec.probe_port}",
        f"--metrics-bind-address=:{spec.metrics_port}",
        f"--nodepool-label-key={config.everywhere.node_pool_label_key}",
        f"--resource-reservation-namespace={reservation.namespace}",
        f"--resource-reservation-service-account={reservation.service_account_name}",
        f"--resource-reservation-app-label={reservation.app_label}",
        f"--resource-reservation-pod-image={installation.image(reservation.image)}",
        f"--resource-reservation-pod-image-pull-policy={reservation.image.pull_policy}",
        f"--resource-reservation-allocation-timeout={reservation.allocation_timeout}",
        f"--runtime-class-name={reservation.runtime_class_name}",
        *_as_json("resource-reservation-pod-resources", reservation.pod_resources.manifest()),
        *_as_json("resource-reservation-pod-security-context", reservation.reservation_pod_security_context),
        *_as_json("resource-reservation-container-security-context", _container_security(installation)),
        *_as_json("plugins", plugins(config, cdi=installation.facts.cdi)),
        *_concurrency(spec),
        *(["--fake-gpu-nodes=true"] if installation.facts.fake_gpus else []),
    )


def _as_json(flag: str, said: Mapping[str, Any] | None) -> list[str]:
    if not said:
        return []
    return [f"--{flag}={json.dumps(said, sort_keys=True, separators=(',', ':'))}"]


def _concurrency(spec: BinderSpec) -> list[str]:
    most = spec.max_concurrent_reconciles
    return [] if most is None else [f"--max-concurrent-reconciles={most}"]


def _container_security(installation: Installation) -> Mapping[str, Any] | None:
    """That of reservation pods: their own, else what is said of all containers, else the binder's default."""
    own = installation.config.binder.resource_reservation.reservation_container_security_context
    if own is not None or not installation.config.everywhere.security_context:
        return own
    return security.of_container(installation)


# --- plugins -----------------------------------------------------------------------------------
def plugins(config: ConfigSpec, *, cdi: bool) -> dict[str, Any]:
    """What differs from the binder's own table of plugins.

    Of CDI an argument of the plugin says most, then the Config, then what the cluster says (``cdi``).
    """
    spec = config.binder
    changes = {name: each.manifest() for name, each in spec.plugins.items() if name not in ELSEWHERE}
    if spec.volume_binding_timeout_seconds != _BUILT_IN_SECONDS:
        for name in ("volumebinding", "dynamicresources"):
            _seed(changes, name, _SECONDS, str(spec.volume_binding_timeout_seconds))
    if cdi if spec.cdi_enabled is None else spec.cdi_enabled:
        _seed(changes, "gpusharing", _CDI, "true")
    if config.hami_core:
        changes.setdefault("hamicore", {}).setdefault("enabled", True)
    return changes


def _seed(changes: dict[str, Any], plugin: str, argument: str, text: str) -> None:
    """Give an argument where nobody gave it."""
    change = changes.setdefault(plugin, {})
    change["arguments"] = {argument: text, **change.get("arguments", {})}
