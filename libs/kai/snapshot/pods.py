"""What a Pod object says, as facts; the state of a task is a function of facts, decisions and time."""

from __future__ import annotations

from sys import intern
from typing import Final

import msgspec

from kai.model import names
from kai.model.ids import GpuGroup, PodGroupKey
from kai.model.objects import Pod
from kai.model.rules.gpu_groups import gpu_groups
from kai.model.rules.gpus import is_mig
from kai.model.rules.reservations import asks_for_nodes, holds_device
from kai.snapshot.kinds import StateParams
from kai.snapshot.rows import PodFacts
from kai.snapshot.status import Status
from kai.snapshot.times import seconds

#: Who takes longer to end, and was not evicted, goes on running for all that others are concerned. Graces of
#: half a minute are usual, and some minutes to write down what was computed.
LONG_GRACE_SECONDS: Final = 300.0


def facts(pod: Pod, params: StateParams) -> PodFacts:
    """Everything about a pod that its row depends on."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    labels, annotations, namespace = meta.labels, meta.annotations, meta.namespace
    ours = spec.scheduler_name == params.scheduler_name
    group = annotations.get(names.POD_GROUP_ANNOTATION) if annotations and ours else None
    sub_group = ""
    devices: tuple[GpuGroup, ...] = ()
    reservation = scaling = False
    if labels:
        sub_group, devices = labels.get(names.SUBGROUP_LABEL, ""), gpu_groups(labels)
        if labels.get(names.APP_LABEL) in (params.reservation_app, names.SCALING_POD_APP):
            app, there = params.reservation_app, params.reservation_namespace
            reservation = holds_device(meta, app=app, namespace=there)
            scaling = asks_for_nodes(meta, namespace=params.scaling_namespace)
    account = spec.service_account_name
    # Not by a call, as elsewhere: this is done for each version of each pod.
    key: PodGroupKey = f"{namespace}/{group}" if group else ""  # type: ignore[assignment]
    return PodFacts(
        key=f"{namespace}/{meta.name}" if namespace else meta.name,
        phase=status.phase or "Pending",
        node_name=spec.node_name,
        deleted_at=seconds(meta.deletion_timestamp) if meta.deletion_timestamp else 0.0,
        gated=bool(spec.scheduling_gates),
        group_key=key,
        sub_group=sub_group,
        ours=ours,
        utility=reservation or scaling,
        reservation=reservation,
        group_ids=devices,
        nominated=status.nominated_node_name,
        started=status.start_time,
        account=intern(account) if account else names.DEFAULT_SERVICE_ACCOUNT,
    )


def in_group(pod: Pod, group: str) -> Pod:
    """A pod as it is once it says that it belongs to a group of this name."""
    annotations = {**pod.annotations, names.POD_GROUP_ANNOTATION: group}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations)
    )


def without_mig_words(pod: Pod) -> Pod:
    """A pod of another scheduler as it counts: with the MIG devices of its specification, which the kubelet
    gives it. Those of its annotations would be kept from others, and no queue pays for them.
    """
    annotations = pod.metadata.annotations
    if not annotations or names.MIG_PREFIX not in "".join(annotations):
        return pod
    kept = {key: text for key, text in annotations.items() if not is_mig(key)}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=kept or None)
    )


def status(facts: PodFacts, *, now: float, stuck_after: float) -> Status:
    """The state of a pod as snapshots see it.

    ``now`` is in Unix seconds. Nothing else counts than the arguments. What is deleted before it had a place
    has failed: it holds nothing, and no gang may count on it.
    """
    match facts.phase:
        case "Running":
            if facts.deleted_at:
                return _leaving(facts, now=now, stuck_after=stuck_after)
            return Status.RELEASING if facts.evicting else Status.RUNNING
        case "Pending":
            placed = facts.node_name or facts.assumed_node
            if facts.deleted_at and not placed:
                return Status.FAILED  # it holds nothing, and its gang must not count on it
            if facts.deleted_at:
                return _leaving(facts, now=now, stuck_after=stuck_after)
            if facts.evicting and placed:
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


def changes_at(facts: PodFacts, status: Status, *, stuck_after: float) -> float:
    """When time alone changes the state of a pod that is leaving, in Unix seconds; infinite if never."""
    match status:
        case Status.LINGERING:
            return facts.deleted_at - LONG_GRACE_SECONDS
        case Status.RELEASING if facts.deleted_at:
            return facts.deleted_at + stuck_after
        case _:
            return float("inf")


def _leaving(facts: PodFacts, *, now: float, stuck_after: float) -> Status:
    """Of a pod that has a place and was deleted. Its deletion time is when it is to have ended."""
    if now - facts.deleted_at > stuck_after:
        return Status.STUCK_IN_RELEASING
    # Whom the scheduler evicted for somebody is waited for: who waits would cost another one his place else.
    if facts.deleted_at - now > LONG_GRACE_SECONDS and not facts.evicting:
        return Status.LINGERING
    return Status.RELEASING
