"""Rules of PodGroup objects: the subgroups form a tree, and every part of it says once what it needs."""

from collections.abc import Iterator, Sequence

from kai.model import duration
from kai.model.objects import PodGroup, SubGroup
from kai.validation.verdict import Verdict


def check(pod_group: PodGroup, *, updating: bool = False) -> Verdict:
    """Refuses a pod group that cannot be understood, warns of one that cannot be satisfied.

    A broken tree is reported alone, since every other finding would follow from it. Errors come in the
    order of subgroup names. On update an inner subgroup may keep its ``minMember``, which older releases
    accepted.
    """
    spec = pod_group.spec
    parts = sorted(spec.sub_groups or [], key=lambda part: part.name)
    broken = tuple(_broken_tree(parts))
    if broken:
        return Verdict(_located(pod_group, broken))

    errors = list(_bad_durations(pod_group))
    warnings: list[str] = []
    children = _children(parts)
    if spec.min_member is not None and spec.min_sub_group is not None:
        errors.append(
            "spec.minMember and spec.minSubGroup exclude each other; "
            "set minMember to count pods or minSubGroup to count subgroups",
        )
    warnings += _too_many("spec.minSubGroup", spec.min_sub_group, len(children.get("", ())))
    for part in parts:
        found, advice = _check_part(part, len(children.get(part.name, ())), updating=updating)
        errors += found
        warnings += advice
    if spec.scheduling_backoff not in (None, -1, 1):
        warnings.append(
            f"spec.schedulingBackoff {spec.scheduling_backoff} is not supported and counts as -1; set -1 or 1"
        )
    return Verdict(_located(pod_group, errors), _located(pod_group, warnings))


def _located(pod_group: PodGroup, findings: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"podgroup {pod_group.key}: {finding}" for finding in findings)


def _children(parts: Sequence[SubGroup]) -> dict[str, list[str]]:
    """Names of direct children by parent; the key of the top is empty."""
    children: dict[str, list[str]] = {}
    for part in parts:
        children.setdefault(part.parent or "", []).append(part.name)
    return children


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
            circle = [*path[path.index(parent) :], parent]
            yield f"subgroups {' -> '.join(circle)} form a circle; remove the parent of one of them"
        seen.update(path)


def _check_part(part: SubGroup, children: int, *, updating: bool) -> tuple[list[str], list[str]]:
    """Errors and warnings about what one subgroup asks for."""
    where = f'subgroup "{part.name}": '
    errors: list[str] = []
    warnings: list[str] = []
    if part.min_member is not None and part.min_sub_group is not None:
        kept = "minSubGroup" if children else "minMember"
        errors.append(f"{where}minMember and minSubGroup exclude each other; keep {kept}")
    elif not children and part.min_sub_group is not None:
        errors.append(f"{where}minSubGroup is set but it has no subgroups below it; set minMember instead")
    elif not children and part.min_member is None:
        errors.append(f"{where}minMember is missing; set how many of its pods are needed at once, 0 for none")
    elif children and part.min_member is not None:
        finding = (
            f"{where}minMember is set but pods belong to the subgroups below it; set minSubGroup instead"
        )
        (warnings if updating else errors).append(finding)
    if children:
        warnings += _too_many(f"{where}minSubGroup", part.min_sub_group, children)
    return errors, warnings


def _too_many(what: str, wanted: int | None, available: int) -> Iterator[str]:
    """In words that clients match."""
    if wanted is not None and wanted > available:
        yield (
            f"{what} ({wanted}) exceeds the number of direct child SubGroups ({available}), "
            "so it cannot be scheduled as it is"
        )


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
