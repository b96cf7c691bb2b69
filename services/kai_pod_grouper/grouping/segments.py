"""Segments: parts of a gang that belong closer together than the whole, by annotations."""

from __future__ import annotations

from typing import Final

from kai.model import names
from kai_pod_grouper.errors import InvalidWorkload
from kai_pod_grouper.objects.documents import Document, Fields, template_annotation
from kai_pod_grouper.objects.pods import Pod

MOST_SEGMENTS: Final = 10_000


def check_count(count: int, *, of: str) -> None:
    """Refuse to make more subgroups than an object can hold.

    Raises:
        InvalidWorkload: there would be more than :data:`MOST_SEGMENTS`.
    """
    if count > MOST_SEGMENTS:
        raise InvalidWorkload(
            f"{of}: {count} segments are more than {MOST_SEGMENTS}; choose a greater {names.SEGMENT_SIZE}"
        )


def segment_topology(pod: Pod, template: Fields, owner: Document) -> tuple[str, str, str]:
    """Topology, required and preferred level of a segment: the pod's word, the template's, the owner's."""

    def said(key: str) -> str:
        return pod.annotations.get(key, "") or template_annotation(template, key)

    return (
        said(names.TOPOLOGY) or owner.annotations.get(names.TOPOLOGY, ""),
        said(names.SEGMENT_TOPOLOGY_REQUIRED),
        said(names.SEGMENT_TOPOLOGY_PREFERRED),
    )
