"""The queue-controller: tells what queues use and may use."""

from __future__ import annotations

from typing import Final

from kai.config import UsageClient
from kai.config.usage_params import longest_window
from kai.model import duration
from kai.operands.certificates import QUEUE_SECRET, grpc_secret
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
from kai.operands.webhooks import queue_webhooks

NAME = "queue-controller"
#: What it keeps unless told otherwise.
_USUAL_RETENTION_SECONDS: Final = 8 * 86400.0
_SPARE_SECONDS: Final = 86400.0
_HEALTH = 8081


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none if it is switched off."""
    config = installation.config
    spec = config.queue_controller
    if not spec.service.enabled:
        return []
    webhook, metrics = spec.controller_service.webhook, spec.controller_service.metrics
    secrets = {SERVING_CERTIFICATES: QUEUE_SECRET}
    if config.everywhere.tls.enabled:
        secrets[GRPC_CERTIFICATES] = grpc_secret(NAME)
    component = Component(
        name=NAME,
        module="kai_queue_controller",
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=(*_flags(installation), *tls_flags(installation)),
        ports={webhook.name: webhook.target_port, "health": _HEALTH, metrics.name: metrics.target_port},
        probe="health",
        secrets=secrets,
        redis=True,
    )
    reached = {port.name: (port.port, port.name) for port in (webhook, metrics)}
    return [
        account(NAME, installation),
        *objects_of(component, installation),
        service(NAME, installation, reached),
        *queue_webhooks(installation),
    ]


def _flags(installation: Installation) -> tuple[str, ...]:
    config = installation.config
    spec, ports = config.queue_controller, config.queue_controller.controller_service
    labels = {
        "queue-label-to-metric-label": spec.queue_label_to_metric_label,
        "queue-label-to-default-metric-value": spec.queue_label_to_default_metric_value,
    }
    return (
        f"--health-probe-bind-address=:{_HEALTH}",
        f"--metrics-listen-address=:{ports.metrics.target_port}",
        f"--metrics-namespace={spec.metrics_namespace}",
        f"--enable-webhook={yes(spec.webhooks.enable_validation)}",
        f"--webhook-listen=:{ports.webhook.target_port}",
        f"--refuse-queue-deletion={yes(spec.webhooks.refuse_deletion)}",
        f"--nodepool-label-key={config.everywhere.node_pool_label_key}",
        *(f"--{flag}={said}" for flag, said in labels.items() if said),
        *_retention(installation),
    )


def _retention(installation: Installation) -> tuple[str, ...]:
    """Use is recorded for as long as the longest window of a shard looks back, and is usual otherwise."""
    databases = [each for shard in installation.shards if (each := shard.usage_database) is not None]
    windows = [longest_window(each.params) for each in databases if each.client is UsageClient.REDIS]
    needed = max(windows, default=0.0) + _SPARE_SECONDS
    return (f"--usage-retention={duration.render(needed)}",) if needed > _USUAL_RETENTION_SECONDS else ()
