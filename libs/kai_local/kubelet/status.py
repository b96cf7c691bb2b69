"""What a kubelet writes into the status of a pod."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from kai.snapshot.times import rfc3339
from kai_local.kubelet.ledger import Rejection
from kai_local.kubelet.life import ContainerLife, PodLife
from kai_local.kubelet.references import Missing
from kai_local.parts.disruptions import disruption
from kai_local.parts.objects import LocalContainer, LocalPod

Json = dict[str, Any]
_NODE_ADDRESS = "127.0.0.1"


def rejected(rejection: Rejection, now: float) -> Json:
    """The node does not take the pod."""
    return {
        "phase": "Failed",
        "reason": rejection.reason,
        "message": rejection.message,
        "startTime": rfc3339(now),
    }


def waiting(pod: LocalPod, missing: Missing, since: float, now: float) -> Json:
    """The pod is here but its containers cannot start."""
    state = {"waiting": {"reason": missing.reason, "message": missing.message}}
    return {
        "phase": "Pending",
        "hostIP": _NODE_ADDRESS,
        "startTime": rfc3339(since),
        "conditions": _conditions(pod, initialized=True, ready=False, started=False, now=now),
        "containerStatuses": [
            _container(container, state, ready=False, restarts=0) for container in pod.spec.containers
        ],
    }


def running(pod: LocalPod, life: PodLife, now: float) -> Json:
    """At least one container runs, or will again."""
    status = {
        "phase": "Running",
        "hostIP": _NODE_ADDRESS,
        "hostIPs": [{"ip": _NODE_ADDRESS}],
        "startTime": rfc3339(life.started_at),
        "conditions": _conditions(pod, initialized=True, ready=life.ready, started=True, now=now),
        "containerStatuses": _containers(pod, life),
        **_init_containers(pod, life),
    }
    if life.address:
        status |= {"podIP": life.address, "podIPs": [{"ip": life.address}]}
    return status


def ended(pod: LocalPod, life: PodLife, now: float, reason: str = "", message: str = "") -> Json:
    """All containers have ended for good, or will never be made. Where somebody has a reason, it failed."""
    failed = bool(reason) or not life.containers or any(one.exit_code for one in life.containers)
    completed = "" if failed else "PodCompleted"
    status: Json = {
        "phase": "Failed" if failed else "Succeeded",
        "conditions": _conditions(
            pod, initialized=True, ready=False, started=False, now=now, reason=completed
        ),
    }
    if life.containers:
        status["containerStatuses"] = _containers(pod, life)
    return status | ({"reason": reason, "message": message} if reason else {})


def lost(now: float) -> Json:
    """The node of the pod is no longer there."""
    condition = disruption("DeletionByPodGC", "PodGC: node no longer exists", at=rfc3339(now))
    return {"phase": "Failed", "conditions": [condition]}


def _conditions(
    pod: LocalPod, *, initialized: bool, ready: bool, started: bool, now: float, reason: str = ""
) -> list[Json]:
    gates = [str(gate.get("conditionType")) for gate in pod.spec.readiness_gates or ()]
    open_gates = all((c := pod.condition(gate)) is not None and c.status == "True" for gate in gates)
    wanted = {
        "PodReadyToStartContainers": started,
        "Initialized": initialized,
        "Ready": ready and open_gates,
        "ContainersReady": ready,
        "PodScheduled": True,
    }
    return [_condition(pod, kind, true=true, now=now, reason=reason) for kind, true in wanted.items()]


def _condition(pod: LocalPod, kind: str, *, true: bool, now: float, reason: str) -> Json:
    status = "True" if true else "False"
    before = pod.condition(kind)
    unchanged = before is not None and before.status == status and before.last_transition_time
    condition: Json = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": before.last_transition_time if before and unchanged else rfc3339(now),
    }
    if reason and (kind in ("Initialized", "Ready", "ContainersReady")):
        condition["reason"] = reason
    elif not true and kind in ("Ready", "ContainersReady"):
        condition["reason"] = "ContainersNotReady"
        names = " ".join(container.name for container in pod.spec.containers)
        condition["message"] = f"containers with unready status: [{names}]"
    elif before is not None and (before.reason or before.message):
        condition |= {"reason": None, "message": None}  # of a scheduler that could not place it earlier
    return condition


def _containers(pod: LocalPod, life: PodLife) -> list[Json]:
    return [
        _container(
            container,
            _state(container, one, pod.metadata.uid),
            ready=one.running and life.ready,
            restarts=one.restarts,
            pod=pod,
            devices=life.devices.get(container.name),
            last=_terminated(container, one, one.restarts_at, pod.metadata.uid) if one.restarts_at else None,
        )
        for container, one in zip(pod.spec.containers, life.containers, strict=True)
    ]


def _init_containers(pod: LocalPod, life: PodLife) -> Json:
    if not pod.spec.init_containers:
        return {}
    at = rfc3339(life.started_at)
    done: Json = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}
    statuses = [
        _container(
            container,
            {"running": {"startedAt": at}} if container.restart_policy == "Always" else done,
            ready=True,
            restarts=0,
            pod=pod,
        )
        for container in pod.spec.init_containers
    ]
    return {"initContainerStatuses": statuses}


def _container(
    container: LocalContainer,
    state: Json,
    *,
    ready: bool,
    restarts: int,
    pod: LocalPod | None = None,
    devices: dict[str, list[str]] | None = None,
    last: Json | None = None,
) -> Json:
    """A container's status. What a device plugin assigned stands where KEP-4680 puts it."""
    status: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    if pod is not None:
        status["imageID"] = f"simulated://{container.image}"
        status["containerID"] = _container_id(pod.metadata.uid, container.name, restarts)
    if devices:
        status["allocatedResourcesStatus"] = [
            {"name": resource, "resources": [{"resourceID": device, "health": "Healthy"} for device in ids]}
            for resource, ids in devices.items()
        ]
    return status


def _state(container: LocalContainer, life: ContainerLife, uid: str) -> Json:
    if life.restarts_at is not None:
        backoff = int(life.restarts_at - (life.ends_at or 0))
        message = f"back-off {backoff}s restarting failed container={container.name}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    if life.ended_at is not None:
        return _terminated(container, life, life.ended_at, uid)
    return {"running": {"startedAt": rfc3339(life.started_at)}}


def _terminated(container: LocalContainer, life: ContainerLife, at: float, uid: str) -> Json:
    return {
        "terminated": {
            "exitCode": life.exit_code,
            "reason": "Error" if life.exit_code else "Completed",
            "startedAt": rfc3339(life.started_at),
            "finishedAt": rfc3339(life.ends_at if life.ends_at is not None else at),
            "containerID": _container_id(uid, container.name, life.restarts),
        }
    }


def _container_id(uid: str, name: str, restarts: int) -> str:
    return f"simulated://{uuid5(NAMESPACE_OID, f'{uid}/{name}/{restarts}').hex}"
