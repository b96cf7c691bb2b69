"""The podgroup-controller: tells what becomes of pod groups."""

from __future__ import annotations

from kai.operands.certificates import POD_GROUP_SECRET, grpc_secret
from kai.operands.component import (
    GRPC_CERTIFICATES,
    SERVING_CERTIFICATES,
    Component,
    account,
    objects_of,
    service,
    tls_flags,
)
from kai.operands.manifests import Installation, Manifest, yes
from kai.operands.webhooks import pod_group_webhooks

NAME = "podgroup-controller"
_METRICS, _HEALTH = 8080, 8081


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none if it is switched off."""
    config = installation.config
    spec = config.pod_group_controller
    if not spec.service.enabled:
        return []
    webhook = spec.controller_service.webhook
    secrets = {SERVING_CERTIFICATES: POD_GROUP_SECRET}
    if config.everywhere.tls.enabled:
        secrets[GRPC_CERTIFICATES] = grpc_secret(NAME)
    component = Component(
        name=NAME,
        module="kai_podgroup_controller",
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=(*_flags(installation), *tls_flags(installation)),
        ports={webhook.name: webhook.target_port, "health": _HEALTH, "http-metrics": _METRICS},
        probe="health",
        secrets=secrets,
    )
    reached = {webhook.name: (webhook.port, webhook.name), "http-metrics": (_METRICS, "http-metrics")}
    return [
        account(NAME, installation),
        *objects_of(component, installation),
        service(NAME, installation, reached),
        *pod_group_webhooks(installation),
    ]


def _flags(installation: Installation) -> tuple[str, ...]:
    config = installation.config
    spec = config.pod_group_controller
    most = spec.max_concurrent_reconciles
    return (
        f"--health-probe-bind-address=:{_HEALTH}",
        f"--metrics-bind-address=:{_METRICS}",
        f"--enable-podgroup-webhook={yes(spec.webhooks.enable_validation)}",
        f"--webhook-listen=:{spec.controller_service.webhook.target_port}",
        f"--nodepool-label-key={config.everywhere.node_pool_label_key}",
        *([] if most is None else [f"--max-concurrent-reconciles={most}"]),
        *_last_start(installation),
    )


def _last_start(installation: Installation) -> tuple[str, ...]:
    """When jobs started is written down if a shard protects them: it sees itself only what queues say."""
    needed = any(shard.has_min_runtime for shard in installation.shards)
    return ("--persist-last-start=true",) if needed else ()
