"""Answers that are tried on copies: one workload, its forecast, and what would follow from a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from kai.answers.answer import Answer, Verdict, document
from kai.answers.situation import Situation
from kai.live import details, waiting
from kai.live.board import Board
from kai.live.redaction import redacted
from kai.live.views import Sight, hidden_namespaces
from kai.model import duration
from kai.model.faults import OutOfBounds
from kai.model.ids import PodGroupKey
from kai.simulate.changes import Change, ChangeRefused
from kai.simulate.wording import NoSuchChange, changes_of
from kai.snapshot.state import ClusterState
from kai_insight.http import live_endpoints as endpoints
from kai_insight.http.live_asked import LiveAsked
from kai_insight.http.live_endpoints import LiveEndpoint
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import encode
from kai_insight.http.turns import Turns
from kai_insight.live import questions
from kai_insight.live.copies import MOST_WAITING, Copies, TooManyAsk, TooManyPods
from kai_insight.live.knowledge import Knowledge, Unknown
from kai_insight.live.shard import Course, LiveShard
from kai_insight.live.told import ForecastTold, WorkloadTold

T = TypeVar("T")
#: Of those that may wait so many are of one who asks, a third; he has his others wait for these.
OF_ONE: Final = MOST_WAITING // 3
_USUAL_SECONDS: Final = 3600.0
#: Further ahead nobody looks here.
MOST_SECONDS: Final = 7 * 86_400.0
#: They name several nodes.
_OF_NODES: Final = frozenset({"drain", "remove"})
_OF_WORKLOADS: Final = frozenset({"priority", "preemptibility", "minimum", "delete"})


class TriedAnswers:
    """Each raises Problem where there is no answer, and NoState where there is no state."""

    def __init__(self, knowledge: Knowledge, copies: Copies) -> None:
        self._knowledge = knowledge
        self._copies = copies
        self._own = Turns(OF_ONE)

    async def answer(
        self, endpoint: LiveEndpoint, asked: LiveAsked, shard: LiveShard, sight: Sight, *, asker: str
    ) -> bytes:
        """The JSON of an answer to one who asks, who may ask for so much at a time."""
        async with self._own.of(asker):
            match endpoint:
                case endpoints.WORKLOAD:
                    return await self._workload(asked, shard, sight)
                case endpoints.FORECAST:
                    return await self._forecast(asked, shard)
                case _:
                    return await self._what_if(asked, shard)

    async def _workload(self, asked: LiveAsked, shard: LiveShard, sight: Sight) -> bytes:
        """Why it is where it is, and its pods."""
        key = _key(asked)
        answer, reason = None, ""
        try:
            answer = await self._tried(shard, lambda situation: questions.explained(situation, key))
        except TooManyPods as error:
            reason = str(error)
        known = self._knowledge.known(shard.name)
        if answer is not None:
            known = waiting.Known(verdicts={key: questions.verdict_of(key, answer)}, places=known.places)

        def told(course: Course, board: Board) -> bytes:
            job = course.state.jobs.get(key)
            if job is None:
                raise _unknown(key)
            pods, more = details.pods(board, job)
            found = WorkloadTold(
                answer=document(answer) if answer is not None else None,
                reason=reason,
                group=waiting.row(course.state, job, known),
                pods=pods,
                more=more,
            )
            return _seen(found, course.state, board, sight)

        return await shard.look(told)

    async def _forecast(self, asked: LiveAsked, shard: LiveShard) -> bytes:
        """When it starts, where it does so by itself."""
        key = _key(asked)
        try:
            runs = await self._knowledge.runs()
            at, found = await self._tried(
                shard, lambda situation: (situation.now, questions.foreseen(situation, key, runs))
            )
        except (Unknown, TooManyPods) as error:
            return encode(ForecastTold(forecast=None, reason=str(error)))
        if found is None:
            raise _unknown(key)
        if found.forecast is None:
            return encode(ForecastTold(forecast=None, reason=_why_none(found)))
        held = await self._knowledge.keep_forecast(found, at=at)
        basis = msgspec.structs.replace(found.forecast.basis, coverage=held)
        told = msgspec.to_builtins(msgspec.structs.replace(found.forecast, basis=basis))
        return encode(ForecastTold(forecast=told, reason=""))

    async def _what_if(self, asked: LiveAsked, shard: LiveShard) -> bytes:
        """What would follow from a change that is said in words."""
        words, like = _words(asked)

        def changes(state: ClusterState, now: float) -> list[Change]:
            del now
            return changes_of(state, words, namespace="default", like=like)

        return await self._followed(shard, changes, within=within(asked))

    async def followed(
        self,
        shard: LiveShard,
        changes: Callable[[ClusterState, float], list[Change]],
        *,
        within: float,
        asker: str,
    ) -> bytes:
        """What would follow from changes of a state as of a moment (Unix seconds), to one who asks."""
        async with self._own.of(asker):
            return await self._followed(shard, changes, within=within)

    async def _followed(
        self,
        shard: LiveShard,
        changes: Callable[[ClusterState, float], list[Change]],
        *,
        within: float,
    ) -> bytes:
        def question(situation: Situation) -> bytes:
            try:
                return encode(questions.followed(situation, changes, within=within))
            except (ChangeRefused, NoSuchChange, OutOfBounds) as error:
                raise Problem(Trouble.BAD_PARAMETER, str(error)) from None
            except questions.TakesTooLong as error:
                raise Problem(Trouble.TOO_SLOW, str(error)) from None

        try:
            return await self._tried(shard, question)
        except TooManyPods as error:
            raise Problem(Trouble.NO_STATE, str(error)) from None

    async def _tried(self, shard: LiveShard, question: Callable[[Situation], T]) -> T:
        try:
            return await self._copies.ask(shard, question)
        except TooManyAsk:
            raise Problem(
                Trouble.BUSY, f"{MOST_WAITING} such questions wait for their turn; ask again later"
            ) from None


def _key(asked: LiveAsked) -> PodGroupKey:
    return PodGroupKey(f"{asked.text(endpoints.NAMESPACE.name)}/{asked.text(endpoints.NAME.name)}")


def _unknown(key: PodGroupKey) -> Problem:
    return Problem(Trouble.NOT_FOUND, f"there is no pod group {str(key)[:120]!r} that is known here")


def _why_none(answer: Answer) -> str:
    if answer.verdict is Verdict.RUNS:
        return "nothing of it waits"
    if answer.verdict is Verdict.WAIT:
        return "there was not time enough to let the cluster live on often enough"
    return f"it does not start by itself: {answer.verdict} ({answer.reason.code})"


def _words(asked: LiveAsked) -> tuple[list[str], str]:
    """A change as kai what-if takes it, and what nodes are like."""
    change, target, value = (
        asked.text(each.name) for each in (endpoints.CHANGE, endpoints.TARGET, endpoints.VALUE)
    )
    if change == "nodes":
        return [change, value], target
    if change in _OF_NODES:
        return [change, *target.split(",")], ""
    if change in _OF_WORKLOADS:
        namespace, slash, name = target.partition("/")
        target = f"{namespace}/podgroup/{name}" if slash and "/" not in name else target
    return [change, target, *value.split()], ""


def within(asked: LiveAsked) -> float:
    """For how many seconds to look ahead; raises Problem."""
    said = asked.text(endpoints.WITHIN.name)
    try:
        found = duration.parse(said) if said else _USUAL_SECONDS
    except duration.InvalidDuration as error:
        raise Problem(Trouble.BAD_PARAMETER, f"within: {error}") from None
    if not 0 < found <= MOST_SECONDS:
        raise Problem(Trouble.BAD_PARAMETER, f"within is {said[:40]!r}; write a time of up to 7 days, as 2h")
    return found


def _seen(told: Any, state: ClusterState, board: Board, sight: Sight) -> bytes:
    if sight is None:
        return encode(told)
    return encode(redacted(msgspec.to_builtins(told), hidden_namespaces(state, board, sight)))
