"""The life of a pod on its node, as a state machine without clock and network.

:func:`step` is called when something changed or when a time that it named has come, and answers with
what to write and when it wants to be called again. Times are Unix seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kai.kube.events import EventType
from kai.model import names
from kai.model.objects import Json
from kai.snapshot.times import seconds
from kai_local.kubelet import status
from kai_local.kubelet.ledger import NodeLedger, Rejection, devices_of
from kai_local.kubelet.life import ContainerLife, PodLife, Stage
from kai_local.kubelet.programs import (
    ready_seconds,
    run_of,
    start_seconds,
    terminate_seconds,
    without_effect,
)
from kai_local.kubelet.references import Cluster, Missing, first_missing
from kai_local.parts.objects import LocalPod

#: Something that comes within this time is waited for without a word: the pod's own watch may be ahead.
_QUIET_SECONDS = 1.0
_FIRST_CRASH_BACKOFF = 10.0
_LONGEST_CRASH_BACKOFF = 300.0
#: The exit code of a container that was killed.
_KILLED = 137
#: Reason and message of a pod that was active for too long.
_OVERDUE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


# --- what to write -----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Strategic merge patch of the pod's status."""

    status: Json


@dataclass(frozen=True, slots=True)
class Annotate:
    """Merge patch of the pod's annotations."""

    annotations: dict[str, str]


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the pod at once: its containers have ended."""


@dataclass(frozen=True, slots=True)
class Report:
    """An event about the pod."""

    kind: EventType
    reason: str
    message: str


Effect = PatchStatus | Annotate | Delete | Report


# --- steps -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Step:
    """The answer of a step: ``again_at`` is when to call again if nothing happens before."""

    effects: tuple[Effect, ...] = ()
    again_at: float | None = None


def recover(pod: LocalPod, ledger: NodeLedger) -> PodLife | None:
    """The life of a pod that was running before this process began; ``None`` if it was not."""
    if pod.status.phase != "Running" or not pod.status.container_statuses:
        return None
    devices = devices_of(pod)
    ledger.restore(pod, devices)
    life = PodLife(pod.status.pod_ip, Stage.RUNNING, devices, ready=pod.ready)
    life.started_at = seconds(pod.status.start_time)
    known = {entry["name"]: entry for entry in pod.status.container_statuses}
    for container in pod.spec.containers:
        entry = known.get(container.name, {})
        state = entry.get("state") or {}
        started = seconds((state.get("running") or {}).get("startedAt")) or life.started_at
        run = run_of(pod, container)
        ends_at = None if run.seconds is None else started + run.seconds
        one = ContainerLife(started, ends_at, run.exit_code, int(entry.get("restartCount") or 0))
        if ended := state.get("terminated"):
            one.ended_at, one.exit_code = seconds(ended.get("finishedAt")), int(ended.get("exitCode") or 0)
        life.containers.append(one)
    life.ready_at = life.started_at + _ready_delay(pod)
    return life


def step(pod: LocalPod, life: PodLife, ledger: NodeLedger, cluster: Cluster, now: float) -> Step:
    """Take the pod as far as it can come at ``now``."""
    if pod.terminating:
        return _terminate(pod, life, ledger, now)
    if pod.terminal:  # by us, or because somebody failed it
        life.stage = Stage.ENDED
        ledger.release(pod.metadata.uid)
    if life.stage is Stage.NEW:
        rejected = _admit(pod, life, ledger, now)
        if rejected is not None:
            return rejected
    return Step() if life.stage is Stage.ENDED else _live(pod, life, ledger, cluster, now)


def _admit(pod: LocalPod, life: PodLife, ledger: NodeLedger, now: float) -> Step | None:
    answer = ledger.admit(pod)
    if isinstance(answer, Rejection):
        life.stage = Stage.ENDED
        report = Report("Warning", answer.reason, answer.message)
        return Step((PatchStatus(status.rejected(answer, now)), report))
    life.stage, life.devices, life.waiting_since = Stage.WAITING, answer, now
    return None


def _live(pod: LocalPod, life: PodLife, ledger: NodeLedger, cluster: Cluster, now: float) -> Step:
    """Start the pod or go on with it, unless it has been active for longer than it may."""
    if now >= _deadline(pod, life):
        _kill(life, now)
        ledger.release(pod.metadata.uid)
        patch = PatchStatus(status.ended(pod, life, now, *_OVERDUE))
        return Step((patch, Report("Normal", *_OVERDUE)))
    waits = life.stage is Stage.WAITING
    answer = _start(pod, life, cluster, now) if waits else _run(pod, life, ledger, now)
    times = [] if answer.again_at is None else [answer.again_at]
    if life.stage is not Stage.ENDED and (deadline := _deadline(pod, life)) < math.inf:
        times.append(deadline)
    return Step(answer.effects, min(times, default=None))


def _start(pod: LocalPod, life: PodLife, cluster: Cluster, now: float) -> Step:
    life.missing, made_at = first_missing(pod, cluster), life.waiting_since + start_seconds(pod)
    if life.missing is not None:
        return _wait(pod, life, life.missing, now)
    if now < made_at:
        return Step(again_at=made_at)
    life.stage, life.started_at = Stage.RUNNING, now
    for container in pod.spec.containers:
        run = run_of(pod, container)
        ends_at = None if run.seconds is None else now + run.seconds
        life.containers.append(ContainerLife(now, ends_at, run.exit_code))
    life.ready_at = now + _ready_delay(pod)
    life.ready = life.ready_at <= now
    effects: list[Effect] = []
    reserved = _reserved_device(pod, life)
    if reserved:
        effects.append(Annotate({names.RESERVED_GPU: reserved}))
    effects.append(PatchStatus(status.running(pod, life, now)))
    effects += [Report("Warning", "AnnotationIgnored", each) for each in without_effect(pod)]
    return Step(tuple(effects), _next_time(life))


def _wait(pod: LocalPod, life: PodLife, missing: Missing, now: float) -> Step:
    quiet_until = life.waiting_since + _QUIET_SECONDS
    if now < quiet_until:
        return Step(again_at=quiet_until)
    if life.told == missing:
        return Step()
    life.told = missing
    reason = "FailedMount" if missing.reason == "ContainerCreating" else "Failed"
    patch = PatchStatus(status.waiting(pod, missing, life.waiting_since, now))
    return Step((patch, Report("Warning", reason, missing.message)))


def _run(pod: LocalPod, life: PodLife, ledger: NodeLedger, now: float) -> Step:
    changed = [_advance(pod, container, now) for container in life.containers]
    effects: list[Effect] = []
    if names.RESERVED_GPU not in pod.annotations and (reserved := _reserved_device(pod, life)):
        effects.append(Annotate({names.RESERVED_GPU: reserved}))
    if all(container.ended_at is not None for container in life.containers):
        life.stage = Stage.ENDED
        ledger.release(pod.metadata.uid)
        effects.append(PatchStatus(status.ended(pod, life, now)))
        return Step(tuple(effects))
    ready = now >= life.ready_at and all(container.running for container in life.containers)
    if any(changed) or ready != life.ready:
        life.ready = ready
        effects.append(PatchStatus(status.running(pod, life, now)))
    return Step(tuple(effects), _next_time(life))


def _advance(pod: LocalPod, container: ContainerLife, now: float) -> bool:
    """Let a container end or start again if its time has come; says whether it did."""
    if container.restarts_at is not None and now >= container.restarts_at:
        length = None if container.ends_at is None else container.ends_at - container.started_at
        container.started_at, container.restarts_at = now, None
        container.ends_at = None if length is None else now + length
        container.restarts += 1
        return True
    if not container.running or container.ends_at is None or now < container.ends_at:
        return False
    policy = pod.spec.restart_policy
    if policy == "Always" or (policy == "OnFailure" and container.exit_code):
        backoff = _FIRST_CRASH_BACKOFF * 2 ** min(container.restarts, 10)
        container.restarts_at = now + min(backoff, _LONGEST_CRASH_BACKOFF)
    else:
        container.ended_at = now
    return True


def _terminate(pod: LocalPod, life: PodLife, ledger: NodeLedger, now: float) -> Step:
    """Somebody deleted the pod: its containers end when they are done or when their grace is over."""
    if life.asked_to_end_at is None:
        life.asked_to_end_at = now
    grace = pod.metadata.deletion_grace_period_seconds
    needed = terminate_seconds(pod) if life.stage is Stage.RUNNING else 0.0
    ends_at = life.asked_to_end_at + min(needed, 30.0 if grace is None else grace)
    if now < ends_at:
        return Step(again_at=ends_at)
    held = pod.metadata.finalizers and not pod.terminal and life.stage is not Stage.ENDED
    _kill(life, now)
    ledger.release(pod.metadata.uid)
    # Whoever holds it by a finalizer is to see that it has ended; nobody else could.
    return Step((PatchStatus(status.ended(pod, life, now)), Delete()) if held else (Delete(),))


def _kill(life: PodLife, now: float) -> None:
    """End the containers that have not ended on their own."""
    life.stage = Stage.ENDED
    for container in life.containers:
        if container.running:
            container.ends_at, container.exit_code = now, _KILLED
        container.ended_at, container.restarts_at = container.ended_at or now, None


def _deadline(pod: LocalPod, life: PodLife) -> float:
    limit = pod.spec.active_deadline_seconds
    return math.inf if limit is None else (life.started_at or life.waiting_since) + limit


def _reserved_device(pod: LocalPod, life: PodLife) -> str:
    """The device that a reservation pod's program would report: the simulated node plays its part."""
    if pod.labels.get(names.APP_LABEL) != names.RESERVATION_APP:
        return ""
    held = (ids for container in life.devices.values() for ids in container.values())
    return next((device for ids in held for device in ids), "")


def _ready_delay(pod: LocalPod) -> float:
    return max((ready_seconds(pod, container) for container in pod.spec.containers), default=0.0)


def _next_time(life: PodLife) -> float | None:
    times = [c.ends_at if c.running else c.restarts_at for c in life.containers if c.ended_at is None]
    if not life.ready and all(c.running for c in life.containers):
        times.append(life.ready_at)
    return min((time for time in times if time is not None), default=None)
