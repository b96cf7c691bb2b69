"""What queues allow a job to take: limits, and quota for what cannot be preempted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Quota
from kai.engine.queueing.requests import asked, asked_firmly
from kai.engine.reasons import Unschedulable
from kai.engine.reasons.amounts import amount_text
from kai.model.decisions import Reason, ResourceVector
from kai.snapshot.amounts import GPU_CENTI, NOTHING, Amounts
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, Node, Queue, Task

_NAMES = {CPU: "CPU", MEMORY: "memory", GPU: "GPU"}
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
    cpu, memory, gpu = wanted.amounts
    # Of what a chunk does not ask for a queue may hold too much already.
    for queue in job.queue.path:
        held = queue.allocated
        most_cpu, most_memory, most_gpus = queue.limit
        if (
            (cpu and 0 <= most_cpu < held.cpu_millis + cpu - _TOLERANCE)
            or (memory and 0 <= most_memory < held.memory_bytes + memory - _TOLERANCE)
            or (gpu and 0 <= most_gpus < (held.gpu_centi + gpu) / GPU_CENTI - _TOLERANCE)
        ):
            return _violation(Reason.OVER_LIMIT, queue, wanted)
    return None


def _over_quota(job: Job, wanted: _Wanted) -> Unschedulable | None:
    if wanted.firm is None:
        return None
    cpu, memory, gpu = wanted.firm
    for queue in job.queue.path:
        held = queue.non_preemptible
        most_cpu, most_memory, most_gpus = queue.deserved
        if (
            (cpu and 0 <= most_cpu < held.cpu_millis + cpu - _TOLERANCE)
            or (memory and 0 <= most_memory < held.memory_bytes + memory - _TOLERANCE)
            or (gpu and 0 <= most_gpus < (held.gpu_centi + gpu) / GPU_CENTI - _TOLERANCE)
        ):
            return _violation(Reason.NON_PREEMPTIBLE_OVER_QUOTA, queue, wanted)
    return None


def _violation(reason: Reason, queue: Queue, wanted: _Wanted) -> Unschedulable:
    word, what, amounts, held, bound = "limit", "workload", wanted.amounts, queue.allocated, queue.limit
    if reason is Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        word, what = "quota", "non-preemptible workload"
        amounts, held, bound = wanted.firm or NOTHING, queue.non_preemptible, queue.deserved
    used, asked_for = held.vector(), amounts.vector()
    lines = [
        f"{name} {word} is {amount_text(resource, bound[resource])}, "
        f"{amount_text(resource, used[resource])} in use, "
        f"{amount_text(resource, asked_for[resource])} requested"
        for resource, name in _NAMES.items()
        if amounts[resource] and 0 <= bound[resource] < used[resource] + asked_for[resource] - _TOLERANCE
    ]
    message = f"queue {queue.display_name!r} has no room for the {what}: " + "; ".join(lines)
    return Unschedulable(reason, message, details=_details(queue, wanted))


def _details(queue: Queue, wanted: _Wanted) -> dict[str, Any]:
    def named(amounts: ResourceVector) -> dict[str, float]:
        return dict(zip(("cpu", "memory", "gpu"), amounts, strict=True))

    requested = named(wanted.amounts.vector())
    return {
        "queueDetails": {
            "name": queue.name,
            "queueRequestedResources": requested,
            "queueDeservedResources": named(queue.deserved),
            "queueAllocatedResources": named(queue.allocated.vector()),
            "queueAllocatedNonPreemptibleResources": named(queue.non_preemptible.vector()),
            "queueResourceLimits": named(queue.limit),
            "podGroupRequestedResources": requested,
            "podGroupRequestedNonPreemptibleResources": (named(wanted.firm.vector()) if wanted.firm else {}),
        }
    }
