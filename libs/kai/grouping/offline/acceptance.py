"""Whether the API would take a pod group: its schema's limits and its webhook's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kai.grouping.errors import RefusedPodGroup
from kai.model.objects import PodGroup
from kai.validation import pod_groups

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[-a-z0-9])?")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def check(group: PodGroup, *, before: PodGroup | None) -> None:
    """Refuse what the API server would refuse. ``before`` is the group as it exists.

    Raises:
        RefusedPodGroup: names the group and every problem.
    """
    problems = [f"PodGroup {group.key}: {problem}" for problem in _beyond_schema(group)]
    problems = problems or list(pod_groups.check(group, updating=before is not None, before=before).errors)
    if problems:
        raise RefusedPodGroup("; ".join(problems))


def _beyond_schema(group: PodGroup) -> Iterator[str]:
    name, owners = group.metadata.name, group.metadata.owner_references or ()
    for owner in owners:  # a file may say any uid, a cluster's are lower case
        name = name.replace(owner.uid, "uid") if owner.uid else name
    full = group.metadata.name
    if len(full) > 253 or not _NAME.fullmatch(name):
        yield f"metadata.name must be at most 253 lower case letters, digits, - and ., not {full!r}"
    for field, number in (("minMember", group.spec.min_member), ("minSubGroup", group.spec.min_sub_group)):
        if number is not None and number < 0:
            yield f"spec.{field} must not be negative, but is {number}"
    for part in group.spec.sub_groups or ():
        where = f"spec.subGroups[{part.name}]"
        if not _LABEL.fullmatch(part.name):
            yield f"{where}.name must be lower case letters, digits and -, but is {part.name!r}"
        for field, number in (("minMember", part.min_member), ("minSubGroup", part.min_sub_group)):
            if number is not None and number < 0:
                yield f"{where}.{field} must not be negative, but is {number}"
