"""How much of a pod group has to start together: the original's rule.

A group without subgroups needs pods, one where it does not say how many. One with subgroups needs of those
directly below it, and so does each that has others below it: all, where nothing is said. A subgroup without
others below it needs pods, none where it does not say how many. What stands anywhere else counts for nothing.
A parent is found by its name in any case of letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kai.model.objects import PodGroupSpec, SubGroup

#: Pods of a group that does not say how many it needs.
_ONE: Final = 1


def pods_of_group(spec: PodGroupSpec) -> int:
    """How many pods a group needs that has no subgroups."""
    return _ONE if spec.min_member is None else spec.min_member


def pods_of_leaf(part: SubGroup) -> int:
    """How many pods a subgroup needs that has none below it."""
    return part.min_member or 0


def subgroups(min_sub_group: int | None, children: int) -> int:
    """How many of its ``children`` a group or a subgroup needs that says ``minSubGroup``."""
    return children if min_sub_group is None else min_sub_group


def children(parts: Iterable[SubGroup]) -> Counter[str]:
    """How many subgroups are directly below each, by name in small letters; the group itself is ``""``."""
    return Counter(parent_of(part) for part in parts)


def parent_of(part: SubGroup) -> str:
    """The name of the subgroup above, in small letters; ``""`` is the group itself."""
    return (part.parent or "").lower()


def pods_at_once(spec: PodGroupSpec) -> int | None:
    """How many pods of a group have to start together; None if it may choose among subgroups."""
    parts = spec.sub_groups
    if not parts:
        return pods_of_group(spec)
    below = children(parts)
    if spec.min_sub_group is not None or any(part.min_sub_group is not None for part in parts):
        return None
    return sum(pods_of_leaf(part) for part in parts if not below[part.name.lower()])


def is_gang(spec: PodGroupSpec) -> bool:
    """Whether several pods may have to start together."""
    return bool(spec.sub_groups) or pods_of_group(spec) > 1
