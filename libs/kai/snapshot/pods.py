"""What a Pod object says, as facts; the state of a task is a function of facts, decisions and time."""

from __future__ import annotations

from sys import intern

from kai.model import limits, names
from kai.model.objects import Pod
from kai.model.rules.gpu_groups import gpu_groups
from kai.model.rules.reservations import asks_for_nodes, holds_device
from kai.snapshot.group_order import GroupOrder, Key
from kai.snapshot.kinds import StateParams
from kai.snapshot.rows import PodFacts
from kai.snapshot.status import Status
from kai.snapshot.times import seconds


def facts(pod: Pod, params: StateParams) -> PodFacts:
    """Everything about a pod that its row depends on."""
    meta = pod.metadata
    labels = meta.labels or {}
    group = (meta.annotations or {}).get(names.POD_GROUP_ANNOTATION, "")
    ours = pod.spec.scheduler_name == params.scheduler_name
    reservation = scaling = False
    if labels.get(names.APP_LABEL) in (params.reservation_app, names.SCALING_POD_APP):
        reservation = holds_device(meta, app=params.reservation_app, namespace=params.reservation_namespace)
        scaling = asks_for_nodes(meta, namespace=params.scaling_namespace)
    status = pod.status
    return PodFacts(
        key=pod.key,
        phase=status.phase or "Pending",
        node_name=pod.spec.node_name,
        deleted_at=seconds(meta.deletion_timestamp) if meta.deletion_timestamp else 0.0,
        gated=bool(pod.spec.scheduling_gates),
        group_key=f"{meta.namespace}/{group}" if group and ours else "",
        sub_group=labels.get(names.SUBGROUP_LABEL, ""),
        ours=ours,
        utility=reservation or scaling,
        reservation=reservation,
        group_ids=gpu_groups(labels),
        nominated=status.nominated_node_name,
        account=intern(pod.spec.service_account_name or names.DEFAULT_SERVICE_ACCOUNT),
    )


def key(pod: Pod, created: float, order: GroupOrder) -> Key:
    """The key by which tasks of a pod set are ordered, best first; ``created`` in Unix seconds.

    Raises:
        OutOfBounds: the label of its priority says no number of 32 bits, whether or not that counts.
    """
    labels = pod.metadata.labels
    if labels and names.TASK_PRIORITY_LABEL in labels:
        limits.TASK_PRIORITY.integer(labels[names.TASK_PRIORITY_LABEL])
    return order.key(labels, created, pod.metadata.uid)


def status(facts: PodFacts, now: float, stuck_after: float) -> Status:
    """The state of a pod as snapshots see it."""
    match facts.phase:
        case "Running":
            if facts.deleted_at:
                stuck = now - facts.deleted_at > stuck_after
                return Status.STUCK_IN_RELEASING if stuck else Status.RELEASING
            return Status.RELEASING if facts.evicting else Status.RUNNING
        case "Pending":
            placed = facts.node_name or facts.assumed_node
            if facts.deleted_at and not placed:
                return Status.FAILED  # it holds nothing, and its gang must not count on it
            if facts.deleted_at or (facts.evicting and placed):
                return Status.RELEASING
            if facts.node_name:
                return Status.BOUND
            if facts.assumed_node:
                return Status.BINDING
            return Status.GATED if facts.gated else Status.PENDING
        case "Succeeded":
            return Status.SUCCEEDED
        case "Failed":
            return Status.FAILED
        case _:
            return Status.UNKNOWN
