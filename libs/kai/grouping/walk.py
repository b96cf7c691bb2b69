"""From a pod up to its top owner."""

from __future__ import annotations

from kai.grouping.cluster import Cluster
from kai.grouping.errors import AmbiguousOwner, GroupingError, OwnerReplaced, ReadForbidden
from kai.grouping.objects.documents import Document, ObjectRef
from kai.grouping.objects.pods import Pod
from kai.model.objects import OwnerReference


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


async def is_of(pod: Pod, owner: Document, cluster: Cluster) -> bool:
    """Whether the pod belongs to an owner, at however many removes; so it is taken if that may not be read.

    Not whether it belonged to another one of that name, whose pods may be there still.

    Raises:
        KubeError: something of it cannot be read at this moment.
    """
    references = pod.metadata.owner_references or []
    if references and references[0].uid == owner.uid:
        return True
    try:
        owners, note = await owners_of(pod, cluster)
    except GroupingError:
        return False
    return bool(note) or any(each.uid == owner.uid for each in owners)


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
