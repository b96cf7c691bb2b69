"""Deployments: one ReplicaSet for each pod template, and the change from one to the next."""

from __future__ import annotations

from collections.abc import Sequence

from kai.kube import resources
from kai.model.objects import Json
from kai.snapshot.times import rfc3339
from kai_local.controllers.actions import Action, Create, Delete, Patch, Plan
from kai_local.controllers.objects import (
    Workload,
    changed,
    condition,
    content_hash,
    owner_reference,
    scaled,
)
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import controller_of

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def reconcile(
    deployment: Workload, replica_sets: Sequence[Workload], pods: Sequence[LocalPod], now: float
) -> Plan:
    """Scale the ReplicaSets towards the current template.

    ``replica_sets`` are those that it controls, and ``pods`` all that are there of these.
    """
    if deployment.terminating:
        return Plan()
    wanted = int(deployment.spec.get("replicas", 1))
    digest = content_hash(deployment.template)
    new = next((one for one in replica_sets if one.labels.get(_HASH) == digest), None)
    old = sorted((one for one in replica_sets if one is not new), key=_revision)
    waits = _recreates(deployment) and _old_ones_live(old, new, pods)
    actions: list[Action] = []
    revision = max((_revision(one) for one in old), default=0) + 1
    if deployment.spec.get("paused"):
        if new is not None and not any(map(_replicas, old)):
            actions += _scale(new, wanted)
    elif new is None:
        if not waits:
            replicas = _first_replicas(deployment, old, wanted)
            actions.append(_new_replica_set(deployment, digest, replicas, revision))
    else:
        revision = _keep_revision(new, revision, actions)
    if new is None or not deployment.spec.get("paused"):
        actions += _roll(deployment, new, old, wanted, waits=waits)
    actions += _forget_history(deployment, old)
    if not deployment.spec.get("paused") and deployment.annotations.get(_REVISION) != str(revision):
        annotations = {"annotations": {_REVISION: str(revision)}}
        actions.append(_patch(resources.DEPLOYMENTS, deployment, {"metadata": annotations}))
    status = _status(deployment, new, replica_sets, wanted, now)
    if changed(deployment.status, status):
        actions.append(_patch(resources.DEPLOYMENTS, deployment, {"status": status}, "status"))
    return Plan(actions)


def _limits(deployment: Workload, wanted: int) -> tuple[int, int]:
    """How many pods there may be above, and be missing below, what is wanted."""
    rolling = (deployment.spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), wanted, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def _recreates(deployment: Workload) -> bool:
    return (deployment.spec.get("strategy") or {}).get("type") == "Recreate"


def _old_ones_live(old: Sequence[Workload], new: Workload | None, pods: Sequence[LocalPod]) -> bool:
    """Whether pods of another template are there, of which those that are being deleted still hold ports and
    volumes; their ReplicaSet counts them no more.
    """
    current = new.metadata.uid if new else None
    lives = any(
        not pod.terminal and (owner := controller_of(pod)) is not None and owner.uid != current
        for pod in pods
    )
    return lives or any(_replicas(one) or one.status.get("replicas") for one in old)


def _first_replicas(deployment: Workload, old: Sequence[Workload], wanted: int) -> int:
    """With how many pods a new ReplicaSet begins."""
    if _recreates(deployment):
        return wanted
    surge, _ = _limits(deployment, wanted)
    return max(0, min(wanted, wanted + surge - sum(map(_replicas, old))))


def _roll(
    deployment: Workload, new: Workload | None, old: Sequence[Workload], wanted: int, *, waits: bool
) -> list[Action]:
    if _recreates(deployment):
        actions = [action for one in old for action in _scale(one, 0)]
        return actions + (_scale(new, wanted) if new is not None and not waits else [])
    if new is None:
        return []
    surge, unavailable = _limits(deployment, wanted)
    total = _replicas(new) + sum(map(_replicas, old))
    if _replicas(new) > wanted:
        return _scale(new, wanted)
    if (room := min(wanted - _replicas(new), wanted + surge - total)) > 0:
        return _scale(new, _replicas(new) + room)
    return _shrink(old, new, total=total, least=wanted - unavailable)


