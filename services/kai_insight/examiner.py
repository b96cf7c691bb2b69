"""Looks at what waits in a shard, in a copy of its state, and finds verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from kai.answers.answer import Answer, Code, Verdict
from kai.answers.answering import answer_pod_group
from kai.answers.situation import Situation
from kai.engine.explain.job_order import job_order
from kai.live.waiting import Places
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.snapshot.rows import Job
from kai_insight.likeness import OF_ONE, Likeness, as_told_of, likeness, names_it
from kai_insight.live.copies import situation_of
from kai_insight.live.shard import Course

#: What one look may take of its thread; who was not looked at is first the next time.
SECONDS: Final = 2.0
#: Where nothing but time has passed, one looks again after so long.
AGAIN_SECONDS: Final = 60.0
#: A text in a condition is no page.
_LONGEST: Final = 600

_log = structlog.get_logger(__name__)


class Examiner:
    """Of one shard. ``clock`` is what the thread has worked, in seconds.

    Args:
        most_pods: with more of them in the cluster nothing is looked at: copies take memory.
    """

    def __init__(
        self,
        *,
        most_pods: int,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.thread_time,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._most_pods = most_pods
        self._seconds = seconds
        self._clock = clock
        self._now = now
        #: In which look each group that waits was looked at last.
        self._looked_at: dict[PodGroupKey, int] = {}
        self._looks = 0
        self._too_many = False
        #: The state of the last look, and since when (Unix seconds).
        self._seen: tuple[int, int] | None = None
        self._seen_at = 0.0
        #: Where groups stood in their queues at the last look.
        self.places: Places = {}

    @property
    def waiting(self) -> frozenset[PodGroupKey]:
        """Groups that waited at the last look; none where nothing can be looked at."""
        return frozenset(self._looked_at)

    def take(self, replay: Course) -> Situation | None:
        """What is to be looked at, in the thread that owns the state; None where there is nothing new."""
        state, now = replay.state, self._now()
        self._looks += 1
        self._looked_at = {
            job.key: self._looked_at.get(job.key, 0)
            for job in state.jobs.values()
            if job.pending or job.gated
        }
        if not self._looked_at or self._is_too_large(len(state.tasks)):
            # What was found before stands for nothing that is looked at again.
            self._looked_at, self.places = {}, {}
            return None
        return None if self._is_old(replay, now) else situation_of(replay, now=now)

    def find(self, situation: Situation) -> Mapping[PodGroupKey, GroupVerdict | None]:
        """What was found of those groups that there was time for, None where it is nothing that lasts.

        In any thread, as it is a copy. Those that were not looked at for the longest time come first, and of
        these the oldest.
        """
        situation.prepare()
        self.places = _places(situation)
        jobs = [situation.state.jobs[key] for key in self._looked_at]
        jobs.sort(key=lambda job: (self._looked_at[job.key], job.created, job.key))
        began = self._clock()
        found: dict[PodGroupKey, GroupVerdict | None] = {}
        known: dict[Likeness, tuple[Job, GroupVerdict]] = {}
        for job in jobs:
            like = likeness(job)
            if like is not None and like in known and not names_it(known[like][1], job):
                found[job.key] = as_told_of(job, *known[like])
            elif self._clock() - began <= self._seconds:
                try:
                    answer = answer_pod_group(situation, job.key, seconds=0.0)
                except Exception:  # noqa: BLE001 (one group must not keep the others from their verdicts)
                    _log.exception("a pod group cannot be looked at", pod_group=job.key)
                    found[job.key], self._looked_at[job.key] = None, self._looks
                    break  # what was tried may be in effect still: the others come next, in another copy
                found[job.key] = verdict = _short(job, answer) if answer is not None else None
                if like is not None and verdict is not None and verdict.code not in OF_ONE:
                    known.setdefault(like, (job, verdict))
            else:
                continue
            self._looked_at[job.key] = self._looks
        return found

    def _is_old(self, replay: Course, now: float) -> bool:
        """Whether all was looked at with these very objects, a moment ago: only time may have changed it."""
        seen = (id(replay), replay.state.version)
        if seen == self._seen and all(self._looked_at.values()) and now - self._seen_at < AGAIN_SECONDS:
            return True
        if seen != self._seen or now - self._seen_at >= AGAIN_SECONDS:
            self._seen, self._seen_at = seen, now
        return False

    def _is_too_large(self, pods: int) -> bool:
        """Whether there is too much to copy; told in the log when that changes."""
        before, self._too_many = self._too_many, pods > self._most_pods
        if self._too_many and not before:
            _log.warning(
                "pod groups get no verdicts: there are more pods than --verdict-pods allows",
                pods=pods,
                verdict_pods=self._most_pods,
            )
        return self._too_many


def _places(situation: Situation) -> Places:
    return {
        PodGroupKey(each.id): (ahead, len(line))
        for line in job_order(situation.session).queue_order.values()
        for ahead, each in enumerate(line)
    }


def _short(job: Job, answer: Answer) -> GroupVerdict | None:
    if answer.verdict is Verdict.RUNS or answer.reason.code is Code.NEXT_CYCLE:
        return None
    text = answer.reason.text
    return GroupVerdict(
        pod_group=job.key,
        verdict=answer.verdict,
        code=answer.reason.code,
        text=text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…",
        uid=job.uid,
    )
