"""Gangs start whole, and what may not be evicted is not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from e2e.soak.frame import Breach, Frame, LogLine, called, group_key
from kai.model.objects import PodGroup
from kai_local.parts.objects import LocalPod

PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_DEFAULT_PRIORITY = 50
_FIRM_FROM = 100
_EVICTED = re.compile(r"\bpod evicted\b.*?\baction=(?P<action>\w+).*?\bpod=(?P<pod>[\w./-]+)")
#: Ends gangs that are in parts for too long, whoever they are.
_STALE = "stalegangeviction"


def gangs_are_whole(frame: Frame) -> Iterator[Breach]:
    """Who has a pod on a node has as many as it needs, unless somebody of it has ended."""
    for key, pods in frame.members().items():
        group = frame.groups.get(key)
        if group is None or group.metadata.uid in frame.thinned:
            continue
        placed = [pod for pod in pods if pod.spec.node_name]
        if placed and not satisfied(group, placed):
            needed = group.spec.min_member or "parts of it"
            yield Breach(
                "gang in part",
                called("PodGroup", key),
                f"{len(placed)} of {len(pods)} are placed, needs {needed}",
            )


def firm_pods_stay(before: Frame, now: Frame, lines: Iterable[LogLine]) -> Iterator[Breach]:
    """The scheduler evicts nobody who may not be evicted, as it says in its log.

    What runs without a queue is anybody's, whatever it says.
    """
    for line in lines:
        found = _EVICTED.search(line.text)
        if found is None or found["action"] == _STALE:
            continue
        pod = before.pods.get(found["pod"])
        group = before.groups.get(group_key(pod)) if pod is not None else None
        if group is None or preemptible(group):
            continue
        if group.spec.queue in before.queues and group.spec.queue in now.queues:
            yield Breach("non-preemptible evicted", called("Pod", found["pod"]), f"by {found['action']}")


def satisfied(group: PodGroup, placed: list[LocalPod]) -> bool:
    """Whether so many are enough."""
    from kai.model import names

    parts = group.spec.sub_groups
    if not parts:
        return len(placed) >= (group.spec.min_member or 1)
    count = Counter(pod.labels.get(names.SUBGROUP_LABEL, "") for pod in placed)
    leaves = [part for part in parts if part.min_member is not None]
    good = sum(count[part.name] >= (part.min_member or 0) for part in leaves)
    return good >= (group.spec.min_sub_group or len(leaves))


def preemptible(group: PodGroup) -> bool:
    """Whether others may have it evicted."""
    if group.spec.preemptibility:
        return group.spec.preemptibility == "preemptible"
    return PRIORITIES.get(group.spec.priority_class_name, _DEFAULT_PRIORITY) < _FIRM_FROM
