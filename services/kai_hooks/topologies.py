"""Topologies of Kueue, for those who come from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists, ApiError, BadRequest, Invalid, NotFound
from kai.kube.resources import TOPOLOGIES, Resource
from kai.model import names
from kai_hooks.refusals import Refusals

_GROUP: Final = "kueue.x-k8s.io"
_VERSIONS: Final = ("v1beta2", "v1beta1", "v1alpha1")
MIGRATED: Final = "kai.scheduler/migrated-from"


async def copy_topologies(client: KubeClient, say: Callable[[str], None]) -> None:
    """Make a topology of ours of each of Kueue's, unless there is one of its name.

    One that ours cannot be like is told, and keeps neither the others nor the installation back.

    Raises:
        Refused: we may not make some of them; the others are made.
        KubeError: we may not list Kueue's, or the API server cannot be reached.
    """
    refusals = Refusals()
    for each in await _of_kueue(client):
        name = each["metadata"]["name"]
        listed = (each.get("spec") or {}).get("levels") or ()
        levels = [{"nodeLabel": level.get("nodeLabel", "")} for level in listed]
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
        except (BadRequest, Invalid) as error:
            say(f"topology {name} of Kueue is not copied: {error}")
        except ApiError as error:
            refusals.add(f"topology {name}", error)
        else:
            say(f"topology {name} is copied from Kueue")
    refusals.tell()


async def _of_kueue(client: KubeClient) -> list[dict[str, Any]]:
    """In the newest version that is served; none where there is no Kueue."""
    for version in _VERSIONS:
        try:
            return await client.list(Resource(_GROUP, version, "topologies", "Topology", False))
        except NotFound:
            continue
    return []
