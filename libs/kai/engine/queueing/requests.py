"""What tasks ask of their queue."""

from __future__ import annotations

from collections.abc import Sequence

from kai.model.decisions import ResourceVector
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.core import core_amounts
from kai.snapshot.rows import Job, Task


def asked(tasks: Sequence[Task], *, gpu_memory_mib: int) -> Amounts:
    """What tasks ask of their queue, where a GPU has ``gpu_memory_mib``.

    Millicores, bytes and hundredths of GPUs; sums of what each asks, rounded as it is charged.
    """
    if len(tasks) == 1:
        return tasks[0].cls.charge(gpu_memory_mib)
    cpu_millis = memory_bytes = gpu_centi = 0
    for task in tasks:
        cpu, memory, gpu = task.cls.charge(gpu_memory_mib)
        cpu_millis, memory_bytes, gpu_centi = cpu_millis + cpu, memory_bytes + memory, gpu_centi + gpu
    return Amounts(cpu_millis, memory_bytes, gpu_centi)


def asked_firmly(job: Job, tasks: Sequence[Task], *, gpu_memory_mib: int) -> Amounts | None:
    """What of that nobody could take back, so that queues must deserve it; None for preemptible jobs.

    Of a semi-preemptible job that is what its core would hold more with these tasks of it.
    """
    if job.preemptible:
        return None
    if not job.semi_preemptible:
        return asked(tasks, gpu_memory_mib=gpu_memory_mib)
    now, then = core_amounts(job), core_amounts(job, placed=tasks, gpu_memory_mib=gpu_memory_mib)
    more = [max(new - old, 0) for new, old in zip(then, now, strict=True)]
    return Amounts(*more) if any(more) else None


def request_of(tasks: Sequence[Task], *, gpu_memory_mib: int) -> ResourceVector:
    """What tasks ask of their queue, as :func:`asked`, but GPUs in devices."""
    cpu_millis, memory_bytes, gpu_centi = asked(tasks, gpu_memory_mib=gpu_memory_mib)
    return (float(cpu_millis), float(memory_bytes), gpu_centi / GPU_CENTI)


def firm_request_of(job: Job, tasks: Sequence[Task], *, gpu_memory_mib: int) -> ResourceVector | None:
    """What tasks ask that nobody could take back, as :func:`asked_firmly`, but GPUs in devices.

    ``tasks`` are the job's; ``gpu_memory_mib`` says of those that ask for memory which part of a GPU that is.
    None for preemptible jobs, and where nothing more of a job's core is asked for.
    """
    firm = asked_firmly(job, tasks, gpu_memory_mib=gpu_memory_mib)
    return None if firm is None else firm.vector()
