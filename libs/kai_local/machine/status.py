"""What the status of a pod says whose container is a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kai.snapshot.times import rfc3339
from kai_local.machine.launch import Manifest
from kai_local.processes.ports import LOOPBACK
from kai_local.processes.programs import Child, Run, State

Json = dict[str, Any]
_KILLED_BY = 128


@dataclass(frozen=True, slots=True)
class Before:
    """What an earlier life of this program has told of a pod: restarts, and the state that it was in."""

    restarts: int = 0
    last: Json | None = None

    @classmethod
    def of(cls, pod: Manifest) -> Before:
        """What the pod's status says: a container that was started before is started again."""
        [told, *_] = (pod.get("status") or {}).get("containerStatuses") or [{}]
        running = (told.get("state") or {}).get("running")
        if not running:
            return cls(int(told.get("restartCount", 0)), told.get("lastState") or None)
        ended = {"exitCode": 137, "reason": "Error", "message": "it ended with what had started it"}
        return cls(int(told.get("restartCount", 0)) + 1, {"terminated": ended | running})


def unplaced(message: str) -> Json:
    """It has no node, and why."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [condition]}


def waiting(pod: Manifest, reason: str, message: str, now: float) -> Json:
    """Its process cannot be started."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "hostIP": LOOPBACK,
        "conditions": _conditions(pod, ready=False, now=now),
        "containerStatuses": [_container(pod, state, Before(), ready=False)],
    }


def of_process(pod: Manifest, child: Child, before: Before, *, address: str, ready: bool, now: float) -> Json:
    """Its process runs, or will again. ``address`` is the pod's in the network of pods."""
    run, previous = child.run, child.previous
    if child.state in (State.CRASHED, State.STOPPED) and run is not None and run.ended_at:
        name = pod["spec"]["containers"][0]["name"]
        message = f"back-off {child.backoff:g}s restarting failed container={name}"
        state: Json = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        last = _terminated(run)
    else:
        state = {"running": {"startedAt": rfc3339(child.started_at)}}
        last = _terminated(previous) if previous is not None else before.last or {}
    counted = Before(before.restarts + child.restarts, last)
    return {
        "phase": "Running",
        "hostIP": LOOPBACK,
        "hostIPs": [{"ip": LOOPBACK}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": (pod.get("status") or {}).get("startTime") or rfc3339(child.started_at),
        "conditions": _conditions(pod, ready=ready, now=now),
        "containerStatuses": [_container(pod, state, counted, ready=ready)],
    }


def is_final(pod: Manifest, code: int) -> bool:
    """Whether a process that ended so is not to be started again."""
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Never" or (policy == "OnFailure" and code == 0)


def over(pod: Manifest, child: Child, before: Before, *, now: float) -> Json | None:
    """Its process has done what it was for, or failed for good; None if it runs, or will again."""
    run = child.run
    if child.state is not State.STOPPED or run is None or not run.ended_at:
        return None
    code = exit_code(run.exit_status)
    if not is_final(pod, code):
        return None
    counted = Before(before.restarts + child.restarts, before.last)
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": _conditions(pod, ready=False, now=now),
        "containerStatuses": [_container(pod, _terminated(run), counted, ready=False)],
    }


def exit_code(status: int | None) -> int:
    """As a shell tells it: 128 and the signal where one has ended the process."""
    status = status or 0
    return _KILLED_BY - status if status < 0 else status


def _terminated(run: Run) -> Json:
    code = exit_code(run.exit_status)
    found = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": rfc3339(run.started_at),
        "finishedAt": rfc3339(run.ended_at),
    }
    return {"terminated": found | ({"signal": code - _KILLED_BY} if code > _KILLED_BY else {})}


def _container(pod: Manifest, state: Json, before: Before, *, ready: bool) -> Json:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "containerID": f"processes://{pod['metadata']['uid']}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": before.restarts,
        "state": state,
        "lastState": before.last or {},
    }


def _conditions(pod: Manifest, *, ready: bool, now: float) -> list[Json]:
    kinds = {
        "PodReadyToStartContainers": True,
        "Initialized": True,
        "ContainersReady": ready,
        "Ready": ready,
        "PodScheduled": True,
    }
    return [_condition(pod, kind, true=true, now=now) for kind, true in kinds.items()]


def _condition(pod: Manifest, kind: str, *, true: bool, now: float) -> Json:
    status = "True" if true else "False"
    told = (pod.get("status") or {}).get("conditions") or ()
    since = [one.get("lastTransitionTime") for one in told if (one["type"], one["status"]) == (kind, status)]
    condition: Json = {
        "type": kind,
        "status": status,
        "lastTransitionTime": (since and since[0]) or rfc3339(now),
        "reason": None if true else "ContainersNotReady",
        "message": None
        if true
        else f"containers with unready status: [{pod['spec']['containers'][0]['name']}]",
    }
    return condition
