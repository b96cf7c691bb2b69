"""Cycles that fail over one object run again without it.

A cycle is a transaction: one that fails leaves nothing behind, neither decisions nor sums. Whoever it failed
over is set aside, and told so by a fault, and the cycle runs again at once for everybody else. What is set
aside is tried again when it changes, and after a pause that grows with each failure.

Whose fault a failure is, is found by :mod:`~kai.engine.containment.blame`. Pod groups come first: whatever a
user's pods meet, it is they that are new to it. Only what fails with no pod group at hand, or over the pod
groups of several namespaces alike, is a matter of something else. Where nothing is at hand, jobs are tried by
halves.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kai.engine.containment.blame import Suspect, suspects
from kai.model.decisions import CycleResult
from kai.model.faults import SET_ASIDE, Fault
from kai.model.pauses import doubled
from kai.snapshot.kinds import object_uid
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind

#: Before what was set aside is tried again without having changed: at first, doubling, and at most.
PAUSE_SECONDS: Final = 10.0
LONGEST_PAUSE_SECONDS: Final = 3600.0
#: Before it is tried again because it changed: so long for each time that it failed, and at most.
CHANGED_SECONDS: Final = 2.0
LONGEST_CHANGED_SECONDS: Final = 60.0
#: From so many failures of one cycle on, all jobs of the namespace at fault are set aside together.
_MANY: Final = 4
#: So many failures in one cycle are more than setting aside can cure.
_MOST: Final = 32
#: How many letters of a failure owners are told, and how many calls of it are logged, the innermost.
_SHOWN: Final = 300
_FRAMES: Final = 12


@dataclass(slots=True)
class _Aside:
    """Something that cycles go on without."""

    fault: Fault
    failures: int
    failed_at: float
    #: What is kept of an object that was taken out; None for pod groups, which stay.
    obj: Any = None
    #: The row of the pod group then; a change of its shape makes another.
    job: Job | None = None
    #: It takes part again, and is forgiven if the cycle succeeds.
    trying: bool = False

    @property
    def due(self) -> float:
        """When it is tried again though nothing changed."""
        return self.failed_at + doubled(PAUSE_SECONDS, self.failures - 1, most=LONGEST_PAUSE_SECONDS)

    @property
    def due_if_changed(self) -> float:
        """When it is tried again if it changed."""
        return self.failed_at + min(CHANGED_SECONDS * self.failures, LONGEST_CHANGED_SECONDS)


class Cycle(Protocol):
    """A cycle over a state, begun but not run."""

    def run(self) -> CycleResult:
        """Run it."""

    def revoke(self) -> None:
        """The state is as before it began, whether it failed or had a result; it can be run again."""


class Containment:
    """What is set aside, from cycle to cycle."""

    def __init__(self) -> None:
        self._aside: dict[Suspect, _Aside] = {}
        #: Failures of the last cycle, each with the end of its traceback.
        self.setbacks: list[tuple[Fault, str]] = []

    @property
    def sets_aside(self) -> bool:
        """Whether anything is."""
        return bool(self._aside)

    @property
    def next_due(self) -> float:
        """When the next of those set aside is tried again; infinite if there is none."""
        dues = (each.due for who, each in self._aside.items() if who.kind is not Kind.POD)
        return min(dues, default=float("inf"))

    def run(self, state: ClusterState, now: float, *, begin: Callable[[], Cycle]) -> CycleResult:
        """Run a cycle for everybody whom it does not fail over.

        Raises:
            Exception: the cycle fails, whoever is set aside.
        """
        self.setbacks = []
        self._readmit(state, now)
        result = _Attempt(self, state, now, begin()).run()
        self._aside = {who: each for who, each in self._aside.items() if not each.trying}
        return result

    # --- setting aside ---------------------------------------------------------------------------
    def may(self, state: ClusterState, who: Suspect) -> bool:
        """Whether there is anything left to set aside of it."""
        match who.kind:
            case Kind.POD_GROUP:
                job = state.jobs.get(who.pod_group)
                return job is not None and (job.aside is None or _has_details(job))
            case Kind.POD:
                task = state.task(who.key)
                return task is not None and not task.bare
            case Kind.NODE:
                return who.key in state.nodes.by_name
            case Kind.QUEUE:
                return who.key in state.queue_objects
        return who.key in state.objects[who.kind]

    def set_aside(self, state: ClusterState, who: Suspect, *, error: Exception, now: float) -> None:
        """Go on without it; a job that is set aside already is also read by nobody any more.

        Before: :meth:`may` holds for it. After: the state knows the fault, and it is tried again, the later
        the more often it failed.

        Args:
            state: from which it is taken.
            who: the object.
            error: what was raised over it.
            now: Unix seconds.
        """
        obj = _object(state, who)
        old = self._aside.get(who)
        fault = _fault(who, object_uid(obj) if obj is not None else _uid(state, who), error)
        entry = _Aside(fault, old.failures + 1 if old is not None and old.trying else 1, now)
        match who.kind:
            case Kind.POD_GROUP:
                entry.job = job = state.jobs[who.pod_group]
                if job.aside is not None:
                    state.bare(job)
                state.set_aside(job, fault)
            case Kind.POD:
                state.bare_pod(who.key)
            case kind:
                entry.obj = obj
                state.remove(kind, who.key)
        state.set_fault(who.kind, who.key, fault)
        self._aside[who] = entry
        self.setbacks.append((fault, _end_of(error)))

    def release(self, state: ClusterState, who: Suspect) -> None:
        """It was not at fault after all."""
        entry = self._aside.pop(who)
        self._admit(state, who, entry)

    # --- trying again ----------------------------------------------------------------------------
    def _readmit(self, state: ClusterState, now: float) -> None:
        for who, entry in list(self._aside.items()):
            # Else it would be left out until a clock that went back is again where it was.
            entry.failed_at = min(entry.failed_at, now)
            if _gone(state, who, entry):
                del self._aside[who]
            elif _due(state, who, entry, now):
                entry.trying = True
                self._admit(state, who, entry)
            elif entry.job is not None:
                # It may have another row by now, which does not know of it.
                entry.job = job = state.jobs[who.pod_group]
                if job.aside is None:
                    state.set_aside(job, entry.fault)
                state.set_fault(who.kind, who.key, entry.fault)

    @staticmethod
    def _admit(state: ClusterState, who: Suspect, entry: _Aside) -> None:
        state.set_fault(who.kind, who.key, None)
        if entry.job is not None:
            if (job := state.jobs.get(who.pod_group)) is not None and job.aside is entry.fault:
                state.set_aside(job, None)
        elif entry.obj is not None and _object(state, who) is None:
            try:
                state.apply(who.kind, entry.obj)
            except Exception as error:  # noqa: BLE001 (it could be taken in before; whatever it is, it is of this object)
                state.refuse(who.kind, who.key, obj=entry.obj, error=error)


class _Attempt:
    """One cycle, run as often as it takes."""

    def __init__(self, containment: Containment, state: ClusterState, now: float, cycle: Cycle) -> None:
        self._containment = containment
        self._state = state
        self._now = now
        self._cycle = cycle
        self._failures: list[list[Suspect]] = []
        self._blamed: list[Suspect] = []

    def run(self) -> CycleResult:
        while True:
            result = self._try()
            if isinstance(result, CycleResult):
                return result
            error = result
            if len(self._failures) >= _MOST:
                raise error
            who = self._at_fault()
            if who is None:
                return self._by_halves(error)
            self._set_aside(who, error)

    def _try(self) -> CycleResult | Exception:
        try:
            return self._cycle.run()
        except Exception as error:  # noqa: BLE001 (whatever it is, it must not stop everybody)
            self._failures.append(suspects(error, self._state))
            self._cycle.revoke()
            return error

    def _at_fault(self) -> Suspect | None:
        found = [each for each in self._failures[-1] if self._containment.may(self._state, each)]
        namespaces = {who.key.partition("/")[0] for who in self._blamed if who.kind is Kind.POD_GROUP}
        # Three namespaces hardly make the same mistake: what all of them met is at fault.
        if len(namespaces) >= 3:
            met = [each for each in found if each.kind is not Kind.POD_GROUP]
            common = [each for each in met if all(each in failure for failure in self._failures)]
            if common:
                self._acquit()
                return common[0]
        users = [each for each in found if each.kind in (Kind.POD_GROUP, Kind.POD)]
        # A queue is at hand wherever jobs are, and without it none of its jobs is served: it comes last.
        found.sort(key=lambda each: each.kind is Kind.QUEUE)
        return next(iter(users or found), None)

    def _acquit(self) -> None:
        for who in self._blamed:
            self._containment.release(self._state, who)
        self._blamed.clear()

    def _set_aside(self, who: Suspect, error: Exception) -> None:
        together = [who]
        if who.kind is Kind.POD_GROUP and len(self._failures) >= _MANY:
            together += self._others_of(who.key.partition("/")[0], but=who)
        for each in together:
            self._containment.set_aside(self._state, each, error=error, now=self._now)
            if each not in self._blamed:
                self._blamed.append(each)

    def _others_of(self, namespace: str, but: Suspect) -> list[Suspect]:
        """Jobs of a namespace that wait: where so many fail, the rest are not worth a cycle each."""
        return [
            Suspect(Kind.POD_GROUP, job.key)
            for job in self._state.pending_jobs.values()
            if job.namespace == namespace and job.aside is None and job.key != but.key
        ]

    # --- where nothing is known --------------------------------------------------------------------
    def _by_halves(self, error: Exception) -> CycleResult:
        """Find one job without which the cycle succeeds, the youngest first.

        Costs as many cycles as the number of jobs can be halved; it helps where a single job is at fault.
        """
        state = self._state
        jobs = [job for job in {**state.touched_jobs, **state.pending_jobs}.values() if job.aside is None]
        jobs.sort(key=lambda job: (-job.created, job.key))
        if not jobs or not self._succeeds_without(jobs):
            raise error
        while len(jobs) > 1:
            half = jobs[: (len(jobs) + 1) // 2]
            jobs = half if self._succeeds_without(half) else jobs[len(half) :]
        self._containment.set_aside(state, Suspect(Kind.POD_GROUP, jobs[0].key), error=error, now=self._now)
        result = self._try()
        if isinstance(result, CycleResult):
            return result
        raise result

    def _succeeds_without(self, jobs: Sequence[Job]) -> bool:
        state = self._state
        fault = Fault(kind="PodGroup", key="", uid="", reason=SET_ASIDE, message="")
        for job in jobs:
            state.set_aside(job, fault)
        try:
            result = self._try()
            if isinstance(result, CycleResult):
                self._cycle.revoke()
                return True
            return False
        finally:
            for job in jobs:
                state.set_aside(job, None)


def _has_details(job: Job) -> bool:
    return any(not task.bare for pod_set in job.pod_sets.values() for task in pod_set.tasks.values())


def _object(state: ClusterState, who: Suspect) -> Any:
    match who.kind:
        case Kind.POD_GROUP | Kind.POD:
            return None
        case Kind.NODE:
            node = state.nodes.by_name.get(who.key)
            return node.object if node is not None else None
        case Kind.QUEUE:
            return state.queue_objects.get(who.key)
    return state.objects[who.kind].get(who.key)


def _uid(state: ClusterState, who: Suspect) -> str:
    if who.kind is Kind.POD:
        task = state.task(who.key)
        return task.uid if task is not None else ""
    job = state.jobs.get(who.pod_group)
    return job.uid if job is not None else ""


def _gone(state: ClusterState, who: Suspect, entry: _Aside) -> bool:
    """Whether the object is gone, also if there is another one of its name by now; or, if it was taken out,
    has come again by itself.
    """
    if entry.job is not None:
        job = state.jobs.get(who.pod_group)
        return job is None or job.uid != entry.job.uid
    return (who.kind, who.key) not in state.faults


def _due(state: ClusterState, who: Suspect, entry: _Aside, now: float) -> bool:
    """Whether to try again; of a pod in no group nothing but what it holds is known until it changes."""
    if who.kind is Kind.POD or not _whole(state, who, entry):
        return False
    return now >= entry.due or (_changed(state, who, entry) and now >= entry.due_if_changed)


def _whole(state: ClusterState, who: Suspect, entry: _Aside) -> bool:
    """Whether everything about it is known; of bare pods a new version must come first."""
    return entry.job is None or not any(
        task.bare
        for pod_set in state.jobs[who.pod_group].pod_sets.values()
        for task in pod_set.tasks.values()
    )


def _changed(state: ClusterState, who: Suspect, entry: _Aside) -> bool:
    return entry.job is not None and (
        state.jobs[who.pod_group] is not entry.job or who.pod_group in state.touched_jobs
    )


def _fault(who: Suspect, uid: str, error: Exception) -> Fault:
    failure = f"{type(error).__name__}: {error}"[:_SHOWN]
    return Fault(
        kind=who.kind.kubernetes,
        key=who.key,
        uid=uid,
        reason=SET_ASIDE,
        message=f"scheduling failed over it ({failure}); it is left out, and tried again when it changes and "
        "after a growing pause. Please report this, with the log of the scheduler",
    )


def _end_of(error: Exception) -> str:
    return "".join(traceback.format_exception(error, limit=-_FRAMES))
