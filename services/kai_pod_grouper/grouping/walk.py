"""From a pod up to its top owner."""

from __future__ import annotations

from kai.model.objects import OwnerReference
from kai_pod_grouper.errors import AmbiguousOwner, OwnerReplaced, ReadForbidden
from kai_pod_grouper.grouping.cluster import Cluster
from kai_pod_grouper.objects.documents import Document, ObjectRef
from kai_pod_grouper.objects.pods import Pod


async def owners_of(pod: Pod, cluster: Cluster) -> tuple[tuple[Document, ...], str]:
    """The owners, nearest first, and a note on why the walk ended early (empty if it did not).

    Only the first owner of the pod counts; above it, each has at most one. Where an owner may not be read the
    walk ends below it, at the pod itself if none could be read.

    Raises:
        AmbiguousOwner, LookupFailed
    """
    owners: list[Document] = []
    references = (pod.metadata.owner_references or [])[:1]
    seen = {pod.metadata.uid}
    while references:
        try:
            owner = await _read(references[0], pod, cluster)
        except ReadForbidden as error:
            below = owners[-1].of if owners else f"Pod {pod.key}"
            return tuple(owners), f"{error}; grouped by {below}"
        if owner.uid in seen and owner.uid:
            raise AmbiguousOwner(f"{owner.of}: its owners form a circle; remove one of their ownerReferences")
        seen.add(owner.uid)
        owners.append(owner)
        references = list(owner.owners)
        if len(references) > 1:
            known = ", ".join(f"{reference.kind} {reference.name}" for reference in references)
            raise AmbiguousOwner(f"{owner.of}: metadata.ownerReferences must be one owner, but are {known}")
    return tuple(owners), ""


async def _read(reference: OwnerReference, pod: Pod, cluster: Cluster) -> Document:
    ref = ObjectRef(reference.api_version, reference.kind, pod.metadata.namespace, reference.name)
    owner = await cluster.get(ref)
    if owner.uid != reference.uid:
        owner = await cluster.get(ref, fresh=True)
    if owner.uid != reference.uid:
        raise OwnerReplaced(
            f"owner {ref} with uid {reference.uid} is gone; the {ref.kind} of that name has uid {owner.uid}"
        )
    return owner
