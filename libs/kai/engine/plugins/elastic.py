"""The order of jobs by what they have of the pods that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import JobRanking, Plugin
from kai.model.ids import NOBODY, PodUid
from kai.snapshot.rows import Job

_BELOW: Final = 0
_AT: Final = 1
_ABOVE: Final = 2


class Elastic(JobRanking):
    """The ``elastic`` plugin: jobs below their minimum somewhere first, those above it last."""

    lasting = True
    goes_by = "minimum"

    def rank(self, job: Job, gone: frozenset[PodUid], /) -> float:
        """How far a job is; what is above a minimum somewhere makes up for nothing elsewhere."""
        single = job.single
        if single is not None and not gone:
            active, needed = single.active_allocated, single.min_member
            return _BELOW if active < needed else _AT if active == needed else _ABOVE
        above = False
        for pod_set in job.pod_sets.values():
            left = pod_set.active_allocated - sum(uid in pod_set.tasks for uid in gone)
            if left < pod_set.min_member:
                return _BELOW
            above = above or left > pod_set.min_member
        return _ABOVE if above else _AT

    def ranks(self, jobs: Sequence[Job], /) -> list[float]:
        """Of each; most have one subgroup."""
        return [
            self.rank(job, NOBODY)
            if (single := job.single) is None
            else _AT
            if single.active_allocated == single.min_member
            else _BELOW
            if single.active_allocated < single.min_member
            else _ABOVE
            for job in jobs
        ]


_ELASTIC = (Elastic(),)


def opened(handle: Handle) -> tuple[Plugin, ...]:
    """It knows nothing of a cycle."""
    del handle
    return _ELASTIC
