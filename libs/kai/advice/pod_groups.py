"""Warnings about PodGroups that somebody wrote by hand."""

from __future__ import annotations

from collections.abc import Iterator

from kai.advice import membership, metadata, sizes
from kai.advice.facts import Facts
from kai.advice.finding import Code, Finding
from kai.model.objects import PodGroup, SubGroup
from kai.model.rules import minimums


def findings(group: PodGroup, facts: Facts) -> Iterator[Finding]:
    """All that surely is a mistake."""
    spec = group.spec
    yield from metadata.findings(group.labels, group.annotations, queue_label_key=facts.queue_label_key)
    parts = sorted(spec.sub_groups or [], key=lambda part: part.name)
    children = minimums.children(parts)
    yield from _too_many("spec.minSubGroup", spec.min_sub_group, children[""])
    for part in parts:
        yield from _part(part, children[part.name.lower()])
    backoff = spec.scheduling_backoff
    if backoff not in (None, -1, 1):
        text = f"spec.schedulingBackoff {backoff} is not supported and counts as -1; set -1 or 1"
        yield Finding(Code.UNSUPPORTED_BACKOFF, text)
    if not spec.queue:
        yield Finding(Code.NO_QUEUE, "spec.queue is empty, so nothing is scheduled; name a leaf queue")
    else:
        yield from membership.queue_findings(spec.queue, facts)
    yield from membership.priority_findings(
        "spec.priorityClassName", spec.priority_class_name, facts.priority_classes
    )
    if facts.capacity is not None and facts.capacity.nodes:
        yield from sizes.beyond_cluster(minimums.pods_at_once(spec) or 0, {}, facts.capacity)


def _part(part: SubGroup, children: int) -> Iterator[Finding]:
    where = f'subgroup "{part.name}": '
    if not children:
        return
    if part.min_member is not None:
        yield Finding(
            Code.PODS_ABOVE_SUBGROUPS,
            f"{where}minMember is set but pods belong to the subgroups below it; set minSubGroup instead",
        )
    yield from _too_many(f"{where}minSubGroup", part.min_sub_group, children)


def _too_many(what: str, wanted: int | None, available: int) -> Iterator[Finding]:
    """In words that clients match."""
    if wanted is not None and wanted > available:
        yield Finding(
            Code.GANG_TOO_LARGE,
            f"{what} ({wanted}) exceeds the number of direct child SubGroups ({available}), "
            "so it cannot be scheduled as it is",
        )
