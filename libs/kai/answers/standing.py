"""Whether work is grouped, admitted, complete and within its limits: what no look at nodes changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from kai.answers.answer import Amounts, Code, Reason
from kai.engine.explain import outcomes, phrases
from kai.engine.framework.session import Session
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.requests import asked
from kai.engine.reasons import Unschedulable
from kai.engine.reasons.amounts import amount_text
from kai.model import condition_texts, decisions
from kai.model.spelling import nearest
from kai.model.words import counted, listed
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, Node, PodSet, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

#: What is told of a stage that is passed, or why it is not.
Finding: TypeAlias = str | Reason

_COLUMNS: Final = (CPU, MEMORY, GPU)
_KINDS: Final = ("cpu", "memory", "gpu")
_DENIALS: Final[Mapping[str, Code]] = {
    decisions.Reason.PRIORITY_CLASS_DENIED: Code.PRIORITY_DENIED,
    decisions.Reason.QUEUE_DOES_NOT_EXIST: Code.QUEUE_MISSING,
    decisions.Reason.QUEUE_ACCESS_DENIED: Code.QUEUE_CLOSED,
}


def tasks_of(job: Job) -> list[Task]:
    """All pods of a job in order of their names, those of no subgroup too."""
    found = [task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values()]
    return sorted([*found, *job.invalid.values()], key=lambda task: task.name)


def grouped(job: Job) -> Finding:
    """Its tree is sound, and each pod has its place in it."""
    if job.error:
        return Reason(code=Code.INVALID_POD_GROUP, text=f"pod group {job.key}: {job.error}")
    if job.invalid and not tasks_to_allocate(job):
        strays = sorted(task.name for task in job.invalid.values())
        parts = sorted(job.pod_sets)
        return Reason(
            code=Code.UNKNOWN_SUB_GROUP,
            text=(
                f"{counted(len(strays), 'pod')} ({listed(strays)}) name a subgroup that pod group {job.key} "
                f"does not have; it has {listed(parts)}"
            ),
            amounts={"pods": len(strays), "subGroups": parts},
        )
    return f"pod group {job.key}"


def admitted(state: ClusterState, job: Job) -> Finding:
    """Its queue is there, is a leaf, is open to it, and has not given it up."""
    name = job.facts.queue
    if not job.queue.exists or not job.queue.path:
        leaves = _leaves(state)
        found = outcomes.without_queue(state, job).message.partition("; pods that run")[0]
        if leaves:
            found += f"; leaf queues are {listed(leaves)}"
        own = state.queues.get(name)
        if (own is None or not own.exists) and (near := nearest(name, leaves)):
            found += f"; did you mean {near!r}?"
        return Reason(code=Code.QUEUE_MISSING, text=found, amounts={"queue": name, "leaves": leaves})
    if not job.queue.leaf:
        leaves = sorted(queue.name for queue in state.queue_rows if queue.leaf and job.queue in queue.path)
        return Reason(
            code=Code.QUEUE_NOT_LEAF,
            text=f"queue {name!r} has child queues, and work runs in leaf queues only: {listed(leaves)}",
            amounts={"queue": name, "leaves": leaves},
        )
    for task in tasks_of(job):
        if task.status is Status.GATED and (denied := outcomes.denial(state, task)) is not None:
            return Reason(code=_DENIALS[denied.reason], text=denied.message, amounts={"queue": name})
    if (attempt := outcomes.single_attempt(state, job)) is not None:
        told = condition_texts.own_text(attempt.message, pool=attempt.node_pool)
        return Reason(
            code=Code.GIVEN_UP,
            text=(
                f"pod group {job.key} wants a single attempt (spec.schedulingBackoff 1), which failed: "
                f"{told}; it is tried again once that field says -1"
            ),
            amounts={"queue": name, "nodePool": attempt.node_pool},
        )
    return f"queue {name}"


def _leaves(state: ClusterState) -> list[str]:
    return sorted(queue.name for queue in state.queue_rows if queue.leaf)


def _existing(pods: PodSet) -> str:
    """How many of those that are needed there are; one that is about to go does not count for the others."""
    going = pods.alive - pods.gated - pods.pending - pods.active_allocated
    text = f"{pods.alive + pods.succeeded - going} of the {pods.min_member} that are needed exist"
    return f"{text} beside {counted(going, 'pod')} about to go" if going else text


def complete(job: Job) -> Finding:
    """There are enough pods, and nobody holds them back."""
    tasks = tasks_of(job)
    exist = sum(task.status not in (Status.SUCCEEDED, Status.FAILED) for task in tasks)
    needed = sum(pod_set.min_member for pod_set in job.pod_sets.values())
    if job.ready and tasks_to_allocate(job):
        return f"{counted(exist, 'pod')}, {needed} needed at least"
    amounts: Amounts = {"pods": exist, "gated": job.gated, "needed": needed}
    if job.gated:
        held = sorted(task.name for task in tasks if task.status is Status.GATED)
        text = f"{counted(len(held), 'pod')} ({listed(held)}) held back by a scheduling gate"
        return Reason(code=Code.GATED, text=text, amounts=amounts | {"held": held})
    if not exist and not job.succeeded:
        return Reason(code=Code.NO_PODS, text=f"pod group {job.key} has no pods yet", amounts=amounts)
    parted = [each for _, each in sorted(job.pod_sets.items())]
    short = [each for each in parted if not each.ready] or [each for each in parted if each.pending]
    parts = listed(
        [_existing(each) + (f" in subgroup {each.name}" if len(job.pod_sets) > 1 else "") for each in short]
    )
    return Reason(
        code=Code.PODS_MISSING, text=f"pods are missing: {parts or phrases.not_ready(job)}", amounts=amounts
    )


def within_limits(session: Session, job: Job, tasks: Sequence[Task]) -> Finding:
    """Its queue and those above may take so much more."""
    over = session.over_capacity(job, list(tasks)) or _over_on_each_node(session, job, tasks)
    if over is None:
        return f"queue {job.queue.name} and those above may take {_asked(session, tasks)}"
    return _beyond(over, job)


def _over_on_each_node(session: Session, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
    """Where memory of GPUs is asked for, which part of one that is depends on the node.

    The reason is that of the node where it is least, if none of those that the pod may go to would do.
    """
    for task in tasks:
        if not task.cls.gpu_memory_mib:
            continue
        allowed = session.static.mask(task.cls)
        nodes = [node for node in session.nodes.nodes if allowed[node.row] and node.gpus > 0]
        nodes.sort(key=lambda node: (-node.gpu_memory_mib, node.name))
        found = [_refusal_on(session, job, task, node) for node in nodes]
        if found and all(found):
            return found[0]
    return None


def _refusal_on(session: Session, job: Job, task: Task, node: Node) -> Unschedulable | None:
    """Why a pod would be beyond a limit or quota on a node, where that depends on the node."""
    if not task.cls.gpu_memory_mib:
        return None
    reasons = (quota.refuse_on(job, task, node) for quota in session.plugins.quotas)
    return next((why for why in reasons if why is not None), None)


def _beyond(over: Unschedulable, job: Job) -> Reason:
    details = (over.details or {}).get("queueDetails") or {}
    firm = over.reason is decisions.Reason.NON_PREEMPTIBLE_OVER_QUOTA
    bound, held, asked = (
        (
            "queueDeservedResources",
            "queueAllocatedNonPreemptibleResources",
            "podGroupRequestedNonPreemptibleResources",
        )
        if firm
        else ("queueResourceLimits", "queueAllocatedResources", "podGroupRequestedResources")
    )
    amounts: Amounts = {"queue": details.get("name", job.queue.name)}
    lines: list[str] = []
    word = "quota" if firm else "limit"
    for column, kind in zip(_COLUMNS, _KINDS, strict=True):
        top, has, wants = (float(details.get(key, {}).get(kind, 0)) for key in (bound, held, asked))
        if wants and 0 <= top < has + wants - 1e-6:
            amounts |= {f"{kind}Asked": wants, f"{kind}Held": has, f"{kind}{word.capitalize()}": top}
            lines.append(
                f"{amount_text(column, wants)} asked, {amount_text(column, has)} held, "
                f"{word} {amount_text(column, top)}"
            )
    what = "quota, which is all that work that cannot be preempted may hold" if firm else "limit"
    text = f"queue {amounts['queue']!r} would exceed its {what}: {'; '.join(lines)}"
    return Reason(code=Code.OVER_QUOTA if firm else Code.OVER_LIMIT, text=text, amounts=amounts)


def _asked(session: Session, tasks: Sequence[Task]) -> str:
    found = asked(tasks, gpu_memory_mib=session.state.max_gpu_memory_mib)
    parts = [
        amount_text(column, amount)
        for column, amount in (
            (GPU, found.gpu_centi / GPU_CENTI),
            (CPU, found.cpu_millis),
            (MEMORY, found.memory_bytes),
        )
        if amount
    ]
    return ", ".join(parts) or "it"
