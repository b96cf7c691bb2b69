"""Who loses first among equal victims, by how many GPUs their jobs ask for."""

from __future__ import annotations

from collections.abc import Iterator

from kai.config.plugin_table import GpuJobOrderArguments, SizeOrder
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Plugin, VictimRanking
from kai.snapshot.rows import Job
from kai.snapshot.status import ALIVE


def opened(handle: Handle) -> Iterator[Plugin]:
    """One for each cycle, since the memory of the smallest GPUs may change in between."""
    larger_first = handle.arguments(GpuJobOrderArguments).mode is SizeOrder.LARGER_FIRST
    yield GpuJobOrder(larger_first=larger_first, gpu_memory_mib=handle.min_gpu_memory_mib)


class GpuJobOrder(VictimRanking):
    """The ``gpujoborder`` plugin: it orders victims alone, not the jobs that wait."""

    def __init__(self, *, larger_first: bool, gpu_memory_mib: int) -> None:
        self._sign = 1 if larger_first else -1
        self._gpu_memory_mib = gpu_memory_mib

    def rank(self, job: Job, /) -> float:
        """Hundredths of GPUs that all pods of the job ask for, those that wait included."""
        memory = self._gpu_memory_mib
        return self._sign * sum(
            task.cls.charge(memory).gpu_centi
            for pod_set in job.pod_sets.values()
            for task in pod_set.tasks.values()
            if ALIVE[task.status]
        )
