"""The state of one shard as a scheduler keeps it, to be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kai.engine import Engine
from kai.live.waiting import Known
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.snapshot.changes import Changes, take_in
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.state import ClusterState
from kai_insight.examiner import Examiner
from kai_insight.live.live import Live
from kai_insight.live.shard import LiveShard

#: Who looked no longer ago looks still, in seconds.
_LOOKED_SECONDS: Final = 30.0
MOST_EXAMINED: Final = 20_000


class Mirror:
    """A state, and the engine that would decide on it as the scheduler does where nothing is configured.

    Args:
        run: has something done in the thread that owns the state.
        lacks: what of the cluster is never told to it.
    """

    def __init__(
        self,
        name: str,
        params: StateParams,
        live: Live,
        run: Callable[[Callable[[], Any]], Awaitable[Any]],
        *,
        lacks: str,
    ) -> None:
        self.state = ClusterState(params)
        self.engine = Engine()
        self.shard: LiveShard = live.open(name, run, lacks=lacks)
        self._run = run
        self._examiner = Examiner(most_pods=MOST_EXAMINED)
        self._verdicts: dict[PodGroupKey, GroupVerdict] = {}

    @property
    def known(self) -> Known:
        """What was found of groups that wait."""
        return Known(verdicts=self._verdicts, places=self._examiner.places)

    def take(self, changes: Changes, now: float) -> None:
        """What the API server told, in the thread that owns the state."""
        state = self.state
        take_in(state, changes)
        state.settle(now)
        changed = map(PodGroupKey, changes.objects.get(Kind.POD_GROUP, ()))
        touched = {*state.touched_jobs, *state.take_gone(), *changed}
        state.touch_only(())
        self.shard.move(self, touched, at=now, shares=None)

    def is_looked_at(self, now: float) -> bool:
        """Whether somebody looks at it, and there is something to see."""
        looked = self.shard.followers or now - self.shard.looked_at < _LOOKED_SECONDS
        return bool(looked and self.shard.glance.version)

    async def examine(self) -> None:
        """Find out why work waits, at a copy: who owns the state goes on meanwhile."""
        taken = await self._run(lambda: self._examiner.take(self))
        found = {} if taken is None else await asyncio.to_thread(self._examiner.find, taken)
        verdicts = {key: verdict for key, verdict in self._verdicts.items() if key in self._examiner.waiting}
        for key, verdict in found.items():
            if verdict is None:
                verdicts.pop(key, None)
            else:
                verdicts[key] = verdict
        self._verdicts = verdicts
