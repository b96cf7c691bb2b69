"""Watches claims, volumes and storage classes, and keeps them bound."""

from __future__ import annotations

import asyncio

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.store import Store
from kai.kube.workqueue import WorkQueue
from kai_local.controllers.actor import Actor
from kai_local.controllers.objects import Workload
from kai_local.controllers.volumes import StorageClass, claims_of, reconcile_claim, reconcile_volume
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import Watches

#: Kind and key.
Key = tuple[str, str]
_CLAIM, _VOLUME, _POD = "claim", "volume", "pod"


class Storage:
    """The volume controllers. :meth:`run` goes on until cancelled."""

    def __init__(self, client: KubeClient, watches: Watches, actor: Actor) -> None:
        self._watches = watches
        self._actor = actor
        self._queue: WorkQueue[Key] = WorkQueue("volumes")
        self._claims: Store[Workload] = Store()
        self._volumes: Store[Workload] = Store()
        self._classes: Store[StorageClass] = Store()
        self._followed = (
            (Reflector(client, resources.PVCS, Workload), self._claims),
            (Reflector(client, resources.PVS, Workload), self._volumes),
        )
        self._followed_classes = Reflector(client, resources.STORAGE_CLASSES, StorageClass)
        self._claims.listen(self._claim_changed)
        self._volumes.listen(self._volume_changed)
        self._classes.listen(lambda old, new: self._wake_unbound())
        watches.pods.listen(self._pod_changed)

    async def run(self) -> None:
        """Watch and act."""
        async with asyncio.TaskGroup() as tasks:
            for reflector, store in self._followed:
                tasks.create_task(reflector.run(store))
            tasks.create_task(self._followed_classes.run(self._classes))
            for reflector, _ in self._followed:
                await reflector.synced.wait()
            await self._followed_classes.synced.wait()
            tasks.create_task(self._queue.run(self._work, workers=4))

    def _claim_changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._queue.add((_CLAIM, new.key))
        elif old is not None and old.spec.get("volumeName"):
            self._queue.add((_VOLUME, str(old.spec["volumeName"])))

    def _volume_changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is None:
            return
        self._queue.add((_VOLUME, new.key))
        reference = new.spec.get("claimRef")
        if reference:
            self._queue.add((_CLAIM, f"{reference.get('namespace')}/{reference.get('name')}"))
        else:
            self._wake_unbound()

    def _wake_unbound(self) -> None:
        for claim in self._claims:
            if claim.status.get("phase") != "Bound":
                self._queue.add((_CLAIM, claim.key))

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        if old is None and new is not None and any("ephemeral" in v for v in new.spec.volumes or ()):
            self._queue.add((_POD, new.key))

    async def _work(self, key: Key) -> None:
        kind, name = key
        if kind == _CLAIM and (claim := self._claims.get(name)) is not None:
            classes = {one.metadata.name: one for one in self._classes}
            await self._actor.carry_out(reconcile_claim(claim, self._volumes, classes), claim.metadata.uid)
        elif kind == _VOLUME and (volume := self._volumes.get(name)) is not None:
            claims = {one.key: one for one in self._claims}
            await self._actor.carry_out(reconcile_volume(volume, claims), volume.metadata.uid)
        elif kind == _POD and (pod := self._watches.pods.get(name)) is not None:
            await self._actor.carry_out(claims_of(pod), pod.metadata.uid)
