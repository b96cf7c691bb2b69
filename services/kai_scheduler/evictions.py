"""Carrying out evictions, many at a time, while the scheduling goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from kai.kube import errors
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient, PatchKind
from kai.kube.resources import PODS
from kai.model.decisions import Eviction

WORKERS: Final = 32
#: The longest pause before asking again, where it is not known what became of an eviction.
UNKNOWN_AT_MOST_SECONDS: Final = 15.0

_log = structlog.get_logger(__name__)


class Evictor:
    """Deletes pods. An eviction that has no effect is told, since the state counts on it.

    ``through_api`` uses the eviction subresource, which respects disruption budgets; then an eviction may
    be refused. ``set_condition`` first writes why the pod goes into its status.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        through_api: bool,
        set_condition: bool,
        failed: Callable[[Eviction], None],
    ) -> None:
        self._client = client
        self._through_api = through_api
        self._set_condition = set_condition
        self._failed = failed
        self._queue: asyncio.Queue[Eviction] = asyncio.Queue()
        #: Pods (uids) whose eviction is under way: the engine never decides it twice, a restart might.
        self._under_way: set[str] = set()

    def offer(self, eviction: Eviction) -> None:
        """Evict soon. What waits is bounded by the number of pods: each is taken once."""
        if eviction.pod.uid not in self._under_way:
            self._under_way.add(eviction.pod.uid)
            self._queue.put_nowait(eviction)

    async def run(self) -> None:
        """Evict, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def drain(self) -> None:
        """Wait until all that was offered is done."""
        await self._queue.join()

    async def _work(self) -> None:
        while True:  # while it waits for the next it holds nothing of the last
            await self._carry_out(await self._queue.get())

    async def _carry_out(self, eviction: Eviction) -> None:
        pod = eviction.pod
        try:
            await self._evict_surely(eviction)
            _log.info(
                "pod evicted",
                pod=f"{pod.namespace}/{pod.name}",
                action=eviction.action,
                by=eviction.evictor,
            )
        except (errors.NotFound, errors.Conflict):
            # Gone already, or another pod of the same name: either way it is not there any more.
            pass
        except errors.Unauthorized:
            raise
        except errors.KubeError as error:
            _log.warning("pod not evicted", pod=f"{pod.namespace}/{pod.name}", reason=str(error))
            self._failed(eviction)
        except Exception:  # noqa: BLE001 (one pod must not end the evictions of all)
            _log.exception("pod not evicted", pod=f"{pod.namespace}/{pod.name}")
            self._failed(eviction)
        finally:
            self._under_way.discard(pod.uid)
            self._queue.task_done()

    async def _evict_surely(self, eviction: Eviction) -> None:
        """Ask until the answer is known: a pod that may be going already must not cost another one its place.

        Raises:
            ApiError: the server will not.
        """
        backoff = Backoff(maximum=UNKNOWN_AT_MOST_SECONDS)
        while True:
            try:
                await self._evict(eviction)
            except (errors.TransportError, errors.ServerError) as error:
                pod = f"{eviction.pod.namespace}/{eviction.pod.name}"
                _log.warning("not known whether a pod is evicted; asking again", pod=pod, reason=str(error))
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _evict(self, eviction: Eviction) -> None:
        pod = eviction.pod
        if self._set_condition:
            await self._client.patch(
                PODS,
                pod.name,
                {"metadata": {"uid": pod.uid}, "status": {"conditions": [_condition(eviction)]}},
                namespace=pod.namespace,
                subresource="status",
                kind=PatchKind.STRATEGIC,
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


def _condition(eviction: Eviction) -> dict[str, Any]:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": eviction.message,
    }
