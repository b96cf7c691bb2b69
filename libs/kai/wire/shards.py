"""Which schedulers there are. Work for each begins with its shard, and ends some time after it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from kai.kube.client import KubeClient
from kai.kube.reflector import Change, Reflector, Removed, Upserted
from kai.kube.resources import SCHEDULING_SHARDS
from kai.model import names
from kai.model.objects import ApiObject, ApiStruct

#: A scheduler whose shard was deleted still finishes what it has begun.
LINGER_SECONDS: Final = 30.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One scheduler: the Lease by which it leads, and no other; and its name in sessions and in Redis."""

    lease: str
    name: str = field(compare=False)


def shard_of(scheduler_name: str, partition: str) -> Shard:
    """The scheduler of a node pool; an empty ``partition`` is what belongs to none."""
    if not partition:
        return Shard(scheduler_name, names.DEFAULT_SHARD)
    return Shard(f"{scheduler_name}-{partition}", partition)


class SchedulingShardSpec(ApiStruct):
    """``spec`` of a SchedulingShard, as far as others than the operator care."""

    partition_label_value: str = ""


class SchedulingShard(ApiObject):
    """kai.scheduler/v1 SchedulingShard."""

    spec: SchedulingShardSpec = msgspec.field(default_factory=SchedulingShardSpec)


class ShardFollower:
    """Knows the shards: those ``told`` at the start, and those that there are SchedulingShards of.

    The kind may be missing; then there are only those that were told.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        scheduler_name: str,
        told: Iterable[Shard],
        linger: float = LINGER_SECONDS,
    ) -> None:
        self._client = client
        self._scheduler_name = scheduler_name
        self._told = frozenset(told)
        self._linger = linger
        self._declared: dict[str, Shard] = {}
        self._changed = asyncio.Event()

    @property
    def shards(self) -> frozenset[Shard]:
        """All that there are now."""
        return self._told | frozenset(self._declared.values())

    async def run(
        self,
        work: Callable[[Shard], Coroutine[Any, Any, None]],
        *,
        gone: Callable[[Shard], None] = lambda shard: None,
    ) -> None:
        """Do ``work`` for each shard while it is there, until cancelled; then tell that it is ``gone``."""
        running: dict[Shard, asyncio.Task[None]] = {}
        ends: dict[Shard, float] = {}
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as tasks:
            reflector = Reflector(self._client, SCHEDULING_SHARDS, SchedulingShard, optional=True)
            tasks.create_task(reflector.run(self._take), name="watch shards")
            while True:
                for shard in sorted(self.shards - running.keys()):
                    _log.info("working for scheduler", shard=shard.name, lease=shard.lease)
                    running[shard] = tasks.create_task(work(shard), name=f"work for {shard.lease}")
                for shard in self.shards & ends.keys():
                    del ends[shard]
                for shard in running.keys() - self.shards:
                    if ends.setdefault(shard, clock() + self._linger) <= clock():
                        await _cancel(running.pop(shard))
                        del ends[shard]
                        _log.info("scheduler is gone", shard=shard.name, lease=shard.lease)
                        gone(shard)
                await self._wait(min(ends.values(), default=None))

    async def _wait(self, until: float | None) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _take(self, change: Change[SchedulingShard]) -> None:
        if isinstance(change, Upserted):
            partition = change.obj.spec.partition_label_value
            self._declared[change.obj.key] = shard_of(self._scheduler_name, partition)
        elif isinstance(change, Removed):
            self._declared.pop(change.obj_key, None)
        self._changed.set()


async def _cancel(task: asyncio.Task[None]) -> None:
    """What it raises of its own, its task group tells."""
    task.cancel()
    await asyncio.wait([task])
