"""Rows of what waits, those that somebody may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from kai.live.board import Board
from kai.live.groups import tasks_of, user_of, waits, workload_of
from kai.live.redaction import redacted
from kai.live.told import GroupRow, Place, Waiting
from kai.live.views import Sight, hidden_namespaces
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

#: Where a group stands in its queue: so many are before it, of so many.
Places: TypeAlias = Mapping[PodGroupKey, tuple[int, int]]
_OVER: Final = (Status.SUCCEEDED, Status.FAILED)


class Sort(StrEnum):
    """In which order rows come; what is equal goes by name."""

    AGE = "age"
    POSITION = "position"
    GPUS = "gpus"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which rows are wanted; what is empty wants all. ``text`` is looked for in names and reasons."""

    namespace: str = ""
    queue: str = ""
    verdict: str | None = None
    code: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was found of those that wait, by an engine on a copy; nothing is known of others."""

    verdicts: Mapping[PodGroupKey, GroupVerdict] = field(default_factory=dict)
    places: Places = field(default_factory=dict)


def waiting(
    state: ClusterState,
    board: Board,
    sight: Sight,
    *,
    filters: Filters,
    sort: Sort,
    limit: int,
    known: Known,
) -> Waiting:
    """The first rows, how many there are by verdict and code, and how many somebody may not see.

    Costs time by the number of groups that wait, and of the pods of those that are told.
    """
    jobs = [state.jobs[key] for key in board.waiting if key in state.jobs]
    seen = [job for job in jobs if sight is None or job.namespace in sight]
    hidden = hidden_namespaces(state, board, sight)
    verdicts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    found: list[Job] = []
    for job in seen:
        said = known.verdicts.get(job.key)
        verdict, code = (said.verdict, said.code) if said is not None else ("", "")
        if not _matches(state, job, said, filters, hidden=hidden):
            continue
        of_verdict = filters.verdict is None or filters.verdict == verdict
        of_code = not filters.code or filters.code == code
        verdicts[verdict] += of_code
        codes[code] += of_verdict and bool(code)
        if of_verdict and of_code:
            found.append(job)
    found.sort(key=_order(sort, board, known.places))
    return Waiting(
        items=[row(state, job, known) for job in found[:limit]],
        more=len(found) > limit,
        hidden=len(jobs) - len(seen),
        total=len(found),
        verdicts={name: count for name, count in verdicts.items() if count},
        codes={name: count for name, count in codes.items() if count},
    )


def row(state: ClusterState, job: Job, known: Known) -> GroupRow:
    """One pod group, whether it waits or not. Amounts are those of all its pods that have not ended."""
    group = state.group_objects.get(job.key)
    pods = [task for task in tasks_of(job) if task.status not in _OVER]
    lacks = [task.created for task in pods if waits(task)]
    said, place = known.verdicts.get(job.key), known.places.get(job.key)
    return GroupRow(
        namespace=job.namespace,
        name=job.name,
        workload=workload_of(group),
        user=user_of(group),
        queue=job.facts.queue,
        created=job.created,
        waiting_since=min(lacks, default=None),
        pods=len(pods),
        running=job.active_allocated,
        min_member=sum(pod_set.min_member for pod_set in job.pod_sets.values()),
        gpus=sum(task.cls.gpu_centi for task in pods) / GPU_CENTI,
        cpu_millis=sum(task.cls.cpu_millis for task in pods),
        memory_bytes=sum(task.cls.memory_bytes for task in pods),
        priority=job.priority,
        preemptible=job.preemptible,
        verdict=said.verdict if said is not None else "",
        code=said.code if said is not None else "",
        text=said.text if said is not None else "",
        position=Place(ahead=place[0], of=place[1]) if place is not None else None,
    )


def _matches(
    state: ClusterState, job: Job, said: GroupVerdict | None, filters: Filters, *, hidden: Container[str]
) -> bool:
    if filters.namespace and job.namespace != filters.namespace:
        return False
    if filters.queue and not _charged_to(job, filters.queue):
        return False
    return not filters.text or filters.text.casefold() in _words(state, job, said, hidden=hidden).casefold()


def _charged_to(job: Job, queue: str) -> bool:
    """Whether it is of a queue, or of one below it."""
    return job.facts.queue == queue or any(each.name == queue for each in job.queue.path)


def _words(state: ClusterState, job: Job, said: GroupVerdict | None, *, hidden: Container[str]) -> str:
    """What somebody reads of it: what is not told to him cannot be guessed by looking for it either."""
    group = state.group_objects.get(job.key)
    told = redacted(said.text, hidden) if said is not None else ""
    return "\n".join((job.key, workload_of(group), user_of(group), job.facts.queue, told))


def _order(sort: Sort, board: Board, places: Places) -> Callable[[Job], Any]:
    last = len(board.waiting) + 1
    match sort:
        case Sort.AGE:
            return lambda job: (job.created, job.key)
        case Sort.POSITION:
            return lambda job: (places.get(job.key, (last, 0))[0], job.created, job.key)
        case Sort.GPUS:
            return lambda job: (-board.waiting[job.key].gpu_centi, job.key)
        case Sort.NAME:
            return lambda job: (job.key,)
