"""Putting in what a cluster is to have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists, ApiError
from kai.kube.resources import Resource
from kai.model.objects import Json
from kai_local.errors import ClusterError

_SERVED_PATIENCE = 15.0


async def ensure(client: KubeClient, resource: Resource, manifest: Json, namespace: str = "") -> None:
    """Make an object unless there is one of its name.

    Raises:
        ClusterError: the server does not take it.
    """
    try:
        await client.create(resource, manifest, namespace=namespace)
    except AlreadyExists:
        return
    except ApiError as error:
        name = manifest.get("metadata", {}).get("name", "?")
        raise ClusterError(f"the cluster does not take {resource.kind} {name}: {error}") from error


async def until_served(client: KubeClient, definitions: Iterable[Json]) -> None:
    """A new kind is served a moment after its definition has been taken.

    Raises:
        ClusterError: it is not after a while.
    """
    for definition in definitions:
        spec = definition["spec"]
        version = next(v["name"] for v in spec["versions"] if v["served"])
        api_version, kind = f"{spec['group']}/{version}", spec["names"]["kind"]
        try:
            async with asyncio.timeout(_SERVED_PATIENCE):
                while await client.discover(api_version, kind, max_age=0.0) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise ClusterError(
                f"the cluster does not serve {kind} ({api_version}) after its CRD was made"
            ) from None
