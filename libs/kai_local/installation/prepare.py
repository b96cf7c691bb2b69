"""``python -m kai_local.installation.prepare OPTIONS``: put the product into a fresh cluster.

A process of its own that ends when that is done: what it needs for it (client, cryptography) would otherwise
stay in the memory of the process that watches over the cluster for hours. Hence the late imports, too.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

_CONNECT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Preparation:
    """What to do: with ``certificates`` (a folder) webhooks are called at ``webhook_ports``.

    ``all_pods``: also about pods that say nothing of what admission completes.
    Without ``product`` the cluster only gets what the product expects, and is left to an installation.
    """

    kubeconfig: str
    product: bool = True
    certificates: str = ""
    webhook_ports: dict[str, int] | None = None
    all_pods: bool = False

    def command_line(self) -> tuple[str, ...]:
        """The command that does it."""
        return sys.executable, "-m", "kai_local.installation.prepare", msgspec.json.encode(self).decode()


def main() -> None:
    """Do it; what fails is told in one line, with status 1."""
    from kai.kube.errors import KubeError
    from kai_local.errors import ClusterError

    preparation = msgspec.json.decode(sys.argv[1], type=Preparation)
    try:
        asyncio.run(_prepare(preparation))
    except (ClusterError, KubeError) as error:
        sys.exit(str(error))


async def _prepare(preparation: Preparation) -> None:
    from kai.kube.client import KubeClient
    from kai_local.controllers.volumes import PROVISIONER
    from kai_local.installation import bootstrap, webhooks

    authority = b""
    if preparation.certificates:
        authority = webhooks.make_certificates(Path(preparation.certificates))
    connection = KubeClient.connect(preparation.kubeconfig, user_agent="kai-local", wait=_CONNECT_SECONDS)
    async with connection as client:
        await bootstrap.furnish(client, storage_class=bootstrap.default_storage_class(PROVISIONER))
        if preparation.product:
            await bootstrap.install(client)
        if authority:
            # Last: from now on the API server asks services that may still be on their way.
            endpoints = webhooks.WebhookEndpoints(
                preparation.webhook_ports or {}, authority, all_pods=preparation.all_pods
            )
            await webhooks.register(client, endpoints)


if __name__ == "__main__":
    main()
