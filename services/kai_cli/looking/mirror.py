"""The cluster as the API server tells it, kept as a scheduler keeps it, to be looked at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import structlog

from kai.engine import Engine
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.resources import Resource
from kai.live.waiting import Known
from kai.model import names
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.snapshot.changes import Changes, take_in
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.state import ClusterState
from kai_cli.looking.rights import Readable
from kai_insight.examiner import Examiner
from kai_insight.http.access import resource_name
from kai_insight.live.live import Live
from kai_insight.live.shard import LiveShard
from kai_scheduler.changes import ChangeQueue
from kai_scheduler.sources import reflectors

T = TypeVar("T")
#: What changes is gathered for so long, in seconds; at most this often the state is brought up to date.
_DEBOUNCE_SECONDS: Final = 0.05
_PERIOD_SECONDS: Final = 0.5
#: Time alone changes what pods are that are being deleted.
_LOOK_SECONDS: Final = 30.0
#: How often it is looked why work waits, and up to how many pods: copies take memory.
EXAMINE_SECONDS: Final = 10.0
_EXAMINE_SOON_SECONDS: Final = 1.0
#: What takes long is done so many times more seldom.
_REST: Final = 4.0
#: Who looked no longer ago looks still.
_LOOKED_SECONDS: Final = 30.0
MOST_EXAMINED: Final = 20_000


_log = structlog.get_logger(__name__)


class Mirror:
    """One state, and the engine that would decide on it as the scheduler does where nothing is configured."""

    def __init__(self, client: KubeClient, live: Live, found: Readable, *, scheduler_name: str) -> None:
        self.state = ClusterState(StateParams(scheduler_name=scheduler_name))
        self.engine = Engine()
        self._found = found
        loop = asyncio.get_running_loop()
        self._changes = ChangeQueue(
            scheduler_name=scheduler_name,
            debounce=_DEBOUNCE_SECONDS,
            period=_PERIOD_SECONDS,
            clock=loop.time,
        )
        self._clock = loop.time
        pairs = reflectors(client, self._changes, config_maps=False, namespace=found.namespace)
        self._pairs = [(each, sink) for each, sink in pairs if each.resource in found.kinds]
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="mirror")
        self._live = live
        self.shard: LiveShard = live.open(names.DEFAULT_SHARD, self._asked)
        self._examiner = Examiner(most_pods=MOST_EXAMINED)
        self._verdicts: dict[PodGroupKey, GroupVerdict] = {}

    @property
    def known(self) -> Known:
        """What was found of groups that wait."""
        return Known(verdicts=self._verdicts, places=self._examiner.places)

    async def _asked(self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, question)

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Raises:
            Unauthorized: the credentials are not accepted any more.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector, sink in self._pairs:
                    tasks.create_task(reflector.run(sink), name=f"watch {reflector.resource.plural}")
                tasks.create_task(self._follow(), name="follow")
                tasks.create_task(self._examine(), name="examine")
        finally:
            self._live.close(self.shard)
            self._worker.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        self._tell_lacks()
        await self._synced()
        while True:
            batch = self._changes.take()
            now = time.time()
            await self._asked(lambda batch=batch, now=now: self._take(batch, now))  # type: ignore[misc]
            self._tell_lacks()
            began = self._clock()
            await self._changes.wait(timer=began + _LOOK_SECONDS, not_before=began + _DEBOUNCE_SECONDS)

    def _take(self, batch: Changes, now: float) -> None:
        """In the thread that owns the state."""
        state = self.state
        take_in(state, batch)
        state.settle(now)
        touched = {*state.touched_jobs, *map(PodGroupKey, batch.objects.get(Kind.POD_GROUP, ()))}
        state.touch_only(())
        self.shard.move(self, touched, at=now, shares=None)

    async def _synced(self) -> None:
        """Until all that there is was told once."""
        waited = [reflector for reflector, _ in self._pairs]
        for reflector in waited:
            self._tell_lacks(reflector)
            await reflector.synced.wait()

    def _tell_lacks(self, reflector: Reflector[Any] | None = None) -> None:
        doing = f"reading {resource_name(reflector.resource)}" if reflector is not None else ""
        self.shard.lose("; ".join(filter(None, (doing, self._found.lacks))))

    async def _examine(self) -> None:
        """Find out why work waits while somebody looks."""
        due = 0.0
        while True:
            await asyncio.sleep(_EXAMINE_SOON_SECONDS)
            now = self._clock()
            looked = self.shard.followers or now - self.shard.looked_at < _LOOKED_SECONDS
            if looked and now >= due and self.shard.glance.version:
                try:
                    await self._look()
                except Exception:  # noqa: BLE001 (the picture goes on, and the next look may be right)
                    _log.exception("what waits cannot be looked at")
                took = self._clock() - now
                due = self._clock() + max(EXAMINE_SECONDS, _REST * took)

    async def _look(self) -> None:
        """At a copy: who owns the state goes on meanwhile."""
        taken = await self._asked(lambda: self._examiner.take(self))
        found = {} if taken is None else await asyncio.to_thread(self._examiner.find, taken)
        verdicts = {key: verdict for key, verdict in self._verdicts.items() if key in self._examiner.waiting}
        for key, verdict in found.items():
            if verdict is None:
                verdicts.pop(key, None)
            else:
                verdicts[key] = verdict
        self._verdicts = verdicts


def kinds_followed(client: KubeClient) -> list[Resource]:
    """All kinds that a picture is made of."""
    changes = ChangeQueue(scheduler_name="", debounce=0, period=0, clock=time.monotonic)
    return [each.resource for each, _ in reflectors(client, changes, config_maps=False)]
