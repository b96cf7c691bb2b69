"""Why a pod group or a pod waits, and what would let it run.

Everything is found by asking the engine itself: a remedy is told only if a cycle with just that change places
the group. Nothing of it stays in the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kai.engine import outcomes
from kai.engine.allocation import allocate_job
from kai.engine.explain.fit import node_verdicts
from kai.engine.kernel.labels import Mask
from kai.engine.tree import tasks_to_allocate
from kai.model.decisions import PodGroupOutcome, QueueShare
from kai.snapshot.classes import Constraints, TaskClass
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status
from kai.snapshot.times import rfc3339

if TYPE_CHECKING:
    from kai.engine.engine import Engine
    from kai.engine.session import Session

_UNLIMITED = (-1.0, -1.0, -1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupAnswer:
    """Why a pod group is where it is. ``queues`` go from the top of the tree to its own."""

    outcome: PodGroupOutcome
    queues: tuple[QueueShare, ...]
    remedies: tuple[str, ...]


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


def explain_pod_group(engine: Engine, state: ClusterState, key: str, now: float) -> PodGroupAnswer | None:
    """Ask about a pod group (``namespace/name``); None if there is none."""
    session = engine.open(state, now)
    job = state.jobs.get(key)
    if job is None:
        return None
    fits = _places(session, job)
    found = outcomes.describe(session, job)
    shares = {share.queue: share for share in outcomes.shares(session)}
    remedies = () if fits or not job.pending else tuple(_remedies(engine, state, session, job, now))
    return PodGroupAnswer(
        outcome=found,
        queues=tuple(shares[queue.name] for queue in reversed(job.queue.path)),
        remedies=remedies,
    )


def explain_pod(engine: Engine, state: ClusterState, key: str, now: float) -> PodAnswer | None:
    """Ask about a pod (``namespace/name``); None if there is none."""
    session = engine.open(state, now)
    task = state.task(key)
    if task is None:
        return None
    if task.status is not Status.PENDING or task.job is None:
        where = f" on {task.node.name}" if task.node is not None else ""
        return PodAnswer(message=f"the pod is {task.status.label}{where}", nodes=())
    nodes = tuple(node_answers(session, task, task.job))
    able = sum(node.fits for node in nodes)
    if able:
        return PodAnswer(message=f"{able} of {len(nodes)} nodes could take the pod now", nodes=nodes)
    return PodAnswer(message=f"none of {len(nodes)} nodes can take the pod", nodes=nodes)


def node_answers(session: Session, task: Task, job: Job) -> Iterator[NodeAnswer]:
    """What each node says to a pod that waits, in the order of nodes."""
    masks: list[tuple[Mask, str]] = []
    checks: dict[str, str] = {}
    for plugin in session.concerned(task.cls):
        name = type(plugin).__name__
        if why := plugin.refuse(task, job):
            masks.append((np.zeros(len(session.nodes), dtype=bool), why))
            checks[why] = name
        mask, why = plugin.mask(task)
        if mask is not None:
            masks.append((mask, why))
            checks[why] = name
    verdicts = node_verdicts(session, task, None, masks)
    for node, reasons in zip(session.nodes.nodes, verdicts, strict=True):
        if not reasons:
            for plugin in session.concerned(task.cls):
                if why := plugin.check(task, node):
                    reasons = (why,)
                    checks[why] = type(plugin).__name__
                    break
        if not reasons:
            yield NodeAnswer(node=node.name, fits=True)
            continue
        short = all(reason.startswith("Insufficient") for reason in reasons)
        name = "Resources" if short else checks.get(reasons[0], "Node")
        yield NodeAnswer(node=node.name, fits=False, filter=name, reason=", ".join(reasons))


# --- what would help -----------------------------------------------------------------------------
def _places(session: Session, job: Job) -> bool:
    """Whether allocate would place the job\'s next chunk now; nothing stays."""
    if not job.queue.leaf or job.error or not job.ready:
        return False
    statement = session.statement()
    placed = allocate_job(session, statement, job)
    statement.rollback()
    return placed


def _remedies(engine: Engine, state: ClusterState, session: Session, job: Job, now: float) -> Iterator[str]:
    if job.error or not job.queue.path:
        return
    tasks = tasks_to_allocate(job)
    told = [remedy for queue in job.queue.path for remedy in _queue_remedies(session, job, queue)]
    yield from told or _path_remedies(session, job)
    yield from _constraint_remedies(session, job, tasks)
    yield from _size_remedies(session, job, tasks)
    yield from _node_remedies(session, job, tasks)
    delay = job.facts.preemption_delay
    until = max(job.created, job.last_eviction) + delay
    if delay > 0 and now < until:
        yield f"wait until {rfc3339(until)}: from then on it may take the place of others"
    del engine, state


