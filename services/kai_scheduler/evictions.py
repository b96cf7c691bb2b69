"""Carrying out evictions, many at a time, while the scheduling goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from kai.kube import errors
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient, PatchKind
from kai.kube.ranks import Rank
from kai.kube.resources import PODS
from kai.model import condition_texts
from kai.model.decisions import Eviction
from kai.model.objects import Pod
from kai.snapshot.times import rfc3339
from kai_scheduler.troubles import Troubles

WORKERS: Final = 32
#: The longest pause before asking again, where it is not known what became of an eviction.
UNKNOWN_AT_MOST_SECONDS: Final = 15.0
#: An eviction that the server has failed at for so long, with the pod as it was, is not going to happen.
PATIENCE_SECONDS: Final = 30.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Attempt:
    """An eviction of which it is not known yet what became of it; ``began`` on the loop's clock."""

    eviction: Eviction
    began: float
    #: An answer did not come, or told nothing: the pod may be going by our doing.
    unclear: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(maximum=UNKNOWN_AT_MOST_SECONDS))


class Evictor:
    """Deletes pods. ``evicted`` is told each that goes by our doing, ``failed`` each eviction that has no
    effect, and why, since the state counts on it.

    ``through_api`` uses the eviction subresource, which respects disruption budgets; then an eviction may
    be refused. ``set_condition`` first writes why the pod goes into its status.

    ``leads`` tells whether the Lease is ours beyond doubt. While it is not nobody is evicted: a process that
    was stopped meanwhile has decided about a cluster that another leader may have changed since.

    Where the server fails, it is asked again, until it is known whether the pod goes: one that may be going
    already must not cost another one its place. Whoever waits to be asked about again holds up nobody.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        through_api: bool,
        set_condition: bool,
        evicted: Callable[[Eviction], None],
        failed: Callable[[Eviction, str], None],
        troubles: Troubles,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``clock`` gives Unix seconds."""
        self._client = client
        self._through_api = through_api
        self._set_condition = set_condition
        self._evicted = evicted
        self._failed = failed
        self._troubles = troubles
        self._leads = leads
        self._clock = clock
        self._queue: asyncio.Queue[_Attempt] = asyncio.Queue()
        #: Pods (uids) whose eviction is under way: the engine never decides it twice, a restart might.
        self._under_way: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def offer(self, eviction: Eviction) -> None:
        """Evict soon. What waits is bounded by the number of pods: each is taken once."""
        if eviction.pod.uid not in self._under_way:
            self._under_way.add(eviction.pod.uid)
            self._idle.clear()
            self._queue.put_nowait(_Attempt(eviction, asyncio.get_running_loop().time()))

    async def run(self) -> None:
        """Evict, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def drain(self) -> None:
        """Wait until all that was offered is done."""
        await self._idle.wait()

    async def _work(self) -> None:
        while True:  # while it waits for the next it holds nothing of the last
            await self._carry_out(await self._queue.get())

    async def _carry_out(self, attempt: _Attempt) -> None:
        try:
            ended = await self._is_decided(attempt)
        except errors.Unauthorized:
            raise
        except errors.KubeError as error:
            self._give_up(attempt.eviction, str(error))
        except Exception as error:  # noqa: BLE001 (one pod must not end the evictions of all)
            _log.exception("pod not evicted", pod=_key(attempt.eviction))
            self._failed(attempt.eviction, f"internal error ({type(error).__name__})")
        else:
            if not ended:
                delay = attempt.backoff.next()
                asyncio.get_running_loop().call_later(delay, self._queue.put_nowait, attempt)
                return
        self._under_way.discard(attempt.eviction.pod.uid)
        if not self._under_way:
            self._idle.set()

    async def _is_decided(self, attempt: _Attempt) -> bool:
        """Ask once; false if it is to be asked again.

        Raises:
            ApiError: the server will not.
        """
        eviction = attempt.eviction
        if not self._leads():
            return False
        try:
            await self._evict(eviction)
        except errors.NotFound:
            self._tell_gone(attempt)
            return True
        except (errors.Conflict, errors.TransportError, errors.ServerError) as error:
            attempt.unclear = attempt.unclear or not isinstance(error, errors.Conflict)
            late = asyncio.get_running_loop().time() - attempt.began >= PATIENCE_SECONDS
            # What conflicts may be that another pod has its name now, or that somebody else wrote to it.
            stays = await self._stays(eviction) if late or isinstance(error, errors.Conflict) else None
            if stays is False:
                self._tell_gone(attempt)
                return True
            if stays and late:
                self._troubles.note("eviction", error, about=_key(eviction))
                self._give_up(eviction, f"the server fails at it: {error}")
                return True
            _log.warning(
                "not known whether a pod is evicted; asking again", pod=_key(eviction), reason=str(error)
            )
            return False
        self._tell_evicted(eviction)
        return True

    def _tell_gone(self, attempt: _Attempt) -> None:
        """A pod is gone, or going: by our doing if it may be so."""
        if attempt.unclear:
            self._tell_evicted(attempt.eviction)

    def _tell_evicted(self, eviction: Eviction) -> None:
        _log.info("pod evicted", pod=_key(eviction), action=eviction.action, by=eviction.evictor)
        with self._troubles.cut_off("metrics", about=_key(eviction)):
            self._evicted(eviction)

    async def _stays(self, eviction: Eviction) -> bool | None:
        """Whether a pod is there, and not being deleted; None if that cannot be seen."""
        ref = eviction.pod
        try:
            pod = await self._client.get(PODS, ref.name, namespace=ref.namespace, type=Pod)
        except errors.NotFound:
            return False
        except (errors.TransportError, errors.ServerError):
            return None
        return pod.metadata.uid == ref.uid and not pod.metadata.deletion_timestamp

    def _give_up(self, eviction: Eviction, reason: str) -> None:
        _log.warning("pod not evicted", pod=_key(eviction), reason=reason)
        self._failed(eviction, reason)

    async def _evict(self, eviction: Eviction) -> None:
        pod = eviction.pod
        if self._set_condition:
            await self._client.patch(
                PODS,
                pod.name,
                {
                    "metadata": {"uid": pod.uid},
                    "status": {"conditions": [_condition(eviction, self._clock())]},
                },
                namespace=pod.namespace,
                subresource="status",
                kind=PatchKind.STRATEGIC,
                rank=Rank.DECISION,  # the eviction waits for it
            )
        if not self._through_api:
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
            return
        await self._client.create_subresource(
            PODS,
            pod.name,
            "eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "deleteOptions": {"preconditions": {"uid": pod.uid}},
            },
            namespace=pod.namespace,
            retry_throttled=False,
        )


def _key(eviction: Eviction) -> str:
    return f"{eviction.pod.namespace}/{eviction.pod.name}"


def _condition(eviction: Eviction, now: float) -> dict[str, Any]:
    """Why the pod goes. Kubernetes takes such a condition back that is old and whose pod has not gone."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": condition_texts.bounded(eviction.message),
        "lastTransitionTime": rfc3339(now),
    }
