"""Answers for pod groups, pods and queues of a situation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kai.answers.answer import Amounts, Answer, Code, Ladder, Position, Reason, Verdict
from kai.answers.groups import answer_pod_group, nothing_waits
from kai.answers.situation import Situation
from kai.engine.explain import outcomes
from kai.engine.explain.job_order import job_order
from kai.engine.framework.session import Session
from kai.engine.reasons.amounts import amount_text
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey
from kai.model.words import counted
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, Status

_OVER = (
    Status.SUCCEEDED,
    Status.FAILED,
    Status.RELEASING,
    Status.STUCK_IN_RELEASING,
    Status.LINGERING,
)
#: How the names of numbers end that a reason counts of a queue.
_OF_A_QUEUE = ("Held", "Limit", "Quota", "FairShare")


def answer_pod(situation: Situation, key: str) -> Answer | None:
    """Why a pod (``namespace/name``) is where it is; None if the scheduler knows none of this name.

    A pod that waits waits for what its pod group waits for.
    """
    namespace, _, name = key.partition("/")
    fault = situation.faults.get(("Pod", key))
    task = situation.state.task(key)
    if fault is not None and (task is None or not ACTIVE_ALLOCATED[task.status]):
        text = f"the scheduler goes on without pod {key}: {fault.message}"
        reason = Reason(code=Code.NOT_TAKEN_IN, text=text, amounts={"reason": fault.reason})
        group = task.job.name if task is not None and task.job is not None else ""
        return _of_pod(key, group, Verdict.CHANGE, reason, Ladder())
    if task is None:
        return None
    group = task.job.name if task.job is not None else ""
    if ACTIVE_ALLOCATED[task.status]:
        return _of_pod(key, group, Verdict.RUNS, _where(task, fault), None)
    if task.status in _OVER:
        what = "has ended" if task.status in (Status.SUCCEEDED, Status.FAILED) else "is being deleted"
        text = f"the pod {what}; it waits for nothing"
        reason = Reason(code=Code.ENDED, text=text, amounts={"status": task.status.label})
        return _of_pod(key, group, Verdict.RUNS, reason, None)
    if task.job is None:
        return _ungrouped(task)
    found = answer_pod_group(situation, task.job.key)
    assert found is not None
    if found.verdict is Verdict.RUNS and task.uid in task.job.invalid:
        return _stray(task)
    return msgspec.structs.replace(found, kind="Pod", namespace=namespace, name=name)


def _of_pod(key: str, group: str, verdict: Verdict, reason: Reason, ladder: Ladder | None) -> Answer:
    namespace, _, name = key.partition("/")
    return Answer(
        kind="Pod",
        namespace=namespace,
        name=name,
        pod_group=group,
        verdict=verdict,
        reason=reason,
        stages=Ladder().all_passed() if ladder is None else ladder.failed(reason),
    )


def _where(task: Task, fault: Fault | None) -> Reason:
    place = task.node or task.pipelined_node
    name = place.name if place is not None else ""
    text = f"the pod is {task.status.label.lower()} on {name}" + (f"; {fault.message}" if fault else "")
    return Reason(code=Code.RUNNING, text=text, amounts={"node": name, "status": task.status.label})


def _stray(task: Task) -> Answer:
    """A pod beside a group that runs without it."""
    job = task.job
    assert job is not None
    named = task.facts.sub_group if task.facts is not None else ""
    parts = sorted(job.pod_sets)
    has = ", ".join(parts)
    text = f"the pod names subgroup {named!r}, which pod group {job.key} does not have; it has {has}"
    reason = Reason(code=Code.UNKNOWN_SUB_GROUP, text=text, amounts={"subGroup": named, "subGroups": parts})
    ladder = Ladder()
    ladder.passes("known to the scheduler")
    return _of_pod(task.key, job.name, Verdict.CHANGE, reason, ladder)


def _ungrouped(task: Task) -> Answer:
    """A pod of our scheduler that belongs to no pod group that there is."""
    facts = task.facts
    group = facts.group_key.partition("/")[2] if facts is not None else ""
    ladder = Ladder()
    ladder.passes("known to the scheduler")
    if group:
        text = f"the pod names pod group {group!r}, which does not exist"
        reason = Reason(code=Code.POD_GROUP_MISSING, text=text, amounts={"podGroup": group})
    else:
        reason = Reason(code=Code.NOT_GROUPED, text="no pod-grouper has put the pod into a pod group")
    return _of_pod(task.key, group, Verdict.CHANGE if group else Verdict.ESCALATE, reason, ladder)


def answer_pod_groups(situation: Situation, keys: Sequence[PodGroupKey]) -> Answer | None:
    """Of the pod groups of one workload the first that does not run; all of them together if they do.

    None if the scheduler knows none of them.
    """
    found = [answer for key in keys if (answer := answer_pod_group(situation, key)) is not None]
    if not found:
        return None
    waiting = next((answer for answer in found if answer.verdict is not Verdict.RUNS), None)
    return waiting if waiting is not None else _all_run(found)


def _all_run(answers: Sequence[Answer]) -> Answer:
    placed, done = (sum(each.reason.amounts.get(key, 0) for each in answers) for key in ("placed", "done"))
    reason = nothing_waits(placed=placed, done=done)
    known = counted(placed + done, "pod")
    first = answers[0].stages[0]
    stages = (msgspec.structs.replace(first, text=f"{known} known to the scheduler"), *answers[0].stages[1:])
    return msgspec.structs.replace(answers[0], reason=reason, stages=stages) if answers[1:] else answers[0]


def answer_queue(situation: Situation, name: str) -> Answer | None:
    """What of a queue waits, and why the first of it does; None if there is none of this name."""
    state, session = situation.state, situation.session
    queue = state.queues.get(name)
    if queue is None or not queue.exists:
        return None
    if not queue.path:
        return _outside_tree(situation, name)
    line = [
        PodGroupKey(each.id)
        for each in job_order(session).global_order
        if queue in state.jobs[PodGroupKey(each.id)].queue.path
    ]
    stuck = [job for job in state.jobs.values() if (job.pending or job.gated) and queue in job.queue.path]
    head = _numbers(session, queue)
    first = line[0] if line else min((job.key for job in stuck), default=None)
    if first is None:
        reason = Reason(code=Code.RUNNING, text=f"{head}; nothing waits", amounts=_amounts(session, queue, 0))
        return _of_queue(name, Verdict.RUNS, reason, None)
    found = answer_pod_group(situation, first)
    assert found is not None
    text = (
        f"{head}; {counted(len(stuck), 'pod group')} waiting, of which {first} is next: {found.reason.text}"
    )
    amounts = {**_of_first(found.reason, name), **_amounts(session, queue, len(stuck)), "first": str(first)}
    reason = Reason(code=found.reason.code, text=text, amounts=amounts)
    return _of_queue(name, found.verdict, reason, found)


def _outside_tree(situation: Situation, name: str) -> Answer:
    """A queue below one that does not exist, or in a circle: it has neither shares nor a line."""
    state = situation.state
    stuck = [job for job in state.jobs.values() if (job.pending or job.gated) and job.facts.queue == name]
    waiting = f"{counted(len(stuck), 'pod group')} waiting" if stuck else "nothing waits"
    reason = Reason(
        code=Code.QUEUE_MISSING,
        text=f"nothing of queue {name!r} is placed: {outcomes.outside_tree(state, name)}; {waiting}",
        amounts={"queue": name, "waiting": len(stuck)},
    )
    ladder = Ladder()
    ladder.passes("known to the scheduler")
    ladder.passes(waiting)
    answer = _of_queue(name, Verdict.CHANGE, reason, None)
    return msgspec.structs.replace(answer, stages=ladder.failed(reason))


def _of_first(reason: Reason, queue: str) -> Amounts:
    """What is counted of the next that waits, without numbers of another queue that is in its way."""
    if reason.amounts.get("queue", queue) == queue:
        return reason.amounts
    return {key: value for key, value in reason.amounts.items() if not key.endswith(_OF_A_QUEUE)}


def _of_queue(name: str, verdict: Verdict, reason: Reason, first: Answer | None) -> Answer:
    return Answer(
        kind="Queue",
        namespace="",
        name=name,
        pod_group=first.pod_group if first is not None else "",
        verdict=verdict,
        reason=reason,
        stages=first.stages if first is not None else Ladder().all_passed(),
        changes=first.changes if first is not None else (),
        position=Position(queue=name, ahead=0, of=int(reason.amounts["waiting"]))
        if first is not None
        else None,
    )


def _numbers(session: Session, queue: Queue) -> str:
    fair = round(float(session.shares.fair[queue.row][GPU]), 2)
    held = queue.allocated.gpu_centi / GPU_CENTI
    return (
        f"queue {queue.name!r} holds {amount_text(GPU, held)} (fair share {amount_text(GPU, fair)}, "
        f"quota {amount_text(GPU, queue.deserved[GPU])}, limit {amount_text(GPU, queue.limit[GPU])})"
    )


def _amounts(session: Session, queue: Queue, waiting: int) -> dict[str, object]:
    return {
        "queue": queue.name,
        "gpuHeld": queue.allocated.gpu_centi / GPU_CENTI,
        "gpuFairShare": round(float(session.shares.fair[queue.row][GPU]), 2),
        "gpuQuota": queue.deserved[GPU],
        "gpuLimit": queue.limit[GPU],
        "waiting": waiting,
    }


__all__ = ["answer_pod", "answer_pod_group", "answer_pod_groups", "answer_queue"]
