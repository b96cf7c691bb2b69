"""Whom a failure is about: the objects that were being looked at where it came from.

Nothing is recorded while all goes well. A traceback knows the variables of each call, and the innermost call
that has a pod, a job or an object of the cluster at hand is the one that failed over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from kai.engine.queueing.batches import Batch
from kai.model.failures import FailedOver
from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Node, PodSet, Queue, Task
from kai.snapshot.state import ClusterState, Kind

#: Which kinds are suspected first where one call has several at hand; those not named come at 2.
_ORDER = {Kind.POD_GROUP: 0, Kind.POD: 1, Kind.NODE: 3, Kind.QUEUE: 4}
#: Which kinds are more likely at fault than others, wherever they were at hand; those not named come at 1.
_LIKELY = {Kind.POD_GROUP: 0, Kind.POD: 0, Kind.QUEUE: 2}


@dataclass(frozen=True, slots=True)
class Suspect:
    """An object that a failed call had at hand."""

    kind: Kind
    key: str

    @property
    def pod_group(self) -> PodGroupKey:
        """The key of one that is a pod group."""
        return PodGroupKey(self.key)


def suspects(error: BaseException, state: ClusterState) -> list[Suspect]:
    """Objects of the cluster that calls had at hand, those of the innermost call first; each once."""
    known = _parts(state)
    found: dict[Suspect, None] = {}
    for frame in reversed(list(_frames(error))):
        here = [each for value in frame.f_locals.values() if (each := _suspect(value, known)) is not None]
        here += [each for each in (_of_owner(frame.f_locals.get("self")),) if each is not None]
        found.update(dict.fromkeys(sorted(here, key=lambda each: _ORDER.get(each.kind, 2))))
    return list(found)


@contextmanager
def blamed(state: ClusterState) -> Iterator[None]:
    """A failure in the block names whom it is most likely about, where anybody was at hand.

    Raises:
        FailedOver: somebody was.
    """
    try:
        yield
    except Exception as error:
        found = suspects(error, state)
        if not found:
            raise
        # As cycles do: users' objects are what changes, and a queue is at hand wherever jobs are.
        who = min(found, key=lambda each: _LIKELY.get(each.kind, 1))
        raise FailedOver(f"{who.kind.kubernetes} {who.key}", error) from error


def _parts(state: ClusterState) -> dict[int, Suspect]:
    """By identity: objects that plugins read, and what pods say of others, read when those are looked at."""
    known: dict[int, Suspect] = {}
    for task in state.affine.values():
        if (who := _suspect(task, known)) is not None:
            constraints = task.cls.constraints
            for part in (constraints.pod_affinity, constraints.pod_anti_affinity):
                known.update((id(each), who) for each in _dicts(part))
    for kind, objects in state.objects.items():
        known.update((id(obj), Suspect(kind, key)) for key, obj in objects.items())
    return known


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _frames(error: BaseException) -> Iterator[FrameType]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _suspect(value: Any, known: dict[int, Suspect]) -> Suspect | None:
    match value:
        case Task():
            job = value.job
            return Suspect(Kind.POD, value.key) if job is None else Suspect(Kind.POD_GROUP, job.key)
        case Job():
            return Suspect(Kind.POD_GROUP, value.key)
        case Batch():
            return Suspect(Kind.POD_GROUP, value.job.key)
        case PodSet():
            return next((_suspect(task, known) for task in value.tasks.values()), None)
        case Node():
            return Suspect(Kind.NODE, value.name)
        case Queue():
            return Suspect(Kind.QUEUE, value.name)
    return known.get(id(value))


def _of_owner(owner: Any) -> Suspect | None:
    """What the object whose method failed is about."""
    if isinstance(owner, PodSet):
        return _suspect(owner, {})
    job = getattr(owner, "job", None)
    return Suspect(Kind.POD_GROUP, job.key) if isinstance(job, Job) else None
