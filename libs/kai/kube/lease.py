"""Who leads, decided by a Lease; and following who does.

The holder renews well before the Lease runs out; others watch it by their own monotonic clock, since
clocks of machines differ. All writes are compare-and-swap on the resource version. The resource
version of the write that won is the *epoch*: greater for every later leader, also if somebody
deleted the Lease in between, which makes it the fencing token of whatever the leader sends out.

A leader tells its epoch, its address and its release in annotations of the Lease, by a second write right
after the one that won.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from kai.kube import errors
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.kube.leases import Leader, Lease, leader_of
from kai.kube.reflector import Reflector, Removed, Upserted
from kai.kube.resources import LEASES
from kai.model import names

#: How long a Lease lasts that its holder has given back.
GIVEN_BACK_SECONDS: Final = 1
#: What says nothing of the next one to lead.
_OF_THE_LEADER: Final = frozenset(
    {names.ENDPOINT_ANNOTATION, names.EPOCH_ANNOTATION, names.VERSION_ANNOTATION}
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds: how long a Lease holds, how long renewing may fail before giving up, how often to renew."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class Term:
    """One time of leading. ``epoch`` is greater than that of every earlier term of anyone.

    ``left``: seconds that work which is cancelled has to end in before the process is ended; without bound
    while leadership is not lost. They are few where the loss was learned late.
    """

    epoch: int
    left: Callable[[], float]


class LeaderElector:
    """Takes part in the election for one Lease.

    ``clock`` is monotonic and defaults to that of the event loop. Who is ``alone`` leads at once, whoever is
    written on the Lease, and waits like everybody where it lost it again.
    """

    def __init__(
        self,
        client: KubeClient,
        name: str,
        namespace: str,
        identity: str,
        *,
        endpoint: str = "",
        version: str = "",
        alone: bool = False,
        clock: Callable[[], float] | None = None,
        times: LeaseTimes | None = None,
    ) -> None:
        self.identity = identity
        self.endpoint = endpoint
        self._version = version
        self._alone = alone
        #: Whether we lead at this moment.
        self.leading = False
        self._client = client
        self._name = name
        self._namespace = namespace
        self._times = times or LeaseTimes()
        self._clock = clock or asyncio.get_running_loop().time
        self._lease: Lease | None = None
        self._seen_version = ""
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._overdue: asyncio.TimerHandle | None = None

    @property
    def holds(self) -> bool:
        """Whether we lead, and nobody else can do so yet: a process that was stopped learns of that later."""
        return self.leading and self._clock() - self._renewed_at <= self._times.duration

    @asynccontextmanager
    async def term(self) -> AsyncIterator[Term]:
        """Wait until we lead, then lead for as long as the body runs. Leaving gives the Lease back.

        Where leadership is lost the body is cancelled. If it does not end before others may lead, the process
        does: two that work are worse than none.

        Raises:
            LeadershipLost: it was.
        """
        epoch = await self._acquire()
        self.leading = True
        _log.info("leading", lease=self._name, identity=self.identity, epoch=epoch)
        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._renew_until_lost(epoch), name=f"renew {self._name}")
                yield Term(epoch, left=self._left)
                renewal.cancel()
        except BaseExceptionGroup as failures:
            lost, others = failures.split(errors.LeadershipLost)
            if lost is None:
                raise failures.exceptions[0] if len(failures.exceptions) == 1 else failures from None
            self.leading = False
            error = lost.exceptions[0]
            _log.warning("leadership lost", lease=self._name, reason=str(error))
            raise error from others
        finally:
            if self._overdue is not None:
                self._overdue.cancel()
                self._overdue = None
            if self.leading:
                self.leading = False
                await self._release()

    async def lead(self, work: Callable[[Term], Awaitable[None]]) -> None:
        """Do ``work`` in every term that we get, until it returns."""
        done = False
        while not done:
            with suppress(errors.LeadershipLost):
                async with self.term() as term:
                    await work(term)
                    done = True

    # --- getting it ----------------------------------------------------------------------------
    async def _acquire(self) -> int:
        backoff = Backoff(initial=self._times.retry, maximum=self._times.retry)
        while True:
            try:
                epoch = await self._try_acquire()
            except errors.KubeError as error:
                _log.warning("cannot ask for leadership", lease=self._name, error=str(error))
                epoch = None
            if epoch is not None:
                return epoch
            await asyncio.sleep(backoff.next())

    async def _try_acquire(self) -> int | None:
        lease = await self._read()
        started = self._clock()
        try:
            if lease is None:
                won = await self._create()
            elif self._is_free(lease):
                won = await self._write(self._claim(lease))
            else:
                return None
        except (errors.Conflict, errors.AlreadyExists):
            return None
        self._lease, self._renewed_at = won, started
        self._alone = False
        return int(won.metadata.resource_version)

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace, type=Lease)
        except errors.NotFound:
            return None
        if lease.metadata.resource_version != self._seen_version:
            self._seen_version = lease.metadata.resource_version
            self._seen_at = self._clock()
        return lease

    def _is_free(self, lease: Lease) -> bool:
        holder = lease.spec.holder_identity
        if not holder or holder == self.identity or self._alone:
            return True
        duration = lease.spec.lease_duration_seconds or self._times.duration
        return self._clock() - self._seen_at > duration

    def _claim(self, lease: Lease) -> dict[str, Any]:
        """The Lease as ours: nobody's address in it, ours not before the epoch is known."""
        changed = lease.spec.holder_identity != self.identity
        annotations = {key: said for key, said in lease.annotations.items() if key not in _OF_THE_LEADER}
        return self._manifest(
            resource_version=lease.metadata.resource_version,
            annotations=annotations,
            acquire_time=_now(),
            transitions=(lease.spec.lease_transitions or 0) + changed,
        )

    async def _create(self) -> Lease:
        body = self._manifest(resource_version="", annotations={}, acquire_time=_now(), transitions=0)
        return await self._client.create(LEASES, body, namespace=self._namespace, type=Lease)

    # --- keeping it ----------------------------------------------------------------------------
    async def _renew_until_lost(self, epoch: int) -> None:
        try:
            await self._renew_forever(epoch)
        except errors.LeadershipLost:
            times = self._times
            others_may_lead = self._renewed_at + times.duration - self._clock()
            left = max(times.retry / 4, min(times.duration - times.renew_deadline, others_may_lead))
            self._overdue = asyncio.get_running_loop().call_later(left, self._end_process)
            raise

    def _left(self) -> float:
        if self._overdue is None:
            return math.inf
        return max(0.0, self._overdue.when() - asyncio.get_running_loop().time())

    def _end_process(self) -> None:
        _log.error("work goes on without leadership; the process ends", lease=self._name)
        os._exit(1)

    async def _renew_forever(self, epoch: int) -> None:
        announced = False
        while True:
            try:
                async with asyncio.timeout(self._patience()):
                    await self._renew(epoch)
                announced = True
            except (errors.KubeError, TimeoutError) as error:
                if isinstance(error, (errors.LeadershipLost, errors.Unauthorized)):
                    raise
                if self._clock() - self._renewed_at > self._times.renew_deadline:
                    reason = str(error) or f"no answer within {self._times.renew_deadline:g} s"
                    raise errors.LeadershipLost(
                        f"lease {self._name} could not be renewed: {reason}"
                    ) from error
                announced = False
            await asyncio.sleep(self._times.retry if announced else self._times.retry / 4)

    def _patience(self) -> float:
        """How long this renewal may take: others count from the last one, however many have failed since.

        Who comes late, as after a pause of the whole process, tries once more all the same.
        """
        times = self._times
        left = self._renewed_at + times.renew_deadline - self._clock()
        return max(left, min(times.retry, (times.duration - times.renew_deadline) / 2))

    async def _renew(self, epoch: int) -> None:
        assert self._lease is not None
        started = self._clock()
        annotations = {**self._lease.annotations, names.EPOCH_ANNOTATION: str(epoch)}
        if self.endpoint:
            annotations[names.ENDPOINT_ANNOTATION] = self.endpoint
        if self._version:
            annotations[names.VERSION_ANNOTATION] = self._version
        body = self._manifest(
            resource_version=self._lease.metadata.resource_version,
            annotations=annotations,
            acquire_time=self._lease.spec.acquire_time,
            transitions=self._lease.spec.lease_transitions or 0,
        )
        try:
            self._lease = await self._write(body)
        except errors.NotFound:
            raise errors.LeadershipLost(f"lease {self._name} was deleted") from None
        except errors.Conflict:
            await self._look_who_wrote()
            return
        self._renewed_at = started

    async def _look_who_wrote(self) -> None:
        """After a conflict: our own write whose answer was lost, a bystander's, or another leader's."""
        lease = await self._read()
        holder = lease.spec.holder_identity if lease is not None else None
        if holder != self.identity:
            raise errors.LeadershipLost(f"lease {self._name} went to {holder or 'nobody'}")
        self._lease = lease

    async def _release(self) -> None:
        if self._lease is None:
            return
        try:
            async with asyncio.timeout(self._times.retry):
                try:
                    await self._give_back(self._lease)
                except errors.Conflict:
                    # The renewal that was cancelled for this may have been carried out all the same.
                    await self._look_who_wrote()
                    await self._give_back(self._lease)
        except (errors.KubeError, TimeoutError) as error:
            _log.info("lease not given back; it runs out", lease=self._name, error=str(error))

    async def _give_back(self, lease: Lease) -> None:
        body = self._claim(lease)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": GIVEN_BACK_SECONDS}
        await self._write(body)

    async def _write(self, body: dict[str, Any]) -> Lease:
        written: Lease = await self._client.update(
            LEASES,
            self._name,
            body,
            namespace=self._namespace,
            type=Lease,
            deadline=self._times.renew_deadline,
        )
        return written

    def _manifest(
        self,
        *,
        resource_version: str,
        annotations: dict[str, str],
        acquire_time: str | None,
        transitions: int,
    ) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": self._name,
            "namespace": self._namespace,
            "annotations": annotations,
        }
        if resource_version:
            metadata["resourceVersion"] = resource_version
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "acquireTime": acquire_time,
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }
        return {"metadata": metadata, "spec": spec}


