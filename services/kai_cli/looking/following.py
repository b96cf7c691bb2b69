"""Follows the cluster as the API server tells it, for the mirrors of all shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import structlog

from kai.kube.client import KubeClient
from kai.kube.resources import Resource
from kai.live.waiting import Known
from kai.snapshot.changes import Changes
from kai_cli.looking.installation import Installation
from kai_cli.looking.mirror import Mirror
from kai_cli.looking.rights import Readable
from kai_insight.http.access import resource_name
from kai_insight.live.live import Live
from kai_scheduler.changes import ChangeQueue
from kai_scheduler.sources import reflectors

T = TypeVar("T")
#: What changes is gathered for so long, in seconds; at most this often states are brought up to date.
_DEBOUNCE_SECONDS: Final = 0.05
_PERIOD_SECONDS: Final = 0.5
#: Time alone changes what pods are that are being deleted.
_LOOK_SECONDS: Final = 30.0
#: How often it is looked why work waits.
EXAMINE_SECONDS: Final = 10.0
_EXAMINE_SOON_SECONDS: Final = 1.0
#: What takes long is done so many times more seldom.
_REST: Final = 4.0

_log = structlog.get_logger(__name__)


class Following:
    """One watch of each kind, whose changes every mirror takes in; ``found`` says what may be followed."""

    def __init__(self, client: KubeClient, live: Live, found: Readable, installation: Installation) -> None:
        self._clock = asyncio.get_running_loop().time
        self._changes = ChangeQueue(
            scheduler_name=installation.scheduler_name,
            debounce=_DEBOUNCE_SECONDS,
            period=_PERIOD_SECONDS,
            clock=self._clock,
        )
        pairs = reflectors(client, self._changes, config_maps=False, namespace=found.namespace)
        self._pairs = [(each, sink) for each, sink in pairs if each.resource in found.kinds]
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="mirrors")
        self._live = live
        lacks = "; ".join(filter(None, (found.lacks, installation.lacks)))
        self._mirrors = {
            name: Mirror(name, params, live, self._done, lacks=lacks)
            for name, params in installation.shards.items()
        }

    def known(self, shard: str) -> Known:
        """What was found of the groups of a shard that wait; nothing of one that is gone."""
        mirror = self._mirrors.get(shard)
        return Known() if mirror is None else mirror.known

    async def _done(self, question: Callable[[], T]) -> T:
        """In the thread that owns the states."""
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
            for mirror in self._mirrors.values():
                self._live.close(mirror.shard)
            self._worker.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        await self._synced()
        while True:
            batch = self._changes.take()
            now = time.time()
            await self._done(lambda batch=batch, now=now: self._take(batch, now))  # type: ignore[misc]
            began = self._clock()
            await self._changes.wait(timer=began + _LOOK_SECONDS, not_before=began + _DEBOUNCE_SECONDS)

    def _take(self, batch: Changes, now: float) -> None:
        for mirror in self._mirrors.values():
            mirror.take(batch, now)

    async def _synced(self) -> None:
        """Until all that there is was told once."""
        for reflector, _ in self._pairs:
            for mirror in self._mirrors.values():
                mirror.shard.lose(f"reading {resource_name(reflector.resource)}")
            await reflector.synced.wait()

    async def _examine(self) -> None:
        """Find out why work waits where somebody looks."""
        due = dict.fromkeys(self._mirrors, 0.0)
        while True:
            await asyncio.sleep(_EXAMINE_SOON_SECONDS)
            for name, mirror in self._mirrors.items():
                began = self._clock()
                if began < due[name] or not mirror.is_looked_at(began):
                    continue
                try:
                    await mirror.examine()
                except Exception:  # noqa: BLE001 (the picture goes on, and the next look may be right)
                    _log.exception("what waits cannot be looked at", shard=name)
                ended = self._clock()
                due[name] = ended + max(EXAMINE_SECONDS, _REST * (ended - began))


def kinds_followed(client: KubeClient) -> list[Resource]:
    """All kinds that a picture is made of."""
    changes = ChangeQueue(scheduler_name="", debounce=0, period=0, clock=time.monotonic)
    return [each.resource for each, _ in reflectors(client, changes, config_maps=False)]
