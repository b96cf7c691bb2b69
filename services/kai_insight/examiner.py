"""Looks at what waits in a shard, in a copy of its state, and finds verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from kai.answers.answer import Answer, Code, Verdict
from kai.answers.answering import answer_pod_group
from kai.answers.situation import Situation
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.replay import remainder
from kai.replay.cycles import Replay
from kai.snapshot import codec

#: What one look may take of its thread; who was not looked at is first the next time.
SECONDS: Final = 2.0
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

    @property
    def waiting(self) -> frozenset[PodGroupKey]:
        """Groups that waited at the last look."""
        return frozenset(self._looked_at)

    def look(self, replay: Replay) -> Mapping[PodGroupKey, GroupVerdict | None]:
        """What was found of those groups that there was time for, None where it is nothing that lasts.

        The replay is as before afterwards.
        """
        state = replay.state
        self._looks += 1
        self._looked_at = {
            job.key: self._looked_at.get(job.key, 0)
            for job in state.jobs.values()
            if job.pending or job.gated
        }
        if not self._looked_at or self._is_too_large(len(state.tasks)):
            return {}
        situation = Situation(
            snapshot=codec.cut(state),
            now=self._now(),
            config=replay.engine.config,
            usage=replay.engine.last_usage,
            faults={(each.kind, each.key): each for each in state.faults.values()},
            remainder=remainder.take(state, replay.engine.turns),
        )
        began = self._clock()
        found: dict[PodGroupKey, GroupVerdict | None] = {}
        for key in sorted(self._looked_at, key=lambda key: (self._looked_at[key], key)):
            if self._clock() - began > self._seconds:
                break
            answer = answer_pod_group(situation, key, seconds=0.0)
            found[key] = _short(key, answer) if answer is not None else None
            self._looked_at[key] = self._looks
        return found

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


def _short(key: PodGroupKey, answer: Answer) -> GroupVerdict | None:
    if answer.verdict is Verdict.RUNS or answer.reason.code is Code.NEXT_CYCLE:
        return None
    text = answer.reason.text
    return GroupVerdict(
        pod_group=key,
        verdict=answer.verdict,
        code=answer.reason.code,
        text=text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…",
    )
