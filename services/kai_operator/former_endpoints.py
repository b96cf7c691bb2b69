"""Endpoints that Kubernetes keeps of a Service whose selector was taken off.

Its controllers look after Services with a selector alone: what they made before stays, and leads to pods that
may be gone, beside what we keep in its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import Resource
from kai.model.objects import ApiObject, OwnerReference
from kai_operator.kinds import ENDPOINT_SLICES, Manifest

SERVICE_NAME: Final = "kubernetes.io/service-name"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_BY_SELECTOR: Final = "endpointslice-controller.k8s.io"
#: It makes slices of Endpoints, which are of another controller or of somebody's hand.
_MIRRORED: Final = "endpointslicemirroring-controller.k8s.io"
#: What a watch for them selects.
OF_KUBERNETES: Final = f"{SERVICE_NAME},{_MANAGED_BY} in ({_BY_SELECTOR},{_MIRRORED})"
ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints")


def former_endpoints(objects: Sequence[Manifest], slices: Iterable[ApiObject]) -> list[ApiObject]:
    """The slices of Kubernetes' controllers that belong to Services without a selector among ``objects``."""
    ours = {
        (manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        for manifest in objects
        if manifest["kind"] == "Service" and not manifest["spec"].get("selector")
    }
    return [each for each in slices if (each.metadata.namespace, each.labels.get(SERVICE_NAME)) in ours]


def mirrored_of(found: ApiObject) -> OwnerReference | None:
    """The Endpoints that a slice was made of, and would be made of again; None if it stands for itself."""
    if found.labels.get(_MANAGED_BY) != _MIRRORED:
        return None
    owners = found.metadata.owner_references or ()
    return next((owner for owner in owners if owner.kind == ENDPOINTS.kind), None)


async def remove_source(client: KubeClient, found: ApiObject) -> None:
    """Delete a slice so that it does not come again.

    Raises:
        KubeError: the API server refuses, or cannot be reached.
    """
    meta, source = found.metadata, mirrored_of(found)
    with contextlib.suppress(NotFound):
        if source is not None:
            await client.delete(ENDPOINTS, source.name, namespace=meta.namespace, uid=source.uid)
        else:
            await client.delete(ENDPOINT_SLICES, meta.name, namespace=meta.namespace, uid=meta.uid)
