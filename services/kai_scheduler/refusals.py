"""Finds out which nodes refuse the pods that they are given.

Failed pods are not watched: they hold nothing, and are many where jobs retry. So a pod that was given a node,
and leaves the watch before it ever ran though nobody deleted it, is looked up. One that came with a node says
nothing of it: its owner may have seen to it that it is refused. Of those that were bound before this process
watched nobody knows which they are, so they say nothing either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.kube.resources import PODS
from kai.model.objects import ApiObject, ApiStruct, Json
from kai.snapshot.reports import PodRan, PodRefused
from kai_scheduler.changes import ChangeQueue, Started, Urgency, Vanished
from kai_scheduler.metrics import SchedulerMetrics

#: Why a kubelet refuses a pod for something that its owner wrote into it, on a node that is sound.
OWN_FAULTS: Final = frozenset(
    {
        "AppArmor",
        "InitContainerRestartPolicyForbidden",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
    }
)
#: Pods that wait to be looked up; of more than that, the others tell enough.
WAITING_AT_MOST: Final = 256

_log = structlog.get_logger(__name__)


class _Status(ApiStruct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: list[Json] | None = None


class FailedPod(ApiObject):
    """A pod, as far as the manner of its end goes."""

    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def refused(self) -> bool:
        """Whether its node ended it before any of its containers was made."""
        return self.status.phase == "Failed" and not self.status.container_statuses


class RefusalWatch:
    """Tells the state of refusals, and of pods that run. ``clock`` gives Unix seconds."""

    def __init__(
        self,
        client: KubeClient,
        changes: ChangeQueue,
        metrics: SchedulerMetrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._changes = changes
        self._metrics = metrics
        self._clock = clock
        self._vanished: asyncio.Queue[Vanished] = asyncio.Queue(WAITING_AT_MOST)
        #: Nodes and namespaces with refusals that no pod has disproved since; namespace "" stands for any.
        self._doubted: set[tuple[str, str]] = set()
        changes.ends = self._saw

    async def run(self) -> None:
        """Look up what vanished, until cancelled."""
        while True:
            await self._look_up(await self._vanished.get())

    def refused(self, node: str, namespace: str, *, pod: str, why: str, own_fault: bool = False) -> None:
        """A node did not do what it promised for a pod (``namespace/name``), be it by the pod's own fault."""
        now = self._clock()
        self._doubted |= {(node, namespace), (node, "")}
        self._metrics.refusals.labels(node).inc()

        _log.warning("node refused a pod", node=node, pod=pod, reason=why)
        self._changes.note(
            PodRefused(node=node, namespace=namespace, at=now, own_fault=own_fault), Urgency.SOON
        )

    def _saw(self, end: Started | Vanished) -> None:
        match end:
            case Started(node, namespace):
                disproved = {(node, namespace), (node, "")} & self._doubted
                if disproved:
                    self._doubted -= disproved
                    self._changes.note(PodRan(node, namespace), Urgency.SOON)
            case Vanished():
                if not self._vanished.full():
                    self._vanished.put_nowait(end)

    async def _look_up(self, gone: Vanished) -> None:
        try:
            pod = await self._client.get(PODS, gone.name, namespace=gone.namespace, type=FailedPod)
        except NotFound:
            return
        except KubeError as error:
            _log.info("a pod that vanished cannot be looked up", pod=gone.key, reason=str(error))
            return
        if pod.metadata.uid == gone.uid and pod.refused:
            why = f"{pod.status.reason}: {pod.status.message}"
            own_fault = pod.status.reason in OWN_FAULTS
            self.refused(gone.node, gone.namespace, pod=gone.key, why=why, own_fault=own_fault)
