"""The node-scale-adjuster: has autoscalers see pods that ask for parts of GPUs."""

from __future__ import annotations

from kai.operands.component import Component, account, objects_of, service
from kai.operands.manifests import Installation, Manifest

NAME = "node-scale-adjuster"
#: Label ``app`` of the pods that it makes.
SCALING_APP = "scaling-pod"
_METRICS, _HEALTH = 8080, 8081


def operands(installation: Installation) -> list[Manifest]:
    """Its objects, and the account of scaling pods; none unless it is switched on."""
    config = installation.config
    spec = config.node_scale_adjuster
    if not spec.service.enabled:
        return []
    component = Component(
        name=NAME,
        module="kai_node_scale_adjuster",
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=_flags(installation),
        ports={"health": _HEALTH, "http-metrics": _METRICS},
        probe="health",
    )
    args = spec.args
    return [
        account(NAME, installation),
        account(args.node_scale_service_account, installation, namespace=args.node_scale_namespace, app=NAME),
        *objects_of(component, installation),
        service(NAME, installation, {"http-metrics": (_METRICS, "http-metrics")}),
    ]


def _flags(installation: Installation) -> tuple[str, ...]:
    args = installation.config.node_scale_adjuster.args
    return (
        f"--health-probe-bind-address=:{_HEALTH}",
        f"--metrics-bind-address=:{_METRICS}",
        f"--scaling-pod-image={installation.image(args.scaling_pod_image)}",
        f"--scaling-pod-image-pull-policy={args.scaling_pod_image.pull_policy}",
        f"--scale-adjust-namespace={args.node_scale_namespace}",
        f"--scaling-pod-service-account={args.node_scale_service_account}",
        f"--scaling-pod-app-label={SCALING_APP}",
        f"--gpu-memory-to-fraction-ratio={args.gpu_memory_to_fraction_ratio:g}",
    )
