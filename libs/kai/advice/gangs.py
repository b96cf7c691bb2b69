"""What a pod group asks for before any of it starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kai.model.objects import PodGroupSpec, SubGroup
from kai.model.rules import minimums

#: Of each resource so many pods that ask for so much; in any order.
_Offers = list[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class Alike:
    """Pods of a group that ask for the same."""

    #: In base units, by resource.
    asked: Mapping[str, float]
    count: int
    #: The subgroup that the first of them is in; others may be in another.
    sub_group: str = ""


def least(spec: PodGroupSpec, pods: Sequence[Alike]) -> dict[str, float]:
    """What the pods ask for, by resource, that have to start together; ``pods`` counts them.

    Where the group may choose, of each resource it is the least that any choice comes to. A subgroup of which
    no pod is known has those of the subgroups beside it, or any.
    """
    resources = {resource for each in pods for resource in each.asked}
    found = {resource: _least(spec, pods, resource) for resource in resources}
    return {**found, "pods": _least(spec, [_counted(each) for each in pods], "pods")}


def _counted(pods: Alike) -> Alike:
    return Alike({"pods": 1.0}, pods.count, pods.sub_group)


def _least(spec: PodGroupSpec, pods: Sequence[Alike], resource: str) -> float:
    parts = spec.sub_groups or ()
    known: defaultdict[str, _Offers] = defaultdict(list)
    for each in pods:
        known[each.sub_group.lower()].append((each.asked.get(resource, 0.0), each.count))
    everything = [offer for offers in known.values() for offer in offers]
    if not parts:
        return _of_pods(minimums.pods_of_group(spec), everything)
    below: defaultdict[str, list[SubGroup]] = defaultdict(list)
    for part in parts:
        below[minimums.parent_of(part)].append(part)

    def of_level(level: str, needed: int | None, above: frozenset[str]) -> float:
        beside = [offer for part in below[level] for offer in known.get(part.name.lower(), ())]
        each = (of_part(part, beside or everything, above) for part in below[level])
        return sum(sorted(each)[: minimums.subgroups(needed, len(below[level]))])

    def of_part(part: SubGroup, beside: _Offers, above: frozenset[str]) -> float:
        name = part.name.lower()
        if name in below and name not in above:
            return of_level(name, part.min_sub_group, above | {name})
        return _of_pods(minimums.pods_of_leaf(part), known.get(name) or beside)

    return of_level("", spec.min_sub_group, frozenset({""}))


def _of_pods(needed: int, offers: Iterable[tuple[float, int]]) -> float:
    """What so many pods ask for, those that ask for least; of pods that nobody makes as little as any."""
    total, left, first = 0.0, needed, 0.0
    for number, (asked, count) in enumerate(sorted(offers)):
        first = first if number else asked
        taken = min(left, count)
        total, left = total + taken * asked, left - taken
    return total + left * first
