"""Topologies of Kueue, for those who come from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists, NotFound
from kai.kube.resources import TOPOLOGIES, Resource
from kai.model import names

_GROUP: Final = "kueue.x-k8s.io"
_VERSIONS: Final = ("v1beta2", "v1beta1", "v1alpha1")
MIGRATED: Final = "kai.scheduler/migrated-from"


async def copy_topologies(client: KubeClient, say: Callable[[str], None]) -> None:
    """Make a topology of ours of each of Kueue's, unless there is one of its name.

    Raises:
        KubeError: the API server refuses, or cannot be reached.
    """
    for each in await _of_kueue(client):
        name = each["metadata"]["name"]
        levels = [{"nodeLabel": level["nodeLabel"]} for level in each["spec"]["levels"]]
        copy = {
            "apiVersion": names.TOPOLOGY_API_VERSION,
            "kind": TOPOLOGIES.kind,
            "metadata": {"name": name, "annotations": {MIGRATED: f"{_GROUP}/{name}"}},
            "spec": {"levels": levels},
        }
        try:
            await client.create(TOPOLOGIES, copy)
        except AlreadyExists:
            say(f"topology {name} is there already")
        else:
            say(f"topology {name} is copied from Kueue")


async def _of_kueue(client: KubeClient) -> list[dict[str, Any]]:
    """In the newest version that is served; none where there is no Kueue."""
    for version in _VERSIONS:
        try:
            return await client.list(Resource(_GROUP, version, "topologies", "Topology", False))
        except NotFound:
            continue
    return []
