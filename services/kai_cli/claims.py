"""Reading what resource claims and slices tell of GPUs, where the API server serves them to us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden, NotFound
from kai.kube.forms import served
from kai.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kai.model.dra import ResourceClaim
from kai.model.objects import Json, Pod
from kai.model.rules.device_claims import claimed_gpus
from kai.snapshot.gpu_slices import GpuSlices
from kai_cli.views.claims import ClaimedGpus


async def read_claims(client: KubeClient, pods: Iterable[Pod], *, namespace: str = "") -> ClaimedGpus:
    """The GPUs of the claims in a namespace (empty: in all); nobody is asked where no pod has any."""
    if not any(pod.spec.resource_claims for pod in pods):
        return ClaimedGpus()
    found = await _listed(client, RESOURCE_CLAIMS, namespace=namespace)
    if found is None:
        return _nothing(RESOURCE_CLAIMS)
    counted = {claim.key: claimed_gpus(claim) for claim in msgspec.convert(found, list[ResourceClaim])}
    return ClaimedGpus(of_claims={key: gpus[1] for key, gpus in counted.items() if gpus is not None})


async def read_devices(client: KubeClient, pods: Iterable[Pod]) -> ClaimedGpus:
    """The GPUs of all claims, and those that nodes offer to claims."""
    claims = await read_claims(client, pods)
    slices = [] if claims.lacks else await _listed(client, RESOURCE_SLICES)
    if slices is None:
        return _nothing(RESOURCE_SLICES)
    offered = GpuSlices()
    nodes: set[str] = set()
    for each in slices:
        nodes |= offered.put(each["metadata"]["name"], each)
    return replace(claims, of_nodes={node: offered.count(node) for node in nodes})


async def _listed(client: KubeClient, resource: Resource, *, namespace: str = "") -> list[Json] | None:
    """All objects of a kind, in its newest form; none where it is not served, None where we may not."""
    try:
        form = await served(client, resource)
        if form is None:
            return []
        found = await client.list(form.resource, namespace=namespace)
    except NotFound:  # it is served no more
        return []
    except Forbidden:
        return None
    return found if form.read is None else [form.read(each) for each in found]


def _nothing(kind: Resource) -> ClaimedGpus:
    return ClaimedGpus(
        lacks=f"you may not list {kind.plural}.{kind.group}: GPUs of resource claims are not counted"
    )
