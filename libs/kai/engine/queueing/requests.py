"""What tasks ask of their queue."""

from __future__ import annotations

from collections.abc import Sequence

from kai.model.decisions import ResourceVector
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.rows import Task


def asked(tasks: Sequence[Task], *, gpu_memory_mib: int) -> Amounts:
    """What tasks ask of their queue, where a GPU has ``gpu_memory_mib``.

    Millicores, bytes and hundredths of GPUs; sums of what each asks, rounded as it is charged.
    """
    if len(tasks) == 1:
        return tasks[0].cls.charge(gpu_memory_mib)
    cpu = memory = centi = 0
    for task in tasks:
        more = task.cls.charge(gpu_memory_mib)
        cpu, memory, centi = cpu + more[0], memory + more[1], centi + more[2]
    return Amounts(cpu, memory, centi)


def request_of(tasks: Sequence[Task], *, gpu_memory_mib: int) -> ResourceVector:
    """What tasks ask of their queue, as :func:`asked`, but GPUs in devices."""
    cpu, memory, centi = asked(tasks, gpu_memory_mib=gpu_memory_mib)
    return (float(cpu), float(memory), centi / GPU_CENTI)
