"""ReplicaSets: as many pods as wanted."""

from __future__ import annotations

from collections.abc import Sequence

from kai.kube import resources
from kai.snapshot.times import seconds
from kai_local.controllers.actions import Action, Create, Delete, Patch, Plan
from kai_local.controllers.objects import (
    Workload,
    active,
    by_worth,
    changed,
    owner_reference,
    pod_from_template,
)
from kai_local.parts.objects import LocalPod

_AT_ONCE = 500


def reconcile(replica_set: Workload, pods: Sequence[LocalPod], now: float) -> Plan:
    """Make or delete pods, and say how many there are. ``pods`` are those that it controls."""
    meta = replica_set.metadata
    alive = active(pods)
    actions: list[Action] = []
    if not replica_set.terminating:
        missing = int(replica_set.spec.get("replicas", 1)) - len(alive)
        actions += [_new_pod(replica_set) for _ in range(min(missing, _AT_ONCE))]
        actions += [Delete.of(resources.PODS, pod) for pod in by_worth(alive)[: max(0, -missing)]]
    ready = [pod for pod in alive if pod.ready]
    least = float(replica_set.spec.get("minReadySeconds") or 0)
    waits = [wait for pod in ready if (wait := _ready_since(pod) + least - now) > 0]
    status = {
        "replicas": len(alive),
        "fullyLabeledReplicas": len(alive),
        "readyReplicas": len(ready),
        "availableReplicas": len(ready) - len(waits),
        "observedGeneration": meta.generation,
    }
    if changed(replica_set.status, status):
        actions.append(Patch(resources.REPLICA_SETS, meta.namespace, meta.name, {"status": status}, "status"))
    return Plan(actions, min(waits, default=None))


def _new_pod(replica_set: Workload) -> Create:
    owner = owner_reference("apps/v1", "ReplicaSet", replica_set)
    pod = pod_from_template(replica_set.template, owner)
    pod["metadata"]["generateName"] = f"{replica_set.metadata.name}-"
    return Create(resources.PODS, replica_set.metadata.namespace, pod)


def _ready_since(pod: LocalPod) -> float:
    condition = pod.condition("Ready")
    return seconds(condition.last_transition_time) if condition is not None else 0.0
