"""Jobs with a pod that was to go, and was not let go, are no victims for a while: others may make room."""

from __future__ import annotations

from functools import partial

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import VictimPolicy
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.reasons import Unschedulable
from kai.model.decisions import Reason
from kai.model.ids import PodGroupKey
from kai.model.words import listed
from kai.snapshot.eviction_refusals import Refusal
from kai.snapshot.rows import Job, Task


class LeftAlone(VictimPolicy):
    """Keeps searches from whom the API server would not let go."""

    def __init__(self, handle: Handle) -> None:
        self._due = handle.due
        #: By pod group: which pod was not let go, the one that is left alone longest.
        self._jobs: dict[PodGroupKey, tuple[Task, Refusal]] = {}
        for uid, refusal in handle.eviction_refusals.standing(handle.now).items():
            task = handle.tasks.get(uid)
            if task is None or task.job is None:
                continue
            known = self._jobs.get(task.job.key)
            if known is None or known[1].until < refusal.until:
                self._jobs[task.job.key] = (task, refusal)

    def rules(self, search: VictimSearch) -> VictimRules | None:
        """Whoever has such a pod is no victim."""
        del search
        if not self._jobs:
            return None
        met: dict[PodGroupKey, tuple[Task, Refusal]] = {}

        def accepts(victim: Job) -> bool:
            known = self._jobs.get(victim.key)
            if known is None:
                return True
            met[victim.key] = known
            self._due(known[1].until)
            return False

        return VictimRules(accepts=accepts, why=partial(_explanation, met))


def _explanation(met: dict[PodGroupKey, tuple[Task, Refusal]], job: Job) -> Unschedulable | None:
    """Who was passed over in a search for a job; None if nobody was."""
    del job
    if not met:
        return None
    # No times: an event for each time that somebody is asked in vain would tell nobody more.
    names = [f"{task.key} ({refusal.why})" for _, (task, refusal) in sorted(met.items())]
    text = f"left alone for a while, since their eviction was refused: {listed(names)}"
    return Unschedulable(Reason.EVICTION_REFUSED, text)