def _shrink(old: Sequence[Workload], new: Workload, *, total: int, least: int) -> list[Action]:
    """Take away from the old ones what is not available, then as many as the new ones make up for."""
    new_unavailable = _replicas(new) - _available(new)
    spare = total - least - new_unavailable
    actions: list[Action] = []
    sizes = {one.key: _replicas(one) for one in old}
    for one in old:
        unhealthy = min(sizes[one.key] - _available(one), max(0, spare))
        if unhealthy > 0:
            sizes[one.key] -= unhealthy
            spare -= unhealthy
    surplus = _available(new) + sum(min(_available(one), sizes[one.key]) for one in old) - least
    for one in old:
        taken = max(0, min(sizes[one.key], surplus))
        sizes[one.key] -= taken
        surplus -= taken
        actions += _scale(one, sizes[one.key])
    return actions


def _new_replica_set(deployment: Workload, digest: str, replicas: int, revision: int) -> Create:
    template = deployment.template
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), _HASH: digest}
    selector = deployment.spec.get("selector") or {}
    passed_on = {
        key: value
        for key, value in deployment.annotations.items()
        if key not in (_REVISION, "kubectl.kubernetes.io/last-applied-configuration")
    }
    body: Json = {
        "metadata": {
            "name": f"{deployment.metadata.name}-{digest}",
            "labels": labels,
            "annotations": {**passed_on, _REVISION: str(revision)},
            "ownerReferences": [owner_reference("apps/v1", "Deployment", deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.get("minReadySeconds") or 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), _HASH: digest}},
            "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }
    return Create(resources.REPLICA_SETS, deployment.metadata.namespace, body)


def _keep_revision(new: Workload, revision: int, actions: list[Action]) -> int:
    """The revision of the current template; a template that came back becomes the latest again."""
    if _revision(new) >= revision:
        return _revision(new)
    actions.append(
        _patch(resources.REPLICA_SETS, new, {"metadata": {"annotations": {_REVISION: str(revision)}}})
    )
    return revision


def _forget_history(deployment: Workload, old: Sequence[Workload]) -> list[Action]:
    kept = int(deployment.spec.get("revisionHistoryLimit", 10))
    idle = [one for one in old if not _replicas(one) and not one.status.get("replicas")]
    return [
        Delete(resources.REPLICA_SETS, one.metadata.namespace, one.metadata.name, one.metadata.uid)
        for one in idle[: max(0, len(idle) - kept)]
    ]


def _status(
    deployment: Workload, new: Workload | None, every: Sequence[Workload], wanted: int, now: float
) -> Json:
    available = sum(map(_available, every))
    updated = int((new.status if new else {}).get("replicas") or 0)
    total = sum(int(one.status.get("replicas") or 0) for one in every)
    _, unavailable = _limits(deployment, wanted)
    enough = available >= wanted - unavailable
    complete = updated == wanted == total and available >= wanted
    at = rfc3339(now)
    progress = (
        ("NewReplicaSetAvailable", "has successfully progressed")
        if complete
        else ("ReplicaSetUpdated", "is progressing")
    )
    name = new.metadata.name if new else deployment.metadata.name
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": sum(int(one.status.get("readyReplicas") or 0) for one in every),
        "availableReplicas": available,
        "unavailableReplicas": max(0, max(total, wanted) - available),
        "conditions": [
            condition(
                deployment.status,
                "Available",
                true=enough,
                reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
                now=at,
            ),
            condition(
                deployment.status,
                "Progressing",
                true=True,
                reason=progress[0],
                message=f'ReplicaSet "{name}" {progress[1]}.',
                now=at,
            ),
        ],
    }


def _scale(replica_set: Workload, replicas: int) -> list[Action]:
    if _replicas(replica_set) == replicas:
        return []
    return [_patch(resources.REPLICA_SETS, replica_set, {"spec": {"replicas": replicas}})]


def _patch(resource: resources.Resource, obj: Workload, patch: Json, subresource: str = "") -> Patch:
    return Patch(resource, obj.metadata.namespace, obj.metadata.name, patch, subresource)


def _replicas(replica_set: Workload) -> int:
    return int(replica_set.spec.get("replicas", 1))


def _available(replica_set: Workload) -> int:
    return min(int(replica_set.status.get("availableReplicas") or 0), _replicas(replica_set))


def _revision(replica_set: Workload) -> int:
    text = replica_set.annotations.get(_REVISION, "0")
    return int(text) if text.isdecimal() else 0