async def follow_leader(client: KubeClient, name: str, namespace: str) -> AsyncIterator[Leader | None]:
    """Who holds the Lease: first as it is now, then each change; None while nobody does.

    A leader that stopped renewing counts as nobody once its Lease ran out by our clock.
    """
    changed = asyncio.Event()
    current: Lease | None = None

    def sink(change: object) -> None:
        nonlocal current
        if isinstance(change, Upserted):
            current = change.obj
        elif isinstance(change, Removed):
            current = None
        changed.set()

    reflector = Reflector(client, LEASES, Lease, namespace=namespace, field_selector=f"metadata.name={name}")
    watch = asyncio.create_task(reflector.run(sink), name=f"follow {name}")
    watch.add_done_callback(lambda _: changed.set())
    told: Leader | str | None = "nothing yet"
    try:
        while True:
            held = isinstance(told, Leader) and current is not None
            try:
                async with asyncio.timeout(_patience(current) if held else None):
                    await changed.wait()
                leader = leader_of(current)
            except TimeoutError:
                leader = None
            changed.clear()
            if watch.done():
                watch.result()
            if leader != told and reflector.synced.is_set():
                told = leader
                yield leader
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


def _patience(lease: Lease | None) -> float:
    """How long a Lease may go without renewal, with some allowance for the way of the news."""
    seconds = lease.spec.lease_duration_seconds if lease is not None else None
    return 1.5 * (seconds or LeaseTimes().duration)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
