"""Pointing a cluster's API server to webhooks that run outside of it, on this machine.

An installation reaches them through Services; here the configurations name a URL and the authority of a
certificate made for loopback. They are removed when the services end, or nobody could create a pod of
ours any more.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists, NotFound
from kai.kube.resources import Resource
from kai.runtime import certificates
from kai.validation.registration import PodScope, webhook_configurations
from kai_local.processes.ports import LOOPBACK

Manifest = dict[str, Any]

_RESOURCES = {
    resource.kind: resource for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
}


@dataclass(frozen=True, slots=True)
class WebhookEndpoints:
    """At which port each service serves its webhooks, and whose signature to trust (PEM)."""

    ports: dict[str, int]
    authority: bytes
    #: Whether to ask about all pods of ours, or only those that say something.
    all_pods: bool = False

    def configurations(self) -> list[tuple[Resource, Manifest]]:
        """The configurations of those services that run."""
        manifests = webhook_configurations(self._client, PodScope(all_pods=self.all_pods))
        found = [(_RESOURCES[manifest["kind"]], manifest) for manifest in manifests]
        return [(resource, manifest) for resource, manifest in found if all(_urls(manifest))]

    def _client(self, service: str, path: str) -> Manifest:
        if service not in self.ports:
            return {}
        url = f"https://{LOOPBACK}:{self.ports[service]}{path}"
        return {"url": url, "caBundle": base64.b64encode(self.authority).decode()}


def make_certificates(directory: Path) -> bytes:
    """Put ``tls.crt`` and ``tls.key`` for loopback into ``directory``; the authority to trust, as PEM."""
    return certificates.ensure(directory, [LOOPBACK, "localhost"]).trusted


async def register(client: KubeClient, endpoints: WebhookEndpoints) -> None:
    """Have the API server call the webhooks from now on, in place of what an earlier run left."""
    for resource, manifest in endpoints.configurations():
        try:
            await client.create(resource, manifest)
        except AlreadyExists:
            await client.patch(resource, manifest["metadata"]["name"], manifest)


async def unregister(client: KubeClient, endpoints: WebhookEndpoints) -> None:
    """Have the API server forget them, unless somebody pointed it elsewhere meanwhile."""
    for resource, manifest in endpoints.configurations():
        name = manifest["metadata"]["name"]
        try:
            if _urls(await client.get(resource, name)) == _urls(manifest):
                await client.delete(resource, name)
        except NotFound:
            continue


def _urls(manifest: Manifest) -> list[str]:
    return [webhook["clientConfig"].get("url", "") for webhook in manifest.get("webhooks") or ()]
