"""The questions, in an order in which each finds what it needs."""

from __future__ import annotations

from e2e.contract.exchange import Server
from e2e.contract.story import (
    access,
    changes,
    config_maps,
    custom_resources,
    deletion,
    discovery,
    pods,
    reading,
)
from e2e.contract.story.manifests import NAMESPACE

_CHAPTERS = (
    discovery.discovery,
    discovery.unknown_things,
    pods.pods,
    pods.refused_pods,
    changes.updates,
    changes.patches,
    pods.binding,
    reading.lists,
    reading.watches,
    config_maps.config_maps,
    deletion.deletion,
    custom_resources.custom_resources,
    custom_resources.refused_custom_resources,
    changes.apply,
    reading.tables,
    config_maps.leases,
    access.access,
    access.webhooks,
)


async def tell(server: Server) -> None:
    """Ask everything."""
    await _prepare(server)
    for chapter in _CHAPTERS:
        await chapter(server)


async def _prepare(server: Server) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await server.ask("namespace is created", "POST", "/api/v1/namespaces", namespace)
    # No controller runs beside either server, and a pod needs the account that one would make.
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await server.ask(
        "",
        "POST",
        accounts,
        {"metadata": {"name": "default"}, "automountServiceAccountToken": False},
        keep=False,
    )
