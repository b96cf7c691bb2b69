"""Rules of PodGroup objects: the subgroups form a tree, and every part of it says once what it needs."""

from collections.abc import Iterator, Sequence

from kai.model import duration, subgroups
from kai.model.faults import OutOfBounds
from kai.model.objects import PodGroup, PodGroupSpec, SubGroup
from kai.model.rules import minimums
from kai.model.rules.priorities import is_semi_preemptible
from kai.model.words import listed
from kai.validation.verdict import Verdict


def check(pod_group: PodGroup, *, updating: bool = False, before: PodGroup | None = None) -> Verdict:
    """Refuses a pod group that cannot be understood.

    A tree that is too large or broken is reported alone, since every other finding would follow from it.
    Errors come in the order of subgroup names. On update an inner subgroup may keep its ``minMember``, which
    older releases accepted. ``before`` is what is stored: a minimum that nobody may take must not grow.
    """
    spec = pod_group.spec
    try:
        subgroups.check(spec)
    except OutOfBounds as error:
        return Verdict(_located(pod_group, (str(error),)))
    parts = sorted(spec.sub_groups or [], key=lambda part: part.name)
    broken = tuple(_broken_tree(parts))
    if broken:
        return Verdict(_located(pod_group, broken))

    errors = list(_bad_durations(pod_group))
    if spec.min_member is not None and spec.min_sub_group is not None:
        errors.append(
            "spec.minMember and spec.minSubGroup exclude each other; "
            "set minMember to count pods or minSubGroup to count subgroups",
        )
    inner = {part.parent for part in parts if part.parent}
    for part in parts:
        errors += _check_part(part, inner=part.name in inner, updating=updating)
    if before is not None and _semi_preemptible(before) and _semi_preemptible(pod_group):
        errors += _raised(before.spec, spec)
    return Verdict(_located(pod_group, errors))


def _located(pod_group: PodGroup, findings: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"podgroup {pod_group.key}: {finding}" for finding in findings)


def _broken_tree(parts: Sequence[SubGroup]) -> Iterator[str]:
    parents = {part.name: part.parent or "" for part in parts}
    if len(parents) < len(parts):
        names = [part.name for part in parts]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f'spec.subGroups has more than one "{name}"; give every subgroup a name of its own'
        return
    lost = [(name, parent) for name, parent in parents.items() if parent and parent not in parents]
    for name, parent in lost:
        yield (
            f'subgroup "{name}": parent "{parent}" does not exist; '
            "name another subgroup or leave parent out to put it at the top"
        )
    if lost:
        return
    seen: set[str] = set()
    for name in parents:
        path = [name]
        while (parent := parents[path[-1]]) and parent not in seen and parent not in path:
            path.append(parent)
        if parent in path:
            circle = listed([*path[path.index(parent) :], parent], most=8, between=" -> ")
            yield f"subgroups {circle} form a circle; remove the parent of one of them"
        seen.update(path)


def _check_part(part: SubGroup, *, inner: bool, updating: bool) -> Iterator[str]:
    """What is wrong with what one subgroup asks for; ``inner`` has others below it."""
    where = f'subgroup "{part.name}": '
    if part.min_member is not None and part.min_sub_group is not None:
        kept = "minSubGroup" if inner else "minMember"
        yield f"{where}minMember and minSubGroup exclude each other; keep {kept}"
    elif not inner and part.min_sub_group is not None:
        yield f"{where}minSubGroup is set but it has no subgroups below it; set minMember instead"
    elif not inner and part.min_member is None:
        yield f"{where}minMember is missing; set how many of its pods are needed at once, 0 for none"
    elif inner and part.min_member is not None and not updating:
        yield f"{where}minMember is set but pods belong to the subgroups below it; set minSubGroup instead"


def _semi_preemptible(pod_group: PodGroup) -> bool:
    return is_semi_preemptible(pod_group.spec.preemptibility)


def _raised(before: PodGroupSpec, after: PodGroupSpec) -> Iterator[str]:
    """Minimums of a semi-preemptible group that would grow: what runs beyond them was held to no quota."""
    allowed = _minimums(minimums.each_not_raised(before, after))
    grown = [(place, least) for place, least in _minimums(after).items() if least > allowed[place]]
    for place, least in grown:
        yield (
            f"{place} must not grow from {allowed[place]} to {least} in a semi-preemptible group, "
            "since what runs beyond the minimum was held to no quota; create a new group"
        )
    was, becomes = minimums.core_sizes(before, after)
    if becomes > was and not grown:
        yield (
            f"of the pods in subgroups that were there {becomes} must not be needed where {was} were in a "
            "semi-preemptible group, since what runs beyond the minimum was held to no quota; leave them in "
            "their places, or create a new group"
        )


def _minimums(spec: PodGroupSpec) -> dict[str, int]:
    """Each minimum that counts, by where it stands; what is not set counts as what it stands for."""
    parts = spec.sub_groups
    if not parts:
        return {"spec.minMember": minimums.pods_of_group(spec)}
    children = minimums.children(parts)
    found = {"spec.minSubGroup": minimums.subgroups(spec.min_sub_group, children[""])}
    for part in parts:
        where, below = f'subgroup "{part.name}": ', children[part.name.lower()]
        if below:
            found[f"{where}minSubGroup"] = minimums.subgroups(part.min_sub_group, below)
        else:
            found[f"{where}minMember"] = minimums.pods_of_leaf(part)
    return found


def _bad_durations(pod_group: PodGroup) -> Iterator[str]:
    spec = pod_group.spec
    fields = (
        ("preemptionDelay", spec.preemption_delay),
        ("stalenessGracePeriod", spec.staleness_grace_period),
    )
    for field, text in fields:
        if text is None:
            continue
        try:
            duration.parse(text, days=False)
        except duration.InvalidDuration as error:
            yield f"spec.{field}: {error}"
