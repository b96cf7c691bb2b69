"""Watches claims of devices and their templates, and keeps them as their pods need them."""

from __future__ import annotations

import asyncio

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.reflector import Reflector
from kai.kube.store import Store
from kai.kube.workqueue import WorkQueue
from kai_local.controllers.actor import Actor
from kai_local.controllers.device_claims import claims_for, reconcile_claim, users_of
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import DeviceClaim, LocalPod
from kai_local.parts.watches import Watches

#: Kind and key.
Key = tuple[str, str]
_CLAIM, _POD = "claim", "pod"


class DeviceClaims:
    """The controller of claims of devices. :meth:`run` goes on until cancelled."""

    def __init__(self, client: KubeClient, watches: Watches, actor: Actor) -> None:
        self._client = client
        self._pods = watches.pods
        self._actor = actor
        self._queue: WorkQueue[Key] = WorkQueue("device claims")
        self._claims: Store[DeviceClaim] = Store(indexes={"user": users_of})
        self._templates: Store[Workload] = Store()
        self._follow_claims = Reflector(client, resources.RESOURCE_CLAIMS, DeviceClaim, optional=True)
        self._follow_templates = Reflector(
            client, resources.RESOURCE_CLAIM_TEMPLATES, Workload, optional=True
        )
        self._claims.listen(self._claim_changed)
        self._templates.listen(self._template_changed)
        self._pods.listen(self._pod_changed)

    async def run(self) -> None:
        """Watch and act."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_claims.run(self._claims))
            tasks.create_task(self._follow_templates.run(self._templates))
            await self._follow_claims.synced.wait()
            await self._follow_templates.synced.wait()
            tasks.create_task(self._queue.run(self._work, workers=4))

    def _claim_changed(self, old: DeviceClaim | None, new: DeviceClaim | None) -> None:
        if new is None:
            return
        self._queue.add((_CLAIM, new.key))
        for name in users_of(new).values():
            self._queue.add((_POD, f"{new.metadata.namespace}/{name}"))

    def _template_changed(self, old: Workload | None, new: Workload | None) -> None:
        for pod in self._pods:
            if (
                new is not None
                and pod.spec.resource_claims
                and pod.metadata.namespace == new.metadata.namespace
            ):
                self._queue.add((_POD, pod.key))

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        pod = new or old
        if pod is None or not (pod.spec.resource_claims or pod.status.extended_resource_claim_status):
            return
        if new is not None and not new.terminal:
            self._queue.add((_POD, new.key))
            return
        for claim in self._claims.by_index("user", pod.metadata.uid):
            self._queue.add((_CLAIM, claim.key))

    async def _work(self, key: Key) -> None:
        kind, name = key
        if kind == _CLAIM and (claim := self._claims.get(name)) is not None:
            await self._actor.carry_out(reconcile_claim(claim, await self._ended(claim)), claim.metadata.uid)
        elif kind == _POD and (pod := self._pods.get(name)) is not None and not pod.terminal:
            templates = {one.key: one for one in self._templates}
            claims = {one.key: one for one in self._claims}
            await self._actor.carry_out(claims_for(pod, templates, claims), pod.metadata.uid)

    async def _ended(self, claim: DeviceClaim) -> set[str]:
        """The users of a claim that use it no more. Our watch may be behind: the server has the last word."""
        ended = set()
        for uid, name in users_of(claim).items():
            pod = self._pods.get(f"{claim.metadata.namespace}/{name}")
            if pod is None or pod.metadata.uid != uid:
                pod = await self._ask(claim.metadata.namespace, name)
            if pod is None or pod.metadata.uid != uid or pod.terminal:
                ended.add(uid)
        return ended

    async def _ask(self, namespace: str, name: str) -> LocalPod | None:
        try:
            return await self._client.get(resources.PODS, name, namespace=namespace, type=LocalPod)
        except NotFound:
            return None
