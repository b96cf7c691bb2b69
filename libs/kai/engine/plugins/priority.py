"""The order of jobs by priority."""

from __future__ import annotations

from collections.abc import Sequence

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import JobRanking, Plugin
from kai.model.ids import PodUid
from kai.snapshot.rows import Job


class Priority(JobRanking):
    """The ``priority`` plugin: jobs of higher priority first."""

    lasting = True
    goes_by = "priority"

    def rank(self, job: Job, gone: frozenset[PodUid], /) -> float:
        """The priority, turned around."""
        del gone
        return -job.priority

    def ranks(self, jobs: Sequence[Job], /) -> list[float]:
        """Of each."""
        return [-job.priority for job in jobs]


_PRIORITY = (Priority(),)


def opened(handle: Handle) -> tuple[Plugin, ...]:
    """It knows nothing of a cycle."""
    del handle
    return _PRIORITY
