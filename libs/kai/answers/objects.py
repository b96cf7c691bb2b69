"""What only the objects of the API say: of work that never reaches the scheduler, and of its past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kai.answers.answer import Answer, Code, Ladder, PastEviction, Reason, Verdict
from kai.model import names
from kai.model.objects import Json, Pod
from kai.model.rules.phases import has_ended
from kai.model.spelling import nearest
from kai.model.words import listed
from kai.snapshot.times import seconds
from kai.workloads.no_pods import is_suspended, why_none, zero_of

#: What Kubernetes calls the scheduler that pods have which name none.
_USUAL: Final = "default-scheduler"
#: Controllers need a moment for the next pod, and a pod-grouper for its pod group.
MAKING_SECONDS: Final = 10.0
_EVICTIONS_TOLD: Final = 10


def is_being_made(newest: float, *, now: float) -> bool:
    """Whether more may be on its way, as something was made a moment ago; both in Unix seconds."""
    return abs(now - newest) < MAKING_SECONDS


def without_scheduler(pod: Pod, *, scheduler_name: str) -> Answer | None:
    """A pod that is not this scheduler's; None if it is."""
    named = pod.spec.scheduler_name or _USUAL
    if named == scheduler_name:
        return None
    amounts = {"schedulerName": named, "expected": scheduler_name}
    if named != _USUAL and nearest(named, [scheduler_name]):
        text = f"schedulerName {named!r} is nobody's; did you mean {scheduler_name!r}?"
        reason = Reason(code=Code.MISSPELT_SCHEDULER, text=text, amounts=amounts)
    else:
        text = f"its schedulerName is {named!r}, so it is not for {scheduler_name!r} to place"
        reason = Reason(code=Code.ANOTHER_SCHEDULER, text=text, amounts=amounts)
    verdict = Verdict.RUNS if pod.spec.node_name or has_ended(pod.status.phase) else Verdict.CHANGE
    return _of_pod(pod, verdict, reason, Ladder())


def without_group(
    pod: Pod, *, exists: bool, now: float, warnings: Sequence[str] = (), groupers: int | None = None
) -> Answer | None:
    """A pod of this scheduler's that is in no pod group, or in one that does not exist; None if it is in one.

    Args:
        pod: as the API server has it.
        exists: whether the pod group that it names exists.
        now: Unix seconds.
        warnings: what the pod-grouper said about the pod in events, the newest last.
        groupers: how many pod-groupers are ready; None where that is not known.
    """
    named = pod.annotations.get(names.POD_GROUP_ANNOTATION, "")
    if (named and exists) or pod.spec.node_name or has_ended(pod.status.phase):
        return None
    ladder = Ladder()
    ladder.passes("it is this scheduler's")
    if named:
        text = f"pod {pod.metadata.name} names pod group {named!r}, which does not exist"
        reason = Reason(code=Code.POD_GROUP_MISSING, text=text, amounts={"podGroup": named})
        return _of_pod(pod, Verdict.CHANGE, reason, ladder)
    if warnings:
        text = f"the pod-grouper cannot group it: {warnings[-1]}"
        return _of_pod(pod, Verdict.CHANGE, Reason(code=Code.GROUPING_FAILED, text=text), ladder)
    since = max(now - seconds(pod.metadata.creation_timestamp), 0.0)
    amounts: dict[str, Any] = {"waitingSeconds": round(since), "podGroupersReady": groupers}
    text = f"pod {pod.metadata.name} is in no pod group after {since:.0f} s"
    if pod.annotations.get(names.SKIP_POD_GROUPER) == "true":
        text += f", and its annotation {names.SKIP_POD_GROUPER} keeps the pod-grouper from it: "
        text += f"annotate it with {names.POD_GROUP_ANNOTATION}"
        return _of_pod(pod, Verdict.CHANGE, Reason(code=Code.NOT_GROUPED, text=text, amounts=amounts), ladder)
    if groupers == 0:
        text += ": no pod-grouper is ready"
    elif since >= MAKING_SECONDS:
        text += ": the pod-grouper is silent; its log may say why"
    verdict = Verdict.WAIT if since < MAKING_SECONDS and groupers != 0 else Verdict.ESCALATE
    return _of_pod(pod, verdict, Reason(code=Code.NOT_GROUPED, text=text, amounts=amounts), ladder)


def _of_pod(pod: Pod, verdict: Verdict, reason: Reason, ladder: Ladder) -> Answer:
    return Answer(
        kind="Pod",
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        pod_group=pod.annotations.get(names.POD_GROUP_ANNOTATION, ""),
        verdict=verdict,
        reason=reason,
        stages=ladder.all_passed() if verdict is Verdict.RUNS else ladder.failed(reason),
    )


