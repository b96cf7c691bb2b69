"""Nodes that come for pods which stand for others before a cluster autoscaler (``docs/autoscaling.md``).

A device of such a node is not for whoever asks first: the pod for which the node was added would wait on,
and one more node would follow. Of nodes that were there before nobody has to keep off, since a pod that waits
could not have them, nor of those that have been there for long: whatever can be placed there has been. So no
pod that waits in vain keeps others from sharing devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kai.model.objects import Node, Pod
from kai.model.rules.selectors import node_selector
from kai.model.rules.taints import REPELLING, untolerated
from kai.snapshot.times import seconds

#: How long after its creation a node is left to the pods for which it came; its devices come later than it.
SETTLING_SECONDS: Final = 600.0
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def awaits(pods: Iterable[Pod], node: Node, *, now: float) -> Pod | None:
    """One of these pods for which the node may have been added, and that has not been placed yet."""
    created = seconds(node.metadata.creation_timestamp)
    if now - created > SETTLING_SECONDS:
        return None
    return next((pod for pod in pods if not _is_placed(pod) and _came_for(node, created, pod)), None)


def _is_placed(pod: Pod) -> bool:
    return any(each.type == "PodScheduled" and each.status == "True" for each in pod.status.conditions or ())


def _came_for(node: Node, created: float, pod: Pod) -> bool:
    """Whether the pod was there first, and may go there."""
    if seconds(pod.metadata.creation_timestamp) > created:
        return False
    selector = pod.spec.node_selector or {}
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    required = ((pod.spec.affinity or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if required and not node_selector(required, node.metadata.name, node.labels):
        return False
    return untolerated(node.spec.taints or (), pod.spec.tolerations or (), effects=REPELLING) is None
