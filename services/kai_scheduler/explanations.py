"""The engine's explanations, and what the state tells besides, as messages."""

from __future__ import annotations

from kai.engine.explain.questions import PodAnswer, PodGroupAnswer
from kai.model.decisions import Explanation, Outcome, PodGroupOutcome
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import ACTIVE_ALLOCATED, Status
from kai.wire.session_codec import encode_outcome, encode_shares
from kai.wire.v1 import explain_pb2 as pb
from kai_scheduler.core import Decider


def pod_group(
    engine: Decider, state: ClusterState, key: PodGroupKey, now: float
) -> pb.ExplainPodGroupResponse:
    """Why a pod group (``namespace/name``) is as it is; the engine is asked anew."""
    job = state.jobs.get(key)
    if job is None:
        return pb.ExplainPodGroupResponse()
    answer = _describe(job)
    if job.aside is not None:
        _add_fault(answer, job.aside)
        return answer
    if (found := engine.explain_pod_group(state, key, now=now)) is not None:
        _add_group(answer, found)
    return answer


def _describe(job: Job) -> pb.ExplainPodGroupResponse:
    tasks = [task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values()]
    return pb.ExplainPodGroupResponse(
        found=True,
        queue=job.facts.queue,
        priority=job.priority,
        preemptible=job.preemptible,
        semi_preemptible=job.semi_preemptible,
        min_member=sum(pod_set.min_member for pod_set in job.pod_sets.values()),
        pods=len(tasks),
        pods_pending=sum(task.status in (Status.PENDING, Status.GATED) for task in tasks),
        pods_allocated=sum(ACTIVE_ALLOCATED[task.status] for task in tasks),
        pod_lines=[_line(task) for task in sorted(tasks, key=lambda task: task.name)],
    )


def _line(task: Task) -> pb.PodLine:
    return pb.PodLine(name=task.name, status=_status(task), node=_node(task))


def _status(task: Task) -> str:
    """What a pod waits for that is left out, or kept out of its queue, is told beside it."""
    aside = task.shut_out or (task.job is not None and task.job.aside is not None)
    return (Status.PENDING if aside and task.status is Status.GATED else task.status).label


def _node(task: Task) -> str:
    return task.node.name if task.node is not None else ""


def _add_group(answer: pb.ExplainPodGroupResponse, found: PodGroupAnswer) -> None:
    answer.outcome.CopyFrom(encode_outcome(found.outcome))
    answer.queues.CopyFrom(encode_shares(found.queues))
    answer.remedies.extend(remedy.text for remedy in found.remedies)
    _add_messages(answer, found.outcome)


def _add_fault(answer: pb.ExplainPodGroupResponse, fault: Fault) -> None:
    """Of a group that is left out nothing is asked that could fail."""
    outcome = PodGroupOutcome(
        pod_group=PodGroupKey(fault.key),
        outcome=Outcome.UNSCHEDULABLE,
        message=f"{fault.reason}: {fault.message}",
        explanations=(Explanation(reason=fault.reason, message=fault.message),),
    )
    answer.outcome.CopyFrom(encode_outcome(outcome))


def _add_messages(answer: pb.ExplainPodGroupResponse, outcome: PodGroupOutcome) -> None:
    namespace = outcome.pod_group.partition("/")[0]
    for line in answer.pod_lines:
        line.message = outcome.pod_messages.get(f"{namespace}/{line.name}", "")


def pod(engine: Decider, state: ClusterState, key: str, now: float) -> pb.ExplainPodResponse:
    """Why a pod (``namespace/name``) is where it is, or is nowhere."""
    task = state.task(key)
    fault = state.faults.get((Kind.POD, key)) or state.overruled.get(key)
    if task is None:
        if fault is None:
            return pb.ExplainPodResponse()
        return pb.ExplainPodResponse(found=True, status=fault.reason, message=fault.message)
    answer = pb.ExplainPodResponse(
        found=True,
        pod_group=task.job.key if task.job is not None else "",
        status=_status(task),
        node=_node(task),
    )
    if task.job is not None and task.job.aside is not None and fault is None:
        aside = task.job.aside
        answer.message = f"its pod group is left out: {aside.reason}: {aside.message}"
        return answer
    if (found := engine.explain_pod(state, key, now=now)) is not None:
        _add_pod(answer, found)
    if fault is not None:
        answer.message = f"{answer.message}; {fault.message}"
    return answer


def _add_pod(answer: pb.ExplainPodResponse, found: PodAnswer) -> None:
    answer.message = found.message
    for verdict in found.nodes:
        answer.nodes.add(node=verdict.node, fits=verdict.fits, filter=verdict.filter, reason=verdict.reason)
