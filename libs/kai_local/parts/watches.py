"""Pods and nodes, watched once for all who play a part in the cluster."""

from __future__ import annotations

import asyncio

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.store import Store
from kai.model.objects import ApiObject, Node, OwnerReference
from kai_local.parts.objects import LocalPod


class Watches:
    """The stores, and what keeps them: :meth:`run` goes on until cancelled.

    Pods are found by the name of their node (index ``node``) and the uid of their controller (``owner``),
    those without one by their namespace (``orphan``).
    """

    def __init__(self, client: KubeClient) -> None:
        self.ready = asyncio.Event()
        self.pods: Store[LocalPod] = Store(
            indexes={
                "node": lambda pod: (pod.spec.node_name,),
                "owner": owner_uid,
                "orphan": orphan_namespace,
            }
        )
        self.nodes: Store[Node] = Store()
        self._pods = Reflector(client, resources.PODS, LocalPod)
        self._nodes = Reflector(client, resources.NODES, Node)

    async def run(self) -> None:
        """Follow both kinds; ``ready`` is set when everything that exists is known."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run(self.pods))
            tasks.create_task(self._nodes.run(self.nodes))
            await self._pods.synced.wait()
            await self._nodes.synced.wait()
            self.ready.set()


def controller_of(obj: ApiObject) -> OwnerReference | None:
    """The owner that manages an object, if one does."""
    return next((owner for owner in obj.metadata.owner_references or () if owner.controller), None)


def orphan_namespace(obj: ApiObject) -> tuple[str, ...]:
    """The namespace of an object that nobody manages, as the value of an index."""
    return (obj.metadata.namespace,) if controller_of(obj) is None else ()


def owner_uid(obj: ApiObject) -> tuple[str, ...]:
    """The uid of the owner that manages an object, as the value of an index."""
    owner = controller_of(obj)
    return (owner.uid,) if owner is not None else ()
