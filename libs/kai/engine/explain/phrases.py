"""What pod groups are told in words that clients match: tests, alerts and dashboards know these sentences.

The whole list, with who matches what, is in ``docs/status.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.snapshot.rows import DEFAULT_POD_SET, Job, PodSet

_NAMED: Final = 8
#: Letters that are named of anything, whatever its owner called it: each pod is told so.
_LETTERS: Final = 200


def lacks_pods(job: Job) -> bool:
    """Whether pods wait for others of their part that do not exist."""
    return any(pod_set.pending and _lacks(pod_set) for pod_set in job.pod_sets.values())


def _lacks(pod_set: PodSet) -> bool:
    """Whether too few pods wait, have a place that they keep, or are done."""
    return pod_set.pending + pod_set.active_allocated + pod_set.succeeded < pod_set.min_member


def not_ready(job: Job) -> str:
    """Which pods a group lacks.

    Those behind a scheduling gate exist, but count for nothing yet, and those on their way out no more.
    """
    waiting = [pod_set for _, pod_set in sorted(job.pod_sets.items()) if _lacks(pod_set)]
    return " ".join(["Job is not ready for scheduling.", *_first(list(map(_waits_for, waiting)))])


def _waits_for(pod_set: PodSet) -> str:
    leaving = pod_set.active_used - pod_set.active_allocated
    counts = f"currently {pod_set.alive - leaving} exist, {pod_set.gated} are gated"
    if leaving:
        counts += f", {leaving} are being deleted"
    if pod_set.name == DEFAULT_POD_SET:
        return f"Waiting for {pod_set.min_member} pods, {counts}"
    return f"Waiting for {pod_set.min_member} pods for SubGroup {pod_set.name}, {counts}."


def stale(job: Job) -> str:
    """How a group that ran falls short of what it needs."""
    pod_sets = [pod_set for _, pod_set in sorted(job.pod_sets.items())]
    active = sum(pod_set.active_used for pod_set in pod_sets)
    short = [each for each in pod_sets if not each.used_enough and each.name != DEFAULT_POD_SET]
    head = f"Job is stale. {active} pods are active, {_needed(job, pod_sets)}"
    return ", ".join([head, *_first(list(map(_falls_short, short)))])


def _first(parts: list[str]) -> list[str]:
    """As many subgroups as somebody reads, and how many more there are: an event has room for 1024 bytes."""
    more = len(parts) - _NAMED
    return [*parts[:_NAMED], f"and {more} more SubGroups"] if more > 0 else parts


def some(named: Sequence[str]) -> str:
    """The first of many names, as many as somebody reads, and how many more there are."""
    shown: list[str] = []
    for name in named[:_NAMED]:
        if shown and len(", ".join([*shown, name])) > _LETTERS:
            break
        shown.append(name)
    more = len(named) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _falls_short(pod_set: PodSet) -> str:
    counts = f"minMember is {pod_set.min_member} and {pod_set.active_used} pods are active"
    return f"subGroup {pod_set.name} {counts}"


def _needed(job: Job, pod_sets: list[PodSet]) -> str:
    """A group that needs only some of its subgroups never had to reach the sum of their minimums."""
    root = job.root
    if root.min_sub_group is None:
        return f"minMember is {sum(pod_set.min_member for pod_set in pod_sets)}"
    held = sum(member.used_enough for member in root.members)
    return f"{held} of {root.threshold} required subGroups are satisfied"
