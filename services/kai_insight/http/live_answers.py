"""Answers questions about the cluster as it is now, with what its caller may see of it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from kai.kube.resources import NODES, POD_GROUPS, QUEUES
from kai.live import details, waiting
from kai.live.board import Board
from kai.live.redaction import redacted
from kai.live.search import search
from kai.live.slots import slots
from kai.live.views import Sight, hidden_namespaces
from kai.live.waiting import Filters, Sort
from kai.model import names, release
from kai.model.faults import Fault
from kai.simulate.changes import Change
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.state import ClusterState
from kai_insight.http import live_endpoints as endpoints
from kai_insight.http.access import Access, Caller
from kai_insight.http.answers import MOST_NAMESPACES
from kai_insight.http.live_asked import LiveAsked
from kai_insight.http.live_endpoints import LiveEndpoint
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import encode
from kai_insight.http.tried import TriedAnswers, within
from kai_insight.live.copies import Copies
from kai_insight.live.knowledge import Knowledge
from kai_insight.live.live import Live
from kai_insight.live.shard import Course, LiveShard, NoState, Seen
from kai_insight.live.told import Health, Overview, Sees, SetAside, ShardHealth, ShardTold

T = TypeVar("T")


class LiveAnswers:
    """Answers about the shards of one process.

    Args:
        knowledge: what is known beside the cluster.
        copies: where questions are tried.
        source: what this is, as the overview tells it.
        history: whether questions about the past are answered here as well.
    """

    def __init__(
        self,
        live: Live,
        rights: Access,
        *,
        knowledge: Knowledge,
        copies: Copies,
        source: str,
        history: bool,
    ) -> None:
        self._live = live
        self._rights = rights
        self._knowledge = knowledge
        self._tried = TriedAnswers(knowledge, copies)
        self._source = source
        self._history = history
        self._questions: dict[str, Callable[[LiveAsked, LiveShard, Sight], Awaitable[bytes]]] = {
            endpoints.GROUPS.name: self._groups,
            endpoints.WAITING.name: self._waiting,
            endpoints.SEARCH.name: self._search,
            endpoints.NODE.name: self._node,
            endpoints.SLOTS.name: self._slots,
            endpoints.HEALTH.name: self._health,
        }

    @property
    def knows(self) -> bool:
        """Whether this process is the one that may know how the cluster is."""
        return self._live.leading

    async def answer(self, endpoint: LiveEndpoint, asked: LiveAsked, caller: Caller) -> bytes:
        """The JSON of an answer.

        Raises:
            Problem: the caller may not see this, there is no state, or nothing of this name.
        """
        if endpoint is endpoints.LIVE:
            return await self._overview(caller)
        if endpoint is endpoints.HEALTH and not self._live.shards:
            # Why there are none is what somebody wants to know who asks this.
            await self._rights.require(caller, QUEUES)
            # Of one that comes meanwhile nobody has been asked what may be told.
            return await self._health(asked, None, frozenset())
        shard, sight = await self.entry(endpoint, asked, caller)
        if endpoint in _TRIED:
            return await _looked(self._tried.answer(endpoint, asked, shard, sight, asker=caller.asker))
        return await _looked(self._questions[endpoint.name](asked, shard, sight))

    async def frame(self, asked: LiveAsked, caller: Caller) -> Seen:
        """All of a cluster; raises as :meth:`answer`."""
        shard, sight = await self.entry(endpoints.CLUSTER, asked, caller)
        return await _looked(shard.frame(sight))

    async def entry(
        self, endpoint: LiveEndpoint, asked: LiveAsked, caller: Caller
    ) -> tuple[LiveShard, Sight]:
        """The shard that is asked about, and which namespaces the caller sees; raises as :meth:`answer`."""
        for right in endpoint.rights:
            await self._rights.require(caller, right)
        if endpoint in (endpoints.WORKLOAD, endpoints.FORECAST):
            await self._rights.require(caller, POD_GROUPS, asked.text(endpoints.NAMESPACE.name))
        shard = self._shard(asked.text(endpoints.SHARD.name))
        return shard, await self._sight(endpoint, shard, caller) if endpoint.of_namespaces else None

    async def followed(
        self, asked: LiveAsked, caller: Caller, changes: Callable[[ClusterState, float], list[Change]]
    ) -> bytes:
        """What would follow from changes of a state as of a moment; raises as :meth:`answer`."""
        shard, _ = await self.entry(endpoints.WHAT_IF_MANIFESTS, asked, caller)
        answer = self._tried.followed(shard, changes, within=within(asked), asker=caller.asker)
        return await _looked(answer)

    def changes(self, shard: LiveShard, sight: Sight, version: str) -> AsyncGenerator[bytes | None]:
        """What changes after a version, as the shard tells it; raises Problem where there is no state."""
        glance = shard.glance
        if not glance.version:
            raise Problem(Trouble.NO_STATE, glance.reason)
        return shard.changes(sight, version)

    # --- who may see what ----------------------------------------------------------------------------
    def _shard(self, name: str) -> LiveShard:
        shards = self._live.shards
        if not shards:
            raise Problem(Trouble.NO_STATE, self._live.away or _NO_SHARDS)
        if not name:
            return next(iter(shards.values()))
        if name not in shards:
            there = ", ".join(shards)
            raise Problem(Trouble.NOT_FOUND, f"there is no shard {name[:60]!r}; there are {there}")
        return shards[name]

    async def _sight(self, endpoint: LiveEndpoint, shard: LiveShard, caller: Caller) -> Sight:
        if await self._rights.may_list(caller, POD_GROUPS):
            return None
        there = await _looked(shard.look(lambda course, board: frozenset(board.namespaces)))
        if len(there) > MOST_NAMESPACES:
            raise Problem(
                Trouble.TOO_MANY_NAMESPACES,
                f"pod groups are in more than {MOST_NAMESPACES} namespaces, too many to ask of each whether "
                "you may see it; this is for those who may list all of them",
            )
        return await self._rights.visible(caller, there)

    # --- answers -------------------------------------------------------------------------------------
    async def _overview(self, caller: Caller) -> bytes:
        may = self._rights.may_list
        sees = Sees(
            nodes=await may(caller, NODES),
            queues=await may(caller, QUEUES),
            all_namespaces=await may(caller, POD_GROUPS),
        )
        told = Overview(
            release=release.version(),
            source=self._source,
            user=caller.user,
            history=self._history,
            sees=sees,
            shards=[await _summary(shard) for shard in self._live.shards.values()] or self._none(),
        )
        return encode(told)

    def _none(self) -> list[ShardTold]:
        """The shard that there would be, and why there is none."""
        reason = self._live.away or _NO_SHARDS
        return [_nothing(names.DEFAULT_SHARD, reason)]

    async def _groups(self, asked: LiveAsked, shard: LiveShard, sight: Sight) -> bytes:
        return await shard.look(
            lambda course, board: encode(details.groups(course.state, board, asked.keys, sight))
        )

    async def _waiting(self, asked: LiveAsked, shard: LiveShard, sight: Sight) -> bytes:
        text = asked.text
        filters = Filters(
            namespace=text("namespace"),
            queue=text("queue"),
            verdict=asked.texts.get("verdict"),
            code=text("code"),
            text=text("text"),
        )
        known = self._knowledge.known(shard.name)

        def rows(course: Course, board: Board) -> bytes:
            found = waiting.waiting(
                course.state,
                board,
                sight,
                filters=filters,
                sort=Sort(text(endpoints.SORT.name)),
                limit=asked.limit,
                known=known,
            )
            if sight is None:
                return encode(found)
            return encode(redacted(_plain(found), hidden_namespaces(course.state, board, sight)))

        return await shard.look(rows)

    async def _search(self, asked: LiveAsked, shard: LiveShard, sight: Sight) -> bytes:
        text = asked.text(endpoints.TEXT.name)
        return await shard.look(
            lambda course, board: encode(search(course.state, board, text, sight, limit=asked.limit))
        )

    async def _node(self, asked: LiveAsked, shard: LiveShard, sight: Sight) -> bytes:
        name = asked.text(endpoints.NAME.name)
        found = await shard.look(lambda course, board: details.node(course.state, board, name, sight))
        if found is None:
            raise Problem(Trouble.NOT_FOUND, f"there is no node {name[:60]!r} in the shard {shard.name}")
        return encode(found)

    async def _slots(self, asked: LiveAsked, shard: LiveShard, sight: Sight) -> bytes:
        del asked, sight
        return await shard.look(lambda course, board: encode(slots(board)))

    async def _health(self, asked: LiveAsked, shard: LiveShard | None, sight: Sight) -> bytes:
        del asked, shard
        knowledge = self._knowledge
        told = Health(
            processes=await knowledge.processes(),
            shards=[await _health_of(each, sight) for each in self._live.shards.values()],
            forecasts=knowledge.forecasts(),
            store=knowledge.store(),
        )
        return encode(told)


#: They are tried on copies.
_TRIED: Final = (endpoints.WORKLOAD, endpoints.FORECAST, endpoints.WHAT_IF)
_NO_SHARDS: Final = "no scheduler is followed yet"


async def _looked(answer: Awaitable[T]) -> T:
    """An answer; where there is no state, why."""
    try:
        return await answer
    except NoState as error:
        raise Problem(Trouble.NO_STATE, str(error)) from None


async def _summary(shard: LiveShard) -> ShardTold:
    def counted(course: Course, board: Board) -> ShardTold:
        structure = board.structure
        assert structure is not None
        glance = shard.glance
        return ShardTold(
            name=shard.name,
            version=glance.version,
            reason=glance.reason,
            at=board.at,
            nodes=len(structure.name),
            gpus=sum(structure.gpus),
            gpus_used=board.used_centi / GPU_CENTI,
            pods=len(course.state.tasks),
            waiting=len(board.waiting),
        )

    try:
        return await shard.look(counted)
    except NoState as error:
        return _nothing(shard.name, str(error))


async def _health_of(shard: LiveShard, sight: Sight) -> ShardHealth:
    def found(course: Course, board: Board) -> list[SetAside]:
        faults = [each for each in course.state.faults.values() if _may_be_told(each, sight)]
        told = [SetAside(kind=each.kind, key=each.key, reason=each.message) for each in faults]
        if sight is None:
            return told
        hidden = hidden_namespaces(course.state, board, sight)
        return [msgspec.structs.replace(each, reason=redacted(each.reason, hidden)) for each in told]

    try:
        aside = await shard.look(found)
    except NoState:
        aside = []
    glance, pulse = shard.glance, shard.pulse
    return ShardHealth(
        name=shard.name,
        version=glance.version,
        reason=glance.reason,
        at=glance.at,
        lag=round(pulse.lag, 3),
        cycles=pulse.times(now=time.time()),
        replayed=pulse.replayed,
        differing=pulse.differing,
        set_aside=aside,
    )


def _may_be_told(fault: Fault, sight: Sight) -> bool:
    """What lies in a namespace, to those who see it."""
    namespace, lies_in_one, _ = fault.key.partition("/")
    return sight is None or not lies_in_one or namespace in sight


def _nothing(name: str, reason: str) -> ShardTold:
    return ShardTold(
        name=name, version="", reason=reason, at=0.0, nodes=0, gpus=0, gpus_used=0.0, pods=0, waiting=0
    )


def _plain(told: Any) -> Any:
    return msgspec.to_builtins(told)
