"""What queues allow a job to take: limits, and quota for what cannot be preempted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Quota
from kai.engine.queueing.requests import asked
from kai.engine.reasons import Unschedulable
from kai.engine.reasons.amounts import amount_text
from kai.model.decisions import Reason, ResourceVector
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, Node, Queue, Task

_NAMES = ("CPU", "memory", "GPU")
_COLUMNS = (CPU, MEMORY, GPU)
_TOLERANCE = 1e-6


class QueueQuotas(Quota):
    """Queues take no more than their limits, and no more that cannot be preempted than they deserve."""

    def __init__(self, handle: Handle) -> None:
        self._unlimited = handle.division.unlimited
        #: Of a chunk that asks for GPU memory, hopefully on the largest GPUs.
        self._gpu_memory_mib = handle.max_gpu_memory_mib

    def unbounded(self, job: Job) -> bool:
        """Preemptible jobs below queues of which none has a limit."""
        return job.preemptible and job.queue.name in self._unlimited

    def refuse(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """By what the queues hold now; GPU memory is counted against the largest GPUs (optimistic)."""
        amounts = asked(tasks, gpu_memory_mib=self._gpu_memory_mib)
        return _over_limit(job, amounts) or _over_quota(job, amounts)

    def refuse_on(self, job: Job, task: Task, node: Node) -> Unschedulable | None:
        """By the size of the node's GPUs."""
        amounts = task.cls.charge(node.gpu_memory_mib)
        return _over_limit(job, amounts) or _over_quota(job, amounts)

    def refuse_for_good(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """By what no preemption frees: quotas are for what cannot be preempted."""
        return (
            None if job.preemptible else _over_quota(job, asked(tasks, gpu_memory_mib=self._gpu_memory_mib))
        )


def _over_limit(job: Job, amounts: Amounts) -> Unschedulable | None:
    cpu, memory, centi = amounts
    for queue in job.queue.path:
        held, limit = queue.allocated, queue.limit
        if (
            (cpu and 0 <= limit[0] < held[0] + cpu - _TOLERANCE)
            or (memory and 0 <= limit[1] < held[1] + memory - _TOLERANCE)
            or (centi and 0 <= limit[2] < (held[2] + centi) / GPU_CENTI - _TOLERANCE)
        ):
            return _violation(Reason.OVER_LIMIT, job, queue, amounts, held, limit, "limit")
    return None


def _over_quota(job: Job, amounts: Amounts) -> Unschedulable | None:
    if job.preemptible:
        return None
    cpu, memory, centi = amounts
    for queue in job.queue.path:
        held, quota = queue.non_preemptible, queue.deserved
        if (
            (cpu and 0 <= quota[0] < held[0] + cpu - _TOLERANCE)
            or (memory and 0 <= quota[1] < held[1] + memory - _TOLERANCE)
            or (centi and 0 <= quota[2] < (held[2] + centi) / GPU_CENTI - _TOLERANCE)
        ):
            return _violation(Reason.NON_PREEMPTIBLE_OVER_QUOTA, job, queue, amounts, held, quota, "quota")
    return None


def _violation(
    reason: Reason,
    job: Job,
    queue: Queue,
    amounts: Amounts,
    held: Sequence[int],
    bound: ResourceVector,
    word: str,
) -> Unschedulable:
    scale = (1, 1, GPU_CENTI)
    lines = [
        f"{_NAMES[i]} {word} is {amount_text(_COLUMNS[i], bound[i])}, "
        f"{amount_text(_COLUMNS[i], held[i] / scale[i])} in use, "
        f"{amount_text(_COLUMNS[i], amounts[i] / scale[i])} requested"
        for i in range(3)
        if amounts[i] and 0 <= bound[i] < (held[i] + amounts[i]) / scale[i] - _TOLERANCE
    ]
    what = "workload" if word == "limit" else "non-preemptible workload"
    message = f"queue {queue.display_name!r} has no room for the {what}: " + "; ".join(lines)
    return Unschedulable(reason, message, details=_details(job, queue, amounts))


def _details(job: Job, queue: Queue, amounts: Amounts) -> dict[str, Any]:
    def named(values: Sequence[float], scale: float = 1.0) -> dict[str, float]:
        return {"cpu": values[0], "memory": values[1], "gpu": values[2] / scale}

    requested = named(amounts, GPU_CENTI)
    return {
        "queueDetails": {
            "name": queue.name,
            "queueRequestedResources": requested,
            "queueDeservedResources": named(queue.deserved),
            "queueAllocatedResources": named(queue.allocated, GPU_CENTI),
            "queueAllocatedNonPreemptibleResources": named(queue.non_preemptible, GPU_CENTI),
            "queueResourceLimits": named(queue.limit),
            "podGroupRequestedResources": requested,
            "podGroupRequestedNonPreemptibleResources": {} if job.preemptible else requested,
        }
    }
