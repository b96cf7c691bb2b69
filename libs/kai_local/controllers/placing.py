"""The default scheduler: one pod after the other, in order of priority and age."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from kai.kube import resources
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import ApiError, KubeError, NotFound
from kai.kube.store import Store
from kai.model.objects import Node
from kai_local.controllers.placement import DEFAULT_SCHEDULER, Unplaceable, choose_node
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import Amounts, add, pod_requests
from kai_local.parts.this_machine import is_of_chart

_SETTLE_SECONDS = 0.02

_log = structlog.get_logger(__name__)


class Placing:
    """Binds the pods that name the default scheduler. The stores are kept by somebody else.

    ``chart_elsewhere``: pods of the chart are taken by this machine's agent, see :mod:`kai_local.machine`.
    """

    def __init__(
        self,
        client: KubeClient,
        pods: Store[LocalPod],
        nodes: Store[Node],
        *,
        chart_elsewhere: bool = False,
    ) -> None:
        self.ready = asyncio.Event()
        self._chart_elsewhere = chart_elsewhere
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._changed = asyncio.Event()
        self._pending: dict[str, None] = {}
        self._used: dict[str, Amounts] = {}
        #: Where pods were put that are not yet seen there, by uid.
        self._assumed: dict[str, str] = {}
        pods.listen(self._pod_changed)
        nodes.listen(lambda old, new: self._changed.set())

    async def run(self) -> None:
        """Place whatever waits, each time something changed."""
        self.ready.set()
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._changed.clear()
            try:
                await self._place_all()
            except KubeError as error:
                _log.warning("placing failed", error=str(error))
                asyncio.get_running_loop().call_later(1.0, self._changed.set)

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        self._account(old, -1)
        self._account(new, 1)
        self._seen(old, new)
        for pod in (old, new):
            if pod is not None:
                self._pending.pop(pod.key, None)
        if new is not None and _waits(new) and not (self._chart_elsewhere and is_of_chart(new.labels)):
            self._pending[new.key] = None
        if self._pending:
            self._changed.set()

    def _account(self, pod: LocalPod | None, sign: int) -> None:
        if pod is None or pod.terminal or not pod.spec.node_name:
            return
        add(self._used.setdefault(pod.spec.node_name, {}), pod_requests(pod), sign)

    def _seen(self, old: LocalPod | None, new: LocalPod | None) -> None:
        """What was assumed of a pod is known once it is seen on a node, or is there no more."""
        pod = new or old
        if pod is None or (new is not None and not new.spec.node_name and not new.terminal):
            return
        if node := self._assumed.pop(pod.metadata.uid, None):
            add(self._used[node], pod_requests(pod), -1)

    async def _place_all(self) -> None:
        waiting = [pod for key in self._pending if (pod := self._pods.get(key)) is not None]
        waiting.sort(
            key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.key)
        )
        for pod in waiting:
            if pod.metadata.uid in self._assumed:
                continue
            answer = choose_node(pod, self._nodes, self._used)
            if isinstance(answer, Unplaceable):
                await self._tell(pod, answer)
            else:
                await self._bind(pod, answer)

    async def _bind(self, pod: LocalPod, node: str) -> None:
        meta = pod.metadata
        self._assumed[meta.uid] = node
        add(self._used.setdefault(node, {}), pod_requests(pod))
        binding: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create_subresource(
                resources.PODS, meta.name, "binding", binding, namespace=meta.namespace
            )
        except KubeError as error:
            if self._assumed.pop(meta.uid, None):
                add(self._used[node], pod_requests(pod), -1)
            if not isinstance(error, ApiError):
                raise
            _log.info("not bound", pod=pod.key, error=str(error))

    async def _tell(self, pod: LocalPod, answer: Unplaceable) -> None:
        before = pod.condition("PodScheduled")
        if before is not None and before.message == answer.message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": answer.message,
        }
        meta = pod.metadata
        try:
            await self._client.patch(
                resources.PODS,
                meta.name,
                {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}},
                namespace=meta.namespace,
                subresource="status",
                kind=PatchKind.STRATEGIC,
            )
        except NotFound:
            return


def _waits(pod: LocalPod) -> bool:
    ours = pod.spec.scheduler_name in ("", DEFAULT_SCHEDULER)
    return (
        ours
        and not pod.spec.node_name
        and not pod.terminal
        and not pod.terminating
        and not pod.spec.scheduling_gates
    )
