"""What a cycle found about each pod group, for status, conditions and events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kai.engine.explain import phrases
from kai.engine.framework.session import Session
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.reasons import Common, JobErrors
from kai.model import access, condition_texts, limits, names
from kai.model.decisions import Explanation, Outcome, PodGroupOutcome, QueueShare, Reason
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey
from kai.model.objects import SchedulingCondition
from kai.snapshot.core import Holdings
from kai.snapshot.kept import Carried
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status
from kai.snapshot.times import rfc3339, seconds

#: What was told last, by pod group. Others know it, so it cannot be taken back with a cycle.
_PUBLISHED: Final = Carried[dict[PodGroupKey, PodGroupOutcome]](dict, copied=None)
#: Of groups that wait alike what that was, but for names; the same object where it is equal.
_TOLD: Final = Carried[dict[PodGroupKey, Common]](dict, copied=None)
_STALE: Final = names.STALE_TIMESTAMP
_STARTED: Final = names.LAST_START_TIMESTAMP
_EVICTED: Final = names.LAST_EVICTION_TIMESTAMP
_IN_FLIGHT = (Status.ALLOCATED, Status.PIPELINED, Status.BINDING)


def collect(session: Session, *, gone: Iterable[PodGroupKey]) -> tuple[PodGroupOutcome, ...]:
    """Outcomes that differ from those of the cycle before; only jobs that changed or wait are looked at.

    A job that runs as its pod group says, and of which nothing was ever said, is passed over. What was told
    of those that are ``gone`` since the cycle before counts for no other one of the name.
    """
    state = session.state
    published = _PUBLISHED.of(state.kept)
    _forget(state, gone)
    changed: list[PodGroupOutcome] = []
    looked_at = {**state.touched_jobs, **state.pending_jobs}
    alike = _Alike(session)
    for key in sorted(looked_at):
        job = state.jobs.get(key)
        if job is None or (alike.any and alike.was_told(key)):
            continue
        given_up = _given_up(job)
        if given_up and key in published:
            continue  # what was told of its single attempt stands
        annotations = {} if job.aside is not None else _annotations(job)
        if given_up:
            outcome = _told_before(state, job, annotations=annotations)
        elif not _nothing_to_say(session, job):
            outcome = _describe(session, job, annotations=annotations)
        elif annotations or key in published:
            outcome = _settled(job, annotations=annotations)
        else:
            continue
        if published.get(key) != outcome:
            changed.append(outcome)
    published.update([(outcome.pod_group, outcome) for outcome in changed])
    state.touch_only(())
    return tuple(changed)


class _Alike:
    """Pod groups that wait alike, of which nothing is put into words that was told before."""

    def __init__(self, session: Session) -> None:
        self._told = _TOLD.of(session.state.kept)
        self._touched = session.state.touched_jobs
        self._common = session.errors.common
        #: Whether there are any, or were in the cycle before.
        self.any = bool(self._told) or session.errors.shared
        decided = session.decisions
        self._decided = (decided.placed, decided.pipelined, decided.outbid)
        #: Equal ones of the cycle before, by identity of those of this one.
        self._before: dict[int, Common] = {}

    def was_told(self, key: PodGroupKey) -> bool:
        """Whether all there is to tell is what was told last; else it counts as told now."""
        common = self._common(key)
        if common is None:
            self._told.pop(key, None)
            return False
        known = self._told.get(key)
        now = self._before.get(id(common))
        if now is None:
            now = self._before[id(common)] = known if known is not None and known == common else common
        if any(key in each for each in self._decided):
            self._told.pop(key, None)
            return False
        self._told[key] = now
        return known is now and key not in self._touched


def unpublish(state: ClusterState, found: Iterable[PodGroupOutcome]) -> None:
    """Nobody was told these after all: the next cycle tells them, as far as they hold then."""
    _forget(state, (outcome.pod_group for outcome in found))


def _forget(state: ClusterState, keys: Iterable[PodGroupKey]) -> None:
    """Go by it no longer what these were told."""
    published, told = _PUBLISHED.of(state.kept), _TOLD.of(state.kept)
    for key in keys:
        published.pop(key, None)
        told.pop(key, None)


def _given_up(job: Job) -> bool:
    """Whether it had its single attempt, and nothing else keeps it from another one."""
    return bool(
        job.facts.attempted
        and job.pending
        and not (job.active_allocated or job.stale_since or job.error)
        and job.queue.leaf
        and job.ready
    )


def _told_before(state: ClusterState, job: Job, *, annotations: dict[str, str | None]) -> PodGroupOutcome:
    """What came of its single attempt, which another scheduler told: its newest condition says it."""
    last = single_attempt(state, job)
    assert last is not None
    return PodGroupOutcome(
        pod_group=job.key,
        uid=job.uid,
        outcome=Outcome.UNSCHEDULABLE,
        message=condition_texts.own_text(last.message, pool=last.node_pool),
        explanations=tuple(
            Explanation(reason=str(each.get("reason", "")), message=str(each.get("message", "")))
            for each in last.reasons or ()
        ),
        annotations=annotations,
        core_pods=_core_pods(job) if job.semi_preemptible else (),
    )


def single_attempt(state: ClusterState, job: Job) -> SchedulingCondition | None:
    """What came of the only attempt that a job wants; None if it wants more, or had none yet."""
    if not job.facts.attempted:
        return None
    group = state.group_objects.get(job.key)
    conditions = group.status.scheduling_conditions if group is not None and group.status else None
    return conditions[-1] if conditions else None


def _nothing_to_say(session: Session, job: Job) -> bool:
    return not (
        job.pending
        or job.gated
        or job.facts.conditions
        or job.stale_since
        or job.error
        or job.aside is not None
        or job.invalid
        or (job.active_allocated and (job.semi_preemptible or not job.queue.exists))
        or job.key in session.decisions.placed
        or job.key in session.decisions.pipelined
    )


def _settled(job: Job, *, annotations: dict[str, str | None]) -> PodGroupOutcome:
    """The same as :func:`_describe`, of a group of which there is nothing to say."""
    return PodGroupOutcome(
        pod_group=job.key,
        uid=job.uid,
        outcome=Outcome.SETTLED,
        annotations=annotations,
        write_condition=not job.active_allocated,
        clear_conditions=not _in_flight(job),
        core_pods=_core_pods(job) if job.semi_preemptible else (),
    )


def _describe(session: Session, job: Job, *, annotations: dict[str, str | None]) -> PodGroupOutcome:
    """What this cycle found about one pod group; ``annotations`` are those to change on it."""
    if job.aside is not None:
        return _set_aside(job, job.aside)
    settled = not job.pending and not job.gated
    core_pods = _core_pods(job) if job.semi_preemptible else ()
    decided = session.decisions
    waits = not settled or job.key in decided.pipelined
    if not (waits or job.error or job.invalid or job.stale_since):
        placed = job.key in decided.placed
        homeless = (
            without_queue(session.state, job) if job.active_allocated and not job.queue.exists else None
        )
        return PodGroupOutcome(
            pod_group=job.key,
            uid=job.uid,
            outcome=Outcome.PLACED if placed else Outcome.SETTLED,
            message=f"{homeless.reason}: {homeless.message}" if homeless else "",
            explanations=(homeless,) if homeless else (),
            annotations=annotations,
            write_condition=not job.active_allocated,
            clear_conditions=not placed and not _in_flight(job),
            core_pods=core_pods,
        )
    errors = session.errors.get(job.key)
    kind, message, explanations = _found(session, job, errors)
    refused = kind in (Outcome.UNSCHEDULABLE, Outcome.NOT_READY)
    return PodGroupOutcome(
        pod_group=job.key,
        uid=job.uid,
        outcome=kind,
        message=message,
        explanations=explanations,
        pod_messages=_pod_messages(job, errors if refused else None) if errors or job.invalid else {},
        invalid_pods=tuple(sorted(task.key for task in job.invalid.values())) if job.invalid else (),
        staleness=phrases.stale(job) if job.stale_since else "",
        annotations=annotations,
        write_condition=not job.active_allocated,
        clear_conditions=settled and not _in_flight(job),
        core_pods=core_pods,
    )


def _core_pods(job: Job) -> tuple[str, ...]:
    return tuple(sorted(task.name for task in Holdings(job).core()))


def _set_aside(job: Job, fault: Fault) -> PodGroupOutcome:
    """Of such a job nothing is asked that could fail."""
    return PodGroupOutcome(
        pod_group=job.key,
        uid=job.uid,
        outcome=Outcome.UNSCHEDULABLE if job.pending or job.gated else Outcome.SETTLED,
        message=fault.message,
        explanations=(Explanation(reason=fault.reason, message=fault.message),),
        write_condition=not job.active_allocated,
        core_pods=_core_pods(job) if job.semi_preemptible else (),
    )


def _pod_messages(job: Job, errors: JobErrors | None) -> dict[str, str]:
    """What pods are told one by one: why there is no place, or that their subgroup does not exist."""
    messages = dict(sorted(errors.pods.items())) if errors is not None else {}
    if job.invalid:
        choice = f"label {names.SUBGROUP_LABEL} may say: {phrases.some(sorted(job.pod_sets))}"
        for task in job.invalid.values():
            named = task.facts.sub_group if task.facts is not None else ""
            what = f"subgroup {named!r} does not exist" if named else "no subgroup is named"
            messages[task.key] = f"{what}; {choice}"
    return messages


def _in_flight(job: Job) -> bool:
    if not job.active_allocated:
        return False
    for pod_set in job.pod_sets.values():
        for task in pod_set.tasks.values():
            if task.status in _IN_FLIGHT:
                return True
    return False


def _found(
    session: Session, job: Job, errors: JobErrors | None
) -> tuple[Outcome, str, tuple[Explanation, ...]]:
    """What is told of a job that waits, or with which something is wrong: the first that applies."""
    if job.error:
        reason = Explanation(reason=str(Reason.INVALID_POD_GROUP), message=job.error)
        return Outcome.UNSCHEDULABLE, f"{Reason.INVALID_POD_GROUP}: {job.error}", (reason,)
    if job.key in session.decisions.pipelined:
        return Outcome.PIPELINED, "waits for resources that are being released", ()
    if not job.pending and not job.gated:
        return Outcome.PLACED if job.key in session.decisions.placed else Outcome.SETTLED, "", ()
    if job.elsewhere:
        return Outcome.SETTLED, "", ()  # what of it waits the scheduler of its own pool tells
    if not job.queue.exists:
        homeless = without_queue(session.state, job)
        return Outcome.UNSCHEDULABLE, f"{homeless.reason}: {homeless.message}", (homeless,)
    if job.gated and (shut_out := _shut_out(session, job)) is not None:
        return Outcome.UNSCHEDULABLE, f"{shut_out.reason}: {shut_out.message}", (shut_out,)
    if not job.ready:
        text = phrases.not_ready(job)
        return Outcome.NOT_READY, text, (Explanation(reason=str(Reason.NOT_READY), message=text),)
    if job.key in session.decisions.placed:
        return Outcome.PLACED, "", ()
    if not job.queue.leaf:
        text = f"queue {job.facts.queue!r} has child queues; jobs run in leaf queues only"
        return (
            Outcome.UNSCHEDULABLE,
            text,
            (Explanation(reason=str(Reason.POD_SCHEDULING_ERRORS), message=text),),
        )
    if errors is None and not tasks_to_allocate(job) and phrases.lacks_pods(job):
        text = phrases.not_ready(job)
        return Outcome.NOT_READY, text, (Explanation(reason=str(Reason.NOT_READY), message=text),)
    if errors is None or not errors.entries:
        taker = session.decisions.outbid.get(job.key)
        if taker is None:
            return Outcome.UNSCHEDULABLE, "not looked at in this cycle", ()
        text = f"what it waited for is given to workload {taker}"
        return (
            Outcome.UNSCHEDULABLE,
            text,
            (Explanation(reason=str(Reason.POD_SCHEDULING_ERRORS), message=text),),
        )
    return Outcome.UNSCHEDULABLE, errors.message(), errors.explanations()


def _shut_out(session: Session, job: Job) -> Explanation | None:
    """Why pods of a job that wait may not be given a place, whatever is free."""
    waits = (task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values() if task.shut_out)
    task = min(
        (task for task in waits if task.status is Status.GATED), key=lambda task: task.key, default=None
    )
    return denial(session.state, task) if task is not None else None


def denial(state: ClusterState, task: Task) -> Explanation | None:
    """Why a pod may not be given a place, whatever is free; None if it may."""
    job, facts = task.job, task.facts
    if job is None or facts is None or not task.shut_out:
        return None
    if job.usurps:
        text = access.priority_refusal(
            job.facts.priority_class, job.namespace, state.params.system_namespaces
        )
        return Explanation(reason=str(Reason.PRIORITY_CLASS_DENIED), message=text)
    if not job.queue.exists:
        return without_queue(state, job)
    text = state.access.refusal(job.queue.name, namespace=job.namespace, account=facts.account)
    return Explanation(reason=str(Reason.QUEUE_ACCESS_DENIED), message=text)


def outside_tree(state: ClusterState, queue: str) -> str:
    """Why a queue takes no part: which one on the way from it to the top is not there."""
    name, seen, queues = queue, set[str](), state.queues
    while (there := queues.get(name)) is not None and there.exists and name not in seen:
        seen.add(name)
        name = there.parent_name
    if (own := queues.get(queue)) is not None and own.too_deep:
        return f"queue {own.name!r} takes no part: {limits.too_deep(own.parent_name)}"
    if name in seen:
        return f"queue {name!r} is its own ancestor; change its spec.parentQueue"
    if seen:
        return f"queue {name!r}, above queue {queue!r}, does not exist; create it"
    return f"queue {name!r} does not exist; create it or name another"


def without_queue(state: ClusterState, job: Job) -> Explanation:
    """The same of the queue of a job, with what becomes of pods that run."""
    text = outside_tree(state, job.facts.queue)
    if job.active_allocated:
        text += (
            "; pods that run keep running until somebody needs what they hold, and are charged to no queue"
        )
    return Explanation(reason=str(Reason.QUEUE_DOES_NOT_EXIST), message=text)


def _annotations(job: Job) -> dict[str, str | None]:
    """What has to change on the pod group so that it says what is known here."""
    said, stale, start, eviction = job.facts.times, job.stale_since, job.last_start, job.last_eviction
    patch: dict[str, str | None] = {}
    # Mostly it says just what it should.
    if stale or said.stale is not None:
        _say(_STALE, stale, said.stale, patch)
    if said.start != (rfc3339(start) if start else None):
        _say(_STARTED, start, said.start, patch)
    if said.eviction != (rfc3339(eviction) if eviction else None):
        _say(_EVICTED, eviction, said.eviction, patch)
    return patch


def _say(key: str, moment: float, said: str | None, patch: dict[str, str | None]) -> None:
    """Let an annotation say when something was; none if never."""
    if not moment:
        if said is not None:
            patch[key] = None
    # Whole seconds are said, in one way or another.
    elif said is None or int(seconds(said)) != int(moment):
        patch[key] = rfc3339(moment)


def shares(session: Session) -> tuple[QueueShare, ...]:
    """The division of this cycle, parents before children; amounts held are those at its end."""
    columns = session.columns
    found: list[QueueShare] = []
    for row in session.state.queue_rows:
        number = row.row
        found.append(
            QueueShare(
                queue=row.name,
                display_name=row.display_name,
                parent=row.parent.name if row.parent else "",
                priority=row.priority,
                deserved=row.deserved,
                limit=row.limit,
                over_quota_weight=row.weight,
                fair_share=session.shares.fair[number],
                allocated=row.allocated.vector(),
                allocated_non_preemptible=row.non_preemptible.vector(),
                requested=row.requested,
                usage=tuple(columns.usage[number].tolist()),
            )
        )
    return tuple(found)