def _queue_remedies(session: Session, job: Job, queue: Queue) -> Iterator[str]:
    with _changed(queue, "limit", _UNLIMITED):
        if _places(session, job):
            yield f"raise the limit of queue {queue.display_name!r}"
            return
    if not job.preemptible:
        with _changed(queue, "deserved", _UNLIMITED):
            if _places(session, job):
                yield f"raise the quota of queue {queue.display_name!r}, or make the workload preemptible"


def _path_remedies(session: Session, job: Job) -> Iterator[str]:
    """What no queue alone can give: each on the way to the top has the same bound."""
    queues = " and ".join(repr(queue.display_name) for queue in job.queue.path)
    bounds = [("limit", f"raise the limits of queues {queues}")]
    if not job.preemptible:
        remedy = f"raise the quotas of queues {queues}, or make the workload preemptible"
        bounds.append(("deserved", remedy))
    for name, remedy in bounds:
        with ExitStack() as changes:
            for queue in job.queue.path:
                changes.enter_context(_changed(queue, name, _UNLIMITED))
            if _places(session, job):
                yield remedy
                return


def _constraint_remedies(session: Session, job: Job, tasks: list[Task]) -> Iterator[str]:
    constrained = [
        ("node_selector", (), "remove the node selector"),
        ("node_affinity", None, "remove the required node affinity"),
        ("pod_affinity", None, "remove the pod affinity"),
        ("pod_anti_affinity", None, "remove the pod anti-affinity"),
        ("spread", (), "remove the topology spread constraints"),
        ("host_ports", (), "remove the host ports"),
    ]
    for name, nothing, remedy in constrained:
        if any(getattr(task.cls.constraints, name) for task in tasks):
            with _reclassed(session, tasks, name, nothing):
                if _places(session, job):
                    yield remedy
    if job.has_constraint:
        topology, session.topology = session.topology, None
        if _places(session, job):
            yield "relax the required topology level"
        session.topology = topology


def _size_remedies(session: Session, job: Job, tasks: list[Task]) -> Iterator[str]:
    """The largest part of a gang that would fit."""
    if len(tasks) < 2:
        return
    low, high = 0, len(tasks)
    while high - low > 1:
        middle = (low + high) // 2
        statement = session.statement()
        if allocate_job(session, statement, job, tasks=tasks[:middle]):
            low = middle
        else:
            high = middle
        statement.rollback()
    if low:
        yield f"lower the minimum: {low} of the {len(tasks)} pods needed would fit now"


def _node_remedies(session: Session, job: Job, tasks: list[Task]) -> Iterator[str]:
    """How many empty nodes like the largest would do."""
    table = session.nodes
    if not len(table):
        return
    row = int(table.allocatable[:, GPU].argmax())
    node = table.nodes[row]
    view = session.view(tasks[0].cls)
    if len({task.cls.id for task in tasks}) != 1 or not view.allowed[row] or tasks[0].cls.shared:
        return
    per_node = min(table.cells_allocatable[row, column] // amount for column, amount in tasks[0].cls.items)
    if per_node <= 0 or session.over_capacity(job, tasks) is not None or session.concerned(tasks[0].cls):
        return
    free = table.idle + table.releasing
    fitting = (int((free[:, column] // amount).clip(min=0).sum()) for column, amount in tasks[0].cls.items)
    slots = min(fitting) if len(tasks) > 1 else 0
    missing = -(-(len(tasks) - slots) // per_node)
    if missing > 0:
        yield f"add {missing} node{'s' if missing > 1 else ''} like {node.name}, or free as much on others"


@contextmanager
def _changed(queue: Queue, name: str, value: tuple[float, float, float]) -> Iterator[None]:
    before = getattr(queue, name)
    setattr(queue, name, value)
    try:
        yield
    finally:
        setattr(queue, name, before)


@contextmanager
def _reclassed(session: Session, tasks: list[Task], name: str, nothing: object) -> Iterator[None]:
    """Give tasks classes without a constraint for a while; what was found about those is forgotten after."""
    before = [task.cls for task in tasks]
    changed: dict[int, TaskClass] = {}
    for cls in before:
        if cls.id not in changed:
            constraints: Constraints = replace(cls.constraints, **{name: nothing})  # type: ignore[arg-type]
            changed[cls.id] = replace(cls, constraints=constraints, id=-2 - cls.id)
    for task in tasks:
        task.cls = changed[task.cls.id]
    try:
        yield
    finally:
        for task, cls in zip(tasks, before, strict=True):
            task.cls = cls
        session.forget(cls.id for cls in changed.values())
