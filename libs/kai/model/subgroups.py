"""How large the tree of a pod group may be."""

from __future__ import annotations

from collections.abc import Mapping

from kai.model import limits
from kai.model.objects import PodGroupSpec
from kai.model.rules import minimums


def check(spec: PodGroupSpec) -> None:
    """Take linear time over whatever a tree says; those that walk it afterwards may recurse.

    Raises:
        OutOfBounds: it is too large, too deep, or wants more than any cluster has.
    """
    if spec.min_member is not None:
        limits.MIN_MEMBER.check(spec.min_member)
    if spec.min_sub_group is not None:
        limits.MIN_SUBGROUP.check(spec.min_sub_group)
    if not spec.sub_groups:
        return
    limits.SUBGROUPS.check_count(spec.sub_groups)
    for number, sub in enumerate(spec.sub_groups):
        where = f"spec.subGroups[{number}]"
        if sub.min_member is not None:
            limits.MIN_MEMBER.check(sub.min_member, f"{where}.minMember")
        if sub.min_sub_group is not None:
            limits.MIN_SUBGROUP.check(sub.min_sub_group, f"{where}.minSubGroup")
    parents = {sub.name.lower(): minimums.parent_of(sub) for sub in spec.sub_groups}
    limits.SUBGROUP_DEPTH.check(_depth(parents))


def _depth(parents: Mapping[str, str]) -> int:
    """Levels of a tree given by the parents of its nodes; what hangs nowhere has none."""
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        if name:  # else it would stand below itself
            children.setdefault(parent, []).append(name)
    levels, front = 0, children.get("", [])
    while front:
        levels += 1
        front = [child for name in front for child in children.get(name, ())]
    return levels
