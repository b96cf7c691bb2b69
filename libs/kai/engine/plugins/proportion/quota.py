"""What queues allow a job to take: limits, and quota for what cannot be preempted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Quota
from kai.engine.queueing.requests import asked, asked_firmly
from kai.engine.reasons import Unschedulable
from kai.engine.reasons.amounts import amount_text
from kai.model.decisions import Reason
from kai.snapshot.amounts import GPU_CENTI, NOTHING, Amounts
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
        """By what the queues hold now.

        GPU memory is counted against the largest GPUs, where it is the smallest part: what is too much on the
        node that is chosen :meth:`refuse_on` refuses.
        """
        wanted = self._wanted(job, tasks)
        return _over_limit(job, wanted) or _over_quota(job, wanted)

    def refuse_on(self, job: Job, task: Task, node: Node) -> Unschedulable | None:
        """By the size of the node's GPUs."""
        wanted = _wanted(job, (task,), gpu_memory_mib=node.gpu_memory_mib)
        return _over_limit(job, wanted) or _over_quota(job, wanted)

    def refuse_for_good(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """By what no preemption frees: quotas are for what cannot be preempted."""
        return None if job.preemptible else _over_quota(job, self._wanted(job, tasks))

    def _wanted(self, job: Job, tasks: Sequence[Task]) -> _Wanted:
        return _wanted(job, tasks, gpu_memory_mib=self._gpu_memory_mib)


class _Wanted(NamedTuple):
    """What tasks ask for, and what of that nobody could take back; None where quotas say nothing of it."""

    amounts: Amounts
    firm: Amounts | None


def _wanted(job: Job, tasks: Sequence[Task], *, gpu_memory_mib: int) -> _Wanted:
    return _Wanted(
        asked(tasks, gpu_memory_mib=gpu_memory_mib), asked_firmly(job, tasks, gpu_memory_mib=gpu_memory_mib)
    )


def _over_limit(job: Job, wanted: _Wanted) -> Unschedulable | None:
    cpu, memory, centi = wanted.amounts
    # Of what a chunk does not ask for a queue may hold too much already.
    for queue in job.queue.path:
        held, limit = queue.allocated, queue.limit
        if (
            (cpu and 0 <= limit[0] < held[0] + cpu - _TOLERANCE)
            or (memory and 0 <= limit[1] < held[1] + memory - _TOLERANCE)
            or (centi and 0 <= limit[2] < (held[2] + centi) / GPU_CENTI - _TOLERANCE)
        ):
            return _violation(Reason.OVER_LIMIT, queue, wanted)
    return None


def _over_quota(job: Job, wanted: _Wanted) -> Unschedulable | None:
    if wanted.firm is None:
        return None
    cpu, memory, centi = wanted.firm
    for queue in job.queue.path:
        held, quota = queue.non_preemptible, queue.deserved
        if (
            (cpu and 0 <= quota[0] < held[0] + cpu - _TOLERANCE)
            or (memory and 0 <= quota[1] < held[1] + memory - _TOLERANCE)
            or (centi and 0 <= quota[2] < (held[2] + centi) / GPU_CENTI - _TOLERANCE)
        ):
            return _violation(Reason.NON_PREEMPTIBLE_OVER_QUOTA, queue, wanted)
    return None


def _violation(reason: Reason, queue: Queue, wanted: _Wanted) -> Unschedulable:
    word, what, amounts, held, bound = "limit", "workload", wanted.amounts, queue.allocated, queue.limit
    if reason is Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        word, what = "quota", "non-preemptible workload"
        amounts, held, bound = wanted.firm or NOTHING, queue.non_preemptible, queue.deserved
    scale = (1, 1, GPU_CENTI)
    lines = [
        f"{_NAMES[i]} {word} is {amount_text(_COLUMNS[i], bound[i])}, "
        f"{amount_text(_COLUMNS[i], held[i] / scale[i])} in use, "
        f"{amount_text(_COLUMNS[i], amounts[i] / scale[i])} requested"
        for i in range(3)
        if amounts[i] and 0 <= bound[i] < (held[i] + amounts[i]) / scale[i] - _TOLERANCE
    ]
    message = f"queue {queue.display_name!r} has no room for the {what}: " + "; ".join(lines)
    return Unschedulable(reason, message, details=_details(queue, wanted))


def _details(queue: Queue, wanted: _Wanted) -> dict[str, Any]:
    def named(values: Sequence[float], scale: float = 1.0) -> dict[str, float]:
        return {"cpu": values[0], "memory": values[1], "gpu": values[2] / scale}

    requested = named(wanted.amounts, GPU_CENTI)
    return {
        "queueDetails": {
            "name": queue.name,
            "queueRequestedResources": requested,
            "queueDeservedResources": named(queue.deserved),
            "queueAllocatedResources": named(queue.allocated, GPU_CENTI),
            "queueAllocatedNonPreemptibleResources": named(queue.non_preemptible, GPU_CENTI),
            "queueResourceLimits": named(queue.limit),
            "podGroupRequestedResources": requested,
            "podGroupRequestedNonPreemptibleResources": named(wanted.firm, GPU_CENTI) if wanted.firm else {},
        }
    }
