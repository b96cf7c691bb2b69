"""Admission: completes and checks pods, and warns of slips."""

from __future__ import annotations

from kai.operands.certificates import ADMISSION_SECRET
from kai.operands.component import SERVING_CERTIFICATES, Component, account, objects_of, service
from kai.operands.manifests import Installation, Manifest, yes
from kai.operands.webhooks import admission_webhooks

NAME = "admission"


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none if it is switched off."""
    config = installation.config
    spec, ports = config.admission, config.admission.webhook
    if not spec.service.enabled:
        return []
    component = Component(
        name=NAME,
        module="kai_admission",
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=_flags(installation),
        ports={"webhook": ports.target_port, "health": ports.probe_port, "http-metrics": ports.metrics_port},
        probe="health",
        secrets={SERVING_CERTIFICATES: ADMISSION_SECRET},
    )
    reached = {"webhook": (ports.port, "webhook"), "http-metrics": (8080, "http-metrics")}
    return [
        account(NAME, installation),
        *objects_of(component, installation),
        service(spec.service_name, installation, reached, app=NAME),
        *admission_webhooks(installation),
    ]


def _flags(installation: Installation) -> tuple[str, ...]:
    config = installation.config
    spec, everywhere = config.admission, config.everywhere
    return (
        f"--webhook-addr=:{spec.webhook.target_port}",
        f"--health-probe-bind-address=:{spec.webhook.probe_port}",
        f"--metrics-bind-address=:{spec.webhook.metrics_port}",
        f"--gpu-sharing-enabled={yes(config.gpu_sharing)}",
        f"--hami-core-enabled={yes(config.hami_core)}",
        f"--queue-label-key={everywhere.queue_label_key}",
        f"--nodepool-label-key={everywhere.node_pool_label_key}",
        f"--resource-reservation-namespace={config.binder.resource_reservation.namespace}",
        f"--scale-adjust-namespace={config.node_scale_adjuster.args.node_scale_namespace}",
        f"--block-nvidia-visible-devices={yes(spec.block_nvidia_visible_devices)}",
        f"--gpu-fraction-runtime-class-name={spec.runtime_class}",
    )
