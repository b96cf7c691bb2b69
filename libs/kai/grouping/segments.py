"""Segments: parts of a gang that belong closer together than the whole, by annotations."""

from __future__ import annotations

from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Document, Fields, template_annotation
from kai.grouping.objects.pods import Pod
from kai.model import limits, names


def check_count(count: int, *, of: str, what: str = "segments", remedy: str = "") -> None:
    """Refuse to make more subgroups than a pod group may have, before any of them is made.

    Raises:
        InvalidWorkload: there would be too many of ``what``.
    """
    most = limits.SUBGROUPS.most
    if count > most:
        remedy = remedy or f"choose a greater {names.SEGMENT_SIZE}"
        raise InvalidWorkload(f"{of}: {count} {what} are more than {most}; {remedy}")


def check_size(size: int, *, of: str) -> None:
    """Refuse to count pods of which no cluster has so many.

    Raises:
        InvalidWorkload: there would be too many.
    """
    if not limits.MIN_MEMBER.within(size):
        raise InvalidWorkload(f"{of}: a group of {size} pods is more than {limits.MIN_MEMBER.most}")


def segment_topology(pod: Pod, template: Fields, owner: Document) -> tuple[str, str, str]:
    """Topology, required and preferred level of a segment: the pod's word, the template's, the owner's."""

    def said(key: str) -> str:
        return pod.annotations.get(key, "") or template_annotation(template, key)

    return (
        said(names.TOPOLOGY) or owner.annotations.get(names.TOPOLOGY, ""),
        said(names.SEGMENT_TOPOLOGY_REQUIRED),
        said(names.SEGMENT_TOPOLOGY_PREFERRED),
    )
