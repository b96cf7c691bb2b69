"""Who leads the scheduler of a shard now, followed through its Lease."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from kai.kube.client import KubeClient
from kai.kube.lease import follow_leader
from kai.kube.leases import Leader


class LeaderTracker:
    """Keeps the current leader at hand while the block runs; ``None`` while there is none.

    >>> async with LeaderTracker(client, lease_name="kai-scheduler", namespace="kai-scheduler") as tracker:
    ...     leader = await tracker.present()
    """

    def __init__(self, client: KubeClient, *, lease_name: str, namespace: str) -> None:
        self.leader: Leader | None = None
        self._leaders = follow_leader(client, lease_name, namespace)
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow(), name="leader tracker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def present(self) -> Leader:
        """The leader, as soon as there is one that can be called.

        Raises:
            KubeError: the Lease cannot be followed any more (our credentials are refused).
            Exception: following it failed otherwise, which is a defect: nobody is to wait for ever over it.
        """
        while self.leader is None or not self.leader.endpoint:
            await self._change()
        return self.leader

    async def replaced(self, leader: Leader) -> None:
        """Return once ``leader`` leads no more: another one does, another term began, or nobody does.

        Raises:
            KubeError: as :meth:`present`.
        """
        while self.leader is not None and (self.leader.epoch, self.leader.endpoint) == (
            leader.epoch,
            leader.endpoint,
        ):
            await self._change()

    async def _change(self) -> None:
        if self._error is not None:
            raise self._error
        await self._changed.wait()

    async def _follow(self) -> None:
        try:
            async for leader in self._leaders:
                self.leader = leader
                self._pulse()
        except Exception as error:  # noqa: BLE001 (told to whoever waits)
            self._error = error
            self._pulse()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
