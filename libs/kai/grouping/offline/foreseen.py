"""Which pods and pod groups would come of an object that is not stored yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from kai.grouping.errors import GroupingError
from kai.grouping.grouper import LeftAlone, group_pod
from kai.grouping.objects.pods import decode_pod
from kai.grouping.offline.cluster import FileCluster
from kai.grouping.options import GroupingOptions
from kai.model.objects import Json, Pod, PodGroup
from kai.workloads.making import Sort, TooManyPods, sorts
from kai.workloads.parts import at
from kai.workloads.references import filled

#: Whoever writes an object waits for the answer, and others behind him: there is no looking at more than
#: that, which is more than users write.
_MOST_OBJECTS: Final = 5_000
_MOST_TEMPLATES: Final = 32
_MOST_VALUES: Final = 5_000
#: What is copied for each pod.
_WIDEST: Final = 200
_LONGEST_KEY: Final = 253
#: API groups of operators that may be told to write the scheduler's name on pods (KubeRay's batch scheduler).
_THAT_WRITE_SCHEDULERS: Final = ("ray.io",)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The pods of one template: the first of them, and how many there are.

    ``group`` is the one that the first would be in; None where none of them would be grouped.
    """

    pod: Pod
    count: int
    group: PodGroup | None = None
    sub_group: str = ""


async def foreseen(body: Json, namespace: str, options: GroupingOptions) -> list[Foreseen]:
    """What would come of an object; nothing where it does not say what its pods are, or says too much.

    Each template is grouped by its first pod. Nothing here ever blocks.

    Raises:
        msgspec.ValidationError: a pod has a field of the wrong type.
    """
    meta = at(body, "metadata")
    if not _is_looked_into(body.get("spec"), meta.get("labels"), meta.get("annotations")):
        return []
    body, missing = filled(body, ())
    if missing:
        return []
    try:
        found = sorts(body, namespace=namespace, most=_MOST_OBJECTS)
    except TooManyPods:
        return []
    if len(found) > _MOST_TEMPLATES:
        return []
    return [await _grouped(each, options) for each in found]


def _is_looked_into(*said: object) -> bool:
    """Whether it is of a size that users write, so that it takes no time to go through it."""
    left, seen = [*said], 0
    while left:
        value = left.pop()
        seen += 1
        if isinstance(value, dict):
            if len(value) > _WIDEST or any(len(key) > _LONGEST_KEY for key in value):
                return False
            left += value.values()
        elif isinstance(value, list):
            left += value
        if seen + len(left) > _MOST_VALUES:
            return False
    return True


async def _grouped(sort: Sort, options: GroupingOptions) -> Foreseen:
    body = _scheduled(sort, options)
    pod = msgspec.convert(body, Pod)
    try:
        cluster = FileCluster((*sort.makers, *sort.beside, body))
        outcome = await group_pod(decode_pod(body), cluster, options)
    except GroupingError:
        return Foreseen(pod, sort.count)  # its own event will say why
    if isinstance(outcome, LeftAlone):
        return Foreseen(pod, sort.count)
    return Foreseen(pod, sort.count, outcome.pod_group, outcome.sub_group)


def _scheduled(sort: Sort, options: GroupingOptions) -> Json:
    """The pod, with the scheduler's name where an operator would write it if the object names a queue."""
    top = sort.makers[0]
    is_left_to_operator = str(top.get("apiVersion")).partition("/")[0] in _THAT_WRITE_SCHEDULERS
    names_queue = any(options.queue_label_key in at(each, "metadata", "labels") for each in (top, sort.pod))
    if sort.pod["spec"].get("schedulerName") or not (is_left_to_operator and names_queue):
        return sort.pod
    return {**sort.pod, "spec": {**sort.pod["spec"], "schedulerName": options.scheduler_name}}