def without_pods(owner: Json, *, now: float) -> Answer:
    """A workload (Job, Deployment …) that has no pods, by what it says itself; ``now`` in Unix seconds."""
    meta = owner.get("metadata") or {}
    kind, name = str(owner.get("kind", "")), str(meta.get("name", ""))
    reason, verdict = _without_pods(f"{kind} {name}", owner, now=now)
    return Answer(
        kind=kind,
        namespace=str(meta.get("namespace", "")),
        name=name,
        pod_group="",
        verdict=verdict,
        reason=reason,
        stages=Ladder().all_passed() if verdict is Verdict.RUNS else Ladder().failed(reason),
    )


def _without_pods(what: str, owner: Json, *, now: float) -> tuple[Reason, Verdict]:
    status, why = owner.get("status") or {}, f"{what} {why_none(owner)}"
    if is_suspended(owner):
        return Reason(code=Code.SUSPENDED, text=why), Verdict.CHANGE
    if _complete(status):
        return Reason(code=Code.ENDED, text=f"{what} has ended"), Verdict.RUNS
    if zero := zero_of(owner):
        return Reason(code=Code.NO_PODS, text=why, amounts={zero: 0}), Verdict.CHANGE
    said = [
        str(each.get("message"))
        for each in status.get("conditions") or ()
        if isinstance(each, dict) and each.get("message") and each.get("status") == "True"
    ]
    text = f"{what} has no pods: its controller has made none"
    if said:
        return Reason(code=Code.NO_PODS, text=f"{text} ({said[-1]})"), Verdict.CHANGE
    created = seconds(str((owner.get("metadata") or {}).get("creationTimestamp") or ""))
    if is_being_made(created, now=now):
        return Reason(code=Code.NO_PODS, text=f"{text} yet"), Verdict.WAIT
    return Reason(code=Code.NO_PODS, text=text), Verdict.CHANGE


def _complete(status: Json) -> bool:
    ended = ("Complete", "Failed", "Completed", "Succeeded", "SuccessCriteriaMet")
    return any(
        isinstance(each, dict) and each.get("type") in ended and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )


# --- what objects add to an answer of the engine ---------------------------------------------------
def with_gates(answer: Answer, pods: Iterable[Pod]) -> Answer:
    """The names of the scheduling gates that hold pods back."""
    if answer.reason.code is not Code.GATED:
        return answer
    gates = sorted(
        {
            str(gate.get("name"))
            for pod in pods
            if not pod.spec.node_name
            for gate in pod.spec.scheduling_gates or ()
        }
    )
    if not gates:
        return answer
    text = answer.reason.text.replace(
        "a scheduling gate", f"scheduling gate{'s' if len(gates) > 1 else ''} {listed(gates)}"
    )
    return _with_reason(
        answer,
        msgspec.structs.replace(answer.reason, text=text, amounts=answer.reason.amounts | {"gates": gates}),
    )


def with_failed_binds(answer: Answer, pods: Iterable[Pod]) -> Answer:
    """How the last bind failed, where everything else is passed."""
    if answer.reason.code not in (Code.NEXT_CYCLE, Code.RUNNING):
        return answer
    for pod in pods:
        failed = [
            c.message for c in pod.status.conditions or () if (c.type, c.status) == (names.POD_BOUND, "False")
        ]
        if failed and not pod.spec.node_name:
            text = f"the last bind of pod {pod.metadata.name} failed: {failed[-1]}; it is tried again"
            reason = Reason(code=Code.BIND_FAILED, text=text, amounts={"pod": pod.metadata.name})
            ladder = Ladder()
            for stage in answer.stages[:-1]:
                ladder.passes(stage.text)
            return msgspec.structs.replace(
                answer, verdict=Verdict.WAIT, reason=reason, stages=ladder.failed(reason)
            )
    return answer


def _with_reason(answer: Answer, reason: Reason) -> Answer:
    """Another text for the same reason."""
    old = answer.reason.text
    stages = tuple(
        msgspec.structs.replace(stage, text=reason.text) if stage.text == old else stage
        for stage in answer.stages
    )
    return msgspec.structs.replace(answer, reason=reason, stages=stages)


def evictions(events: Iterable[Mapping[str, Any]]) -> tuple[PastEviction, ...]:
    """Evictions that the events of a pod group tell of, the newest first; those of one decision are one."""
    found: dict[tuple[str, str, str], PastEviction] = {}
    evictions = [each for each in events if each.get("reason") == "Evict"]
    for event in sorted(evictions, key=_moment, reverse=True):
        meta = event.get("metadata") or {}
        annotations = meta.get("annotations") or {}
        name = annotations.get("evictor-pod-group-name", "")
        by = f"{annotations.get('evictor-pod-group-namespace', '')}/{name}" if name else ""
        action = str(annotations.get("evictor-action-type", ""))
        at = _moment(event)
        why = str(event.get("note") or event.get("message") or "").replace("\n", " ")
        found.setdefault((at, by, action), PastEviction(at=at, by=by, action=action, why=why))
    return tuple(found.values())[:_EVICTIONS_TOLD]


def _moment(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    text = str(at or (event.get("metadata") or {}).get("creationTimestamp") or "")
    return f"{text.partition('.')[0]}Z" if "." in text else text
