"""Writes the status of queues, few times for many changes.

Changes are gathered for ``interval`` seconds and then written level by level, the deepest first: one
patch for each queue whose status differs, however many pod groups changed and however deep the tree is. What
comes back from the API server of our own writes changes nothing, and queues that nothing happened to are not
looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog
from prometheus_client import CollectorRegistry

from kai.kube import errors
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.kube.reflector import Change, Removed, Upserted
from kai.kube.resources import QUEUES
from kai.kube.workqueue_metrics import ControllerMetrics, ControllerSeries, WorkResult
from kai.model import names
from kai.model.objects import Json, Queue
from kai.wire.sessions import SessionUpdate
from kai_queue_controller.accounts import Accounts
from kai_queue_controller.faults import QueueFaults
from kai_queue_controller.queues import QueueBook
from kai_queue_controller.tree import PodGroupRecord, QueueTotals, by_depth, status_patch

#: What we are called in metrics.
CONTROLLER = "queues"
#: Patches under way at the same time.
WRITES = 8
#: A defect lasts; it is tried again, but not all the time.
PAUSE_AFTER_DEFECT_SECONDS = 30.0
#: The longest that a queue is left alone whose status is refused.
LONGEST_REST_SECONDS = 60.0

_log = structlog.get_logger(__name__)


class Publisher:
    """Keeps statuses in line with workloads, for one term; its sink is for a reflector of pod groups."""

    def __init__(
        self,
        client: KubeClient,
        queues: QueueBook,
        *,
        interval: float,
        nodepool_label_key: str = names.NODE_POOL_LABEL,
        controller: ControllerSeries | None = None,
    ) -> None:
        self._accounts = Accounts(queues.by_name)
        self._faults = QueueFaults(nodepool_label_key=nodepool_label_key)
        self._queues = queues
        self._client = client
        self._interval = interval
        self._controller = controller or ControllerMetrics(CollectorRegistry()).of(CONTROLLER)
        self._controller.workers.set(WRITES)
        #: Queues whose status is refused, and those that rest since it could not be written.
        self._backoffs: dict[str, Backoff] = {}
        self._resting: set[str] = set()
        self._changed = asyncio.Event()
        self._changed.set()

    def pod_group_sink(self, change: Change[PodGroupRecord]) -> None:
        """Take in a change of a pod group."""
        if isinstance(change, Upserted):
            group = change.obj
            resources = group.status.resources_status if group.status else None
            changed = self._accounts.put(group.key, group.spec.queue, resources)
        elif isinstance(change, Removed):
            changed = self._accounts.drop(change.obj_key)
        else:
            return
        if changed:
            self._changed.set()

    def take_faults(self, shard: str, update: SessionUpdate) -> None:
        """Take in which queues a scheduler goes on without."""
        if self._faults.take(shard, update):
            self._accounts.look_at(self._queues.by_name)
            self._changed.set()

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if old is not None and new is None:
            self._faults.forget(old.metadata.name)
        if old is None or new is None or old.spec.parent_queue != new.spec.parent_queue:
            self._accounts.replant()
        elif old.status != new.status:
            self._accounts.look_at([new.metadata.name])
        else:
            return
        self._changed.set()

    def totals(self) -> Mapping[str, QueueTotals]:
        """All queues with what they hold now."""
        return self._accounts.totals()

    async def run(self) -> None:
        """Write what differs, until cancelled."""
        self._accounts.replant()
        with self._queues.listening(self._queue_changed):
            while True:
                await self._changed.wait()
                await asyncio.sleep(self._interval)
                self._changed.clear()
                await self._publish_surely()

    async def _publish_surely(self) -> None:
        try:
            await self.publish()
        except Exception:  # noqa: BLE001 (a defect over one queue must not end the statuses of all)
            _log.exception("statuses of queues not written")
            self._accounts.look_at(self._queues.by_name)
            await asyncio.sleep(PAUSE_AFTER_DEFECT_SECONDS)
            self._changed.set()

    async def publish(self) -> None:
        """Write all that differs now. One that fails stops no other, and is tried again after a rest."""
        found = self._accounts.take_unsettled()
        for level in by_depth(found.items()):
            at_once = asyncio.Semaphore(WRITES)
            async with asyncio.TaskGroup() as group:
                for name in level:
                    group.create_task(self._write(name, found[name], at_once))

    async def _write(self, name: str, wanted: QueueTotals, at_once: asyncio.Semaphore) -> None:
        if name in self._resting:
            return
        async with at_once:
            queue = self._queues.by_name.get(name)
            patch = self._patch(queue, wanted) if queue is not None else None
            if patch is None:
                self._backoffs.pop(name, None)
                return
            try:
                with self._controller.working():
                    written: Queue = await self._client.patch(
                        QUEUES, name, {"status": patch}, subresource="status", type=Queue
                    )
            except errors.NotFound:
                self._controller.ended(WorkResult.SUCCESS)
                self._backoffs.pop(name, None)
                return
            except errors.KubeError as error:
                self._controller.ended(WorkResult.ERROR)
                delay = self._rest(name, refused=_is_refusal(error))
                _log.warning(
                    "queue status not written", queue=name, error=str(error), retry_seconds=round(delay, 1)
                )
                return
        self._controller.ended(WorkResult.SUCCESS)
        self._backoffs.pop(name, None)
        self._queues.take_written(written)

    def _rest(self, name: str, *, refused: bool) -> float:
        """Leave a queue alone, the longer the more often it was refused; for how many seconds.

        A server in trouble has not refused it.
        """
        delay = self._interval
        if refused:
            longest = LONGEST_REST_SECONDS
            delay = self._backoffs.setdefault(name, Backoff(initial=delay, maximum=longest)).next()
        self._resting.add(name)
        asyncio.get_running_loop().call_later(delay, self._rested, name)
        return delay

    def _rested(self, name: str) -> None:
        self._resting.discard(name)
        if name not in self._queues.by_name:
            self._backoffs.pop(name, None)
        self._accounts.look_at([name])
        self._changed.set()

    def _patch(self, queue: Queue, wanted: QueueTotals) -> Json | None:
        stored = (queue.status.conditions if queue.status else None) or ()
        return status_patch(wanted, queue.status, self._faults.conditions(queue.metadata, stored))


def _is_refusal(error: errors.KubeError) -> bool:
    """Whether the API server does not want it, which trying again will hardly change."""
    return isinstance(error, errors.ApiError) and not isinstance(
        error, errors.TooManyRequests | errors.ServerError
    )
