"""The condition ``PodScheduled=False`` of pods that no node can take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kai.model import condition_texts
from kai.model.decisions import Outcome, PodGroupOutcome
from kai.model.objects import Json
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.conditions import UNSCHEDULABLE, message_of
from kai_podgroup_controller.facts import POD_SCHEDULED, WatchedGroup, WatchedPod


def unschedulable_pods(
    group: WatchedGroup, outcome: PodGroupOutcome, cluster: Cluster
) -> Iterator[tuple[WatchedPod, str]]:
    """The waiting pods that cannot be placed, each with the message for its user.

    In a group that was tried these are all its waiting pods, in any other those of unknown subgroups.
    """
    tried = outcome.outcome is Outcome.UNSCHEDULABLE
    invalid = set(outcome.invalid_pods)
    for pod in cluster.members(group.key):
        if pod.key in cluster.faulty_pods:
            continue  # it is told what is wrong with itself
        if tried and _knows_more(pod, group, outcome):
            continue
        if pod.waits and (tried or pod.key in invalid):
            text = outcome.pod_messages.get(pod.key) or outcome.message
            yield pod, message_of(group, text)


def _knows_more(pod: WatchedPod, group: WatchedGroup, outcome: PodGroupOutcome) -> bool:
    """Whether a pod says more than a scheduler does that only repeats what came of a single attempt.

    That stands on the group, and the scheduler that leads by then knows nothing of single pods.
    """
    return (
        group.single_attempt
        and not outcome.pod_messages
        and pod.scheduled[:2] == ("False", UNSCHEDULABLE)
        and pod.scheduled[2].startswith(condition_texts.of_pool(group.node_pool, ""))
    )


def wants_condition(group: WatchedGroup, outcome: PodGroupOutcome, pod: WatchedPod) -> bool:
    """Whether the pod may show it: not if the group asks to keep autoscalers from waking."""
    return group.mark_unschedulable or pod.key in outcome.invalid_pods


def condition_patch(
    pod: WatchedPod, message: str, *, reason: str = UNSCHEDULABLE, now: datetime
) -> Json | None:
    """The strategic merge patch for the pod's status; None if it says so already.

    It carries the resource version, so that it cannot hit a pod that was bound meanwhile.
    """
    message = condition_texts.bounded(message)
    if pod.scheduled == ("False", reason, message):
        return None
    condition = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
    }
    if pod.scheduled[0] != "False":
        condition["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"uid": pod.uid, "resourceVersion": str(pod.resource_version)}
    return {"metadata": metadata, "status": {"conditions": [condition]}}
