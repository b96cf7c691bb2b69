"""Jobs that wait alike have their turns together, once one of them was refused."""

from __future__ import annotations

from collections.abc import Iterable

from kai.engine.queueing.alike import Likeness, likeness
from kai.engine.queueing.pending import PendingJobs
from kai.snapshot.rows import Job


class Crowds:
    """Those alike of one queue, among jobs that are served in order, of which one was refused.

    All the others would be, for the same reason. They keep their turns: while a job is the next of its queue,
    what it asks for says when that queue is served.
    """

    def __init__(self, waiting: PendingJobs) -> None:
        self._waiting = waiting
        #: By queue and likeness, the first of each that was refused.
        self._refused: dict[str, dict[Likeness, Job]] = {}
        #: Queue and likeness of those that were refused until something changes.
        self._for_now: set[tuple[str, Likeness]] = set()

    def first(self, job: Job) -> Job | None:
        """The job whose refusal stands for this one's; None if it has to be looked at."""
        refused = self._refused.get(job.queue.name)
        like = likeness(job) if refused else None
        return None if refused is None or like is None else refused.get(like)

    def refuse(self, job: Job, *, for_now: bool = False) -> Iterable[tuple[Job, list[Job]]]:
        """A job was refused in its turn, and those alike will be: ``for_now``, or whatever changes.

        Takes those that come right after it and are refused as well, and tells them with the first of theirs.
        """
        like = likeness(job)
        if like is None:
            return ()
        refused = self._refused.setdefault(job.queue.name, {})
        refused.setdefault(like, job)
        if for_now:
            self._for_now.add((job.queue.name, like))
        found: dict[Likeness, list[Job]] = {}
        for its, other in self._waiting.pop_next_of(job.queue, refused):
            found.setdefault(its, []).append(other)
        return [(refused[its], others) for its, others in found.items()]

    def changed(self) -> None:
        """Something was decided: who was refused for now is looked at again in his turn."""
        for queue, like in self._for_now:
            del self._refused[queue][like]
        self._for_now.clear()
