"""Why a pod group or a pod waits, and what would let it run.

Everything is found by asking the engine itself: a remedy is told only if a cycle with just that change places
the group, those before it in the order served first. Nothing of it stays in the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from kai.engine.actions.eviction import delayed
from kai.engine.explain import outcomes, structure
from kai.engine.explain.changes import Change
from kai.engine.explain.remedies import remedies
from kai.engine.explain.trial import Begin, Trials
from kai.engine.framework.allocation import allocate_job
from kai.engine.framework.fit import is_shortage, node_verdicts
from kai.engine.framework.session import Session
from kai.engine.kernel.labels import Mask
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.reasons import Unschedulable
from kai.model.decisions import PodGroupOutcome, QueueShare, Reason
from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

#: What the search for remedies may take of the thread in which cycles run.
SECONDS: Final = 0.25
THERE_IS_ROOM: Final = "there is room for it; it has its turn in the next cycle"
OTHERS_FIRST: Final = "there would be room for it, but others come first and take it"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupAnswer:
    """Why a pod group is where it is. ``queues`` go from the top of the tree to its own."""

    outcome: PodGroupOutcome
    queues: tuple[QueueShare, ...]
    remedies: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """What one node says to a pod; ``filter`` and ``reason`` are empty where it fits."""

    node: str
    fits: bool
    filter: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAnswer:
    """Why a pod is where it is."""

    message: str
    nodes: tuple[NodeAnswer, ...]


def explain_pod_group(
    begin: Begin, state: ClusterState, key: PodGroupKey, *, now: float
) -> PodGroupAnswer | None:
    """Ask about a pod group (``namespace/name``) as of ``now`` (Unix seconds); None if there is none.

    The state ends as it began; where this raises, the caller undoes it. Remedies are looked for where it
    found no room, for :data:`SECONDS` at most.
    """
    session = begin(state, now)
    job = state.jobs.get(key)
    if job is None:
        return None
    tried = not structure.blocks(job) and bool(tasks_to_allocate(job))
    fits = tried and _fits(session, job)
    if tried:
        delayed(session, job)
        _remember_spared(session, job)
    found = outcomes.describe(session, job)
    trials = Trials(begin, state, job, now=now, seconds=SECONDS)
    if fits:
        fits = trials.served()
        text = THERE_IS_ROOM if fits else OTHERS_FIRST
        found = msgspec.structs.replace(found, message=text, explanations=())
    elif tried:
        found = _with_findings(session, job, found)
    shares = {share.queue: share for share in outcomes.shares(session)}
    help_wanted = tried and not fits
    return PodGroupAnswer(
        outcome=found,
        queues=tuple(shares[queue.name] for queue in reversed(job.queue.path)),
        remedies=tuple(remedies(trials, session, job)) if help_wanted else (),
    )


def explain_pod(begin: Begin, state: ClusterState, key: str, *, now: float) -> PodAnswer | None:
    """Ask about a pod (``namespace/name``) as of ``now`` (Unix seconds); None if there is none.

    Nodes are listed for a pod that waits only. Costs time by their number.
    """
    session = begin(state, now)
    task = state.task(key)
    if task is None:
        return None
    if (denied := outcomes.denial(state, task)) is not None and task.status is Status.GATED:
        return PodAnswer(message=f"{denied.reason}: {denied.message}", nodes=())
    if task.status is not Status.PENDING or task.job is None:
        where = f" on {task.node.name}" if task.node is not None else ""
        return PodAnswer(message=f"the pod is {task.status.label}{where}", nodes=())
    nodes = tuple(node_answers(session, task, task.job))
    able = sum(node.fits for node in nodes)
    if able:
        return PodAnswer(message=f"{able} of {len(nodes)} nodes could take the pod now", nodes=nodes)
    return PodAnswer(message=f"none of {len(nodes)} nodes can take the pod", nodes=nodes)


def node_answers(session: Session, task: Task, job: Job) -> Iterator[NodeAnswer]:
    """What each node says to a pod that waits, in the order of rows."""
    masks: list[tuple[Mask, str]] = []
    checks: dict[str, str] = {}
    concerned = session.concerned(task.cls)
    if concerned is not None:
        for pre_filter in concerned.pre_filters:
            if why := pre_filter.refuse(task, job):
                masks.append((np.zeros(len(session.nodes), dtype=bool), why))
                checks[why] = type(pre_filter).__name__
        for each in concerned.filters:
            if (found := each.mask(task)) is not None:
                masks.append(found)
                checks[found[1]] = type(each).__name__
    verdicts = node_verdicts(session, task, nodes=None, masks=masks)
    for node, reasons in zip(session.nodes.nodes, verdicts, strict=True):
        if not reasons and concerned is not None:
            for node_filter in concerned.node_filters:
                if why := node_filter.check(task, node):
                    reasons = (why,)
                    checks[why] = type(node_filter).__name__
                    break
        if not reasons:
            yield NodeAnswer(node=node.name, fits=True)
            continue
        short = all(map(is_shortage, reasons))
        name = "Resources" if short else checks.get(reasons[0], "Node")
        yield NodeAnswer(node=node.name, fits=False, filter=name, reason=", ".join(reasons))


def _fits(session: Session, job: Job) -> bool:
    """Whether the job's next chunk would find room now, if nobody came first; nothing stays but reasons."""
    statement = session.statement()
    placed = allocate_job(session, statement, job)
    statement.rollback()
    return placed


def _remember_spared(session: Session, job: Job) -> None:
    """Whom the minimum runtime protects is found by searches for victims: the last cycle's word counts."""
    known = outcomes.published(session.state, job.key)
    for each in known.explanations if known is not None else ():
        if each.reason == Reason.MIN_RUNTIME:
            session.error(job, Unschedulable(Reason.MIN_RUNTIME, each.message))


def _with_findings(session: Session, job: Job, found: PodGroupOutcome) -> PodGroupOutcome:
    """The outcome, what is wrong with names and sizes first."""
    first = tuple(structure.findings(session, job, tasks_to_allocate(job)))
    if not first:
        return found
    message = "; ".join([*(each.message for each in first), found.message])
    return msgspec.structs.replace(found, message=message, explanations=(*first, *found.explanations))
