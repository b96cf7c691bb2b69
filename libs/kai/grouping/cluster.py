"""The seam to the objects around a pod: a live cluster or a file of manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from kai.grouping.objects.documents import Document, ObjectRef
from kai.grouping.objects.pods import Pod
from kai.grouping.type_defaults import TypeDefaults
from kai.model.objects import Json, PodGroup

#: Labels of a Karta definition that say whom it is for.
KARTA_LABELS: Final = ("run.ai/karta-group", "run.ai/karta-version", "run.ai/karta-kind")


class Cluster(Protocol):
    """What rules may ask. Only ``get``, ``pod_body`` and ``definitions`` may cost a request."""

    async def get(self, ref: ObjectRef, *, fresh: bool = False) -> Document:
        """One object; unless ``fresh`` perhaps a minute old, though of no size from before the pod came.

        Raises:
            ObjectNotFound, ReadForbidden, UnknownKind, LookupFailed
        """
        ...

    async def pod_body(self, pod: Pod) -> Json:
        """The whole pod, with the fields that the typed one leaves out."""
        ...

    async def definitions(self, owner: Document) -> Iterable[Document]:
        """The Karta definitions labelled with the owner's group, version and kind; none without the CRD.

        Raises:
            ReadForbidden: nobody knows whether there are any.
        """
        ...

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Pod]:
        """The pods of our scheduler with all these labels."""
        ...

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """A pod group that exists."""
        ...

    def pod_groups_named_after(self, namespace: str, uid: str) -> Iterable[PodGroup]:
        """The pod groups with an object's uid in their name, perhaps without those just written."""
        ...

    def has_priority_class(self, name: str) -> bool:
        """Whether the PriorityClass exists."""
        ...

    def type_defaults(self) -> TypeDefaults:
        """Priority and preemptibility by kind, from the configured ConfigMap."""
        ...
