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

import msgspec

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


def not_raised(before: PodGroupSpec, after: PodGroupSpec) -> PodGroupSpec:
    """``after`` without what a semi-preemptible group that was ``before`` must not come to need.

    If subgroups change places so that more of what runs would be needed, none is.
    """
    kept = each_not_raised(before, after)
    was, becomes = core_sizes(before, kept)
    return kept if becomes <= was else msgspec.structs.replace(kept, min_member=None, min_sub_group=0)


def core_sizes(before: PodGroupSpec, after: PodGroupSpec) -> tuple[int, int]:
    """How many pods that run nobody may take of a semi-preemptible group, at most: as it was, and becomes.

    0 where one of both has no subgroups: then :func:`each_not_raised` says it all.
    """
    if not before.sub_groups or not after.sub_groups:
        return 0, 0
    known = {part.name for part in before.sub_groups} | _refuge(before, after).keys()
    parts = [
        part if part.name in known else msgspec.structs.replace(part, min_member=0)
        for part in after.sub_groups
    ]
    return _core(before), _core(msgspec.structs.replace(after, sub_groups=parts))


def _core(spec: PodGroupSpec) -> int:
    """The pods that the largest of those subgroups need that may be needed."""
    parts = spec.sub_groups or ()
    below: dict[str, list[SubGroup]] = {}
    for part in parts:
        below.setdefault(parent_of(part), []).append(part)
    least = {part.name.lower(): part.min_sub_group for part in parts} | {"": spec.min_sub_group}
    levels, seen = [""], {""}
    for level in levels:
        inside = {part.name.lower() for part in below.get(level, ())} & below.keys() - seen
        levels += sorted(inside)
        seen |= inside
    sizes: dict[str, int] = {}
    for level in reversed(levels):
        members = below.get(level, ())
        each = [sizes.get(part.name.lower(), pods_of_leaf(part)) for part in members]
        sizes[level] = sum(sorted(each, reverse=True)[: subgroups(least[level], len(members))])
    return sizes[""]


def _leaves(spec: PodGroupSpec) -> dict[str, SubGroup]:
    """The subgroups that pods can be in, by name."""
    parts = spec.sub_groups or ()
    below = children(parts)
    return {part.name: part for part in parts if not below[part.name.lower()]}


def _refuge(before: PodGroupSpec, after: PodGroupSpec) -> dict[str, int]:
    """The subgroup in which pods count whose own is gone, the first one, with how many of them were needed.

    Empty if no such pods may be.
    """
    there = _leaves(after)
    gone = [part for name, part in _leaves(before).items() if name not in there]
    return {name: sum(map(pods_of_leaf, gone)) for name in list(there)[:1] if gone}


def each_not_raised(before: PodGroupSpec, after: PodGroupSpec) -> PodGroupSpec:
    """``after`` without the minimums to which a semi-preemptible group that was ``before`` must not grow.

    What runs beyond a minimum was held to no quota, so that it cannot become part of it. In a subgroup that
    is new nothing runs: it may need what it wants, and be needed itself where all others are. But where pods
    have lost theirs they count in the first one, which may need no more of them than was needed.
    """
    old = {part.name: part for part in before.sub_groups or ()}
    parts = after.sub_groups or ()
    had, has = children(old.values()), children(parts)
    added = children(part for part in parts if part.name not in old)
    refuge = _refuge(before, after)

    def of_subgroups(was: int | None, wanted: int | None, level: str) -> int | None:
        most = min(subgroups(was, had[level]), had[level])
        if 0 < had[level] == most:
            most += added[level]
        return most if min(subgroups(wanted, has[level]), has[level]) > most else wanted

    def of_part(part: SubGroup) -> SubGroup:
        was = old.get(part.name)
        if was is None:
            most = refuge.get(part.name, pods_of_leaf(part))
            return msgspec.structs.replace(part, min_member=most) if pods_of_leaf(part) > most else part
        level = part.name.lower()
        most = 0 if had[level] else pods_of_leaf(was)
        return msgspec.structs.replace(
            part,
            min_member=most if pods_of_leaf(part) > most else part.min_member,
            min_sub_group=of_subgroups(was.min_sub_group, part.min_sub_group, level),
        )

    if parts:
        least = of_subgroups(before.min_sub_group, after.min_sub_group, "")
        return msgspec.structs.replace(
            after,
            # It counts for nothing here, and may not be said beside the other.
            min_member=after.min_member if least == after.min_sub_group else None,
            min_sub_group=least,
            sub_groups=[of_part(part) for part in parts],
        )
    most = pods_at_once(before) or 0
    return msgspec.structs.replace(after, min_member=most) if pods_of_group(after) > most else after


def is_gang(spec: PodGroupSpec) -> bool:
    """Whether several pods may have to start together."""
    return bool(spec.sub_groups) or pods_of_group(spec) > 1
