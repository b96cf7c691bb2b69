"""Webhooks of an installation, as the API server is told of them."""

from __future__ import annotations

import base64
from typing import Final

from kai.operands.certificates import WEBHOOKS
from kai.operands.manifests import Installation, Manifest, labels
from kai.operands.spec.flags import switched
from kai.validation import registration
from kai.validation.registration import ClientConfig, PodScope

_BLOCK_DEVICES: Final = "block-nvidia-visible-devices"


def admission_webhooks(installation: Installation) -> list[Manifest]:
    """Those of admission, with the one that warns."""
    spec, scope = installation.config.admission, pod_scope(installation)
    client = _client(installation, service=spec.service_name, port=spec.webhook.port)
    mutating, validating = registration.of_admission(client, scope)
    mutating["metadata"]["name"] = spec.mutating_webhook_configuration_name
    validating["metadata"]["name"] = spec.validating_webhook_configuration_name
    made = (mutating, validating, registration.of_warnings(client, scope))
    return [_labelled(each, "admission") for each in made]


def queue_webhooks(installation: Installation) -> list[Manifest]:
    """That of queues; none if it is switched off."""
    spec = installation.config.queue_controller
    if not spec.webhooks.enable_validation:
        return []
    client = _client(installation, port=spec.controller_service.webhook.port)
    made = registration.of_queues(client, refuse_deletion=spec.webhooks.refuse_deletion)
    made["metadata"]["name"] = f"{spec.webhooks.webhook_configuration_name_prefix}v2"
    return [_labelled(made, "queue-controller")]


def pod_group_webhooks(installation: Installation) -> list[Manifest]:
    """That of pod groups; none if it is switched off."""
    spec = installation.config.pod_group_controller
    if not spec.webhooks.enable_validation:
        return []
    made = registration.of_pod_groups(_client(installation, port=spec.controller_service.webhook.port))
    made["metadata"]["name"] = f"{spec.webhooks.webhook_configuration_name_prefix}v2alpha2"
    return [_labelled(made, "podgroup-controller")]


def pod_scope(installation: Installation) -> PodScope:
    """Which pods admission is asked about."""
    config = installation.config
    spec, everywhere = config.admission, config.everywhere
    blocked = switched(spec.service.extra_args, _BLOCK_DEVICES)
    return PodScope(
        namespace=config.namespace,
        scheduler_name=everywhere.scheduler_name,
        queue_label_key=everywhere.queue_label_key,
        queue_label_selector=spec.queue_label_selector,
        namespace_labels=everywhere.namespace_label_selector,
        pod_labels=everywhere.pod_label_selector,
        all_pods=spec.block_nvidia_visible_devices or blocked is True,
    )


def _client(installation: Installation, *, port: int, service: str = "") -> ClientConfig:
    bundle = _bundle(installation)

    def client_config(component: str, path: str) -> Manifest:
        reference = {
            "name": service or component,
            "namespace": installation.namespace,
            "path": path,
            "port": port,
        }
        return {"service": reference, **({"caBundle": bundle} if bundle else {})}

    return client_config


def _bundle(installation: Installation) -> str:
    """What the API server trusts our webhooks by; base64 of PEM, empty where nobody has told."""
    existing = installation.config.certificates.existing
    if existing.enabled:
        return existing.ca_bundle
    return base64.b64encode(installation.facts.trust.get(WEBHOOKS, "").encode()).decode()


def _labelled(made: Manifest, app: str) -> Manifest:
    return {**made, "metadata": {**made["metadata"], "labels": labels(app)}}
