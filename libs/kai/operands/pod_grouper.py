"""The pod-grouper: makes pod groups of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kai.operands.certificates import grpc_secret
from kai.operands.component import GRPC_CERTIFICATES, Component, account, objects_of, service, tls_flags
from kai.operands.manifests import Installation, Manifest, yes
from kai.operands.spec.components import POD_GROUPER_GRPC_PORT
from kai.operands.spec.config import ConfigSpec

NAME: Final = "pod-grouper"
GRPC: Final = POD_GROUPER_GRPC_PORT
METRICS: Final = 8080
_HEALTH: Final = 8081


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none if it is switched off."""
    config = installation.config
    spec = config.pod_grouper
    if not spec.service.enabled:
        return []
    component = Component(
        name=NAME,
        module="kai_pod_grouper",
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=(*_flags(config), *tls_flags(installation)),
        ports={"grpc": GRPC, "health": _HEALTH, "http-metrics": METRICS},
        probe="health",
        secrets={GRPC_CERTIFICATES: grpc_secret(NAME)} if config.everywhere.tls.enabled else {},
        client=spec.k8s_client_config if spec.k8s_client_config.qps else None,
    )
    return [
        account(NAME, installation),
        *objects_of(component, installation),
        service(NAME, installation, {"http-metrics": (METRICS, "http-metrics")}),
    ]


def _flags(config: ConfigSpec) -> tuple[str, ...]:
    spec, everywhere = config.pod_grouper, config.everywhere
    return (
        f"--health-probe-bind-address=:{_HEALTH}",
        f"--metrics-bind-address=:{METRICS}",
        f"--grpc-listen=:{GRPC}",
        f"--queue-label-key={everywhere.queue_label_key}",
        f"--nodepool-label-key={everywhere.node_pool_label_key}",
        f"--generic-karta-fallback={yes(spec.args.generic_karta_fallback)}",
        f"--knative-gang-schedule={yes(spec.args.gang_schedule_knative)}",
        *_defaults(config),
        *_labels("pod-label-selector", everywhere.pod_label_selector),
        *_labels("namespace-label-selector", everywhere.namespace_label_selector),
    )


def _defaults(config: ConfigSpec) -> list[str]:
    spec = config.pod_grouper
    most = spec.max_concurrent_reconciles
    found = [] if most is None else [f"--max-concurrent-reconciles={most}"]
    if spec.args.default_priorities_config_map_name:
        found += [
            f"--default-priorities-configmap-name={spec.args.default_priorities_config_map_name}",
            f"--default-priorities-configmap-namespace={spec.args.default_priorities_config_map_namespace}",
        ]
    return found


def _labels(flag: str, wanted: Mapping[str, str]) -> list[str]:
    terms = ",".join(f"{key}={text}" for key, text in sorted(wanted.items()))
    return [f"--{flag}={terms}"] if terms else []
