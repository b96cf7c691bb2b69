"""Pods, as far as grouping reads them: a gang of thousands is held in memory at little cost."""

from __future__ import annotations

import msgspec

from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Document
from kai.model.objects import ApiObject, ApiStruct, Json
from kai.model.rules.phases import has_ended


class PodSpec(ApiStruct):
    """``spec`` of a pod."""

    scheduler_name: str = ""
    node_name: str = ""
    priority_class_name: str = ""
    scheduling_gates: list[Json] | None = None


class PodStatus(ApiStruct):
    """``status`` of a pod."""

    phase: str = ""


class Pod(ApiObject):
    """A pod, without what only its node needs to know."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def holds_node(self) -> bool:
        """Whether it takes room on a node, and is to stay there."""
        return bool(self.spec.node_name) and not self.ends

    @property
    def ends(self) -> bool:
        """Whether it has ended, or is about to."""
        return self.metadata.deletion_timestamp is not None or has_ended(self.status.phase)


def decode_pod(body: object) -> Pod:
    """The typed pod.

    Raises:
        InvalidWorkload: a field has the wrong type.
    """
    document = Document.of_body(body)
    try:
        return msgspec.convert(body, Pod)
    except msgspec.ValidationError as error:
        raise InvalidWorkload(f"{document.of}: {error}") from error


def pod_document(pod: Pod) -> Document:
    """A pod as an owner: its metadata, no specification."""
    meta = pod.metadata
    return Document(
        of=f"Pod {pod.key}",
        path="",
        content={},
        api_version="v1",
        kind="Pod",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=pod.labels,
        annotations=pod.annotations,
        owners=tuple(meta.owner_references or ()),
    )
