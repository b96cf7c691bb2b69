"""Doing what controllers plan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import structlog

from kai.kube import resources
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.forms import Form, forms, served
from kai.kube.resources import Resource
from kai_local.controllers.actions import Action, Adopt, Create, Delete, LetGo, Patch, Release
from kai_local.controllers.expectations import Expectations

_AT_ONCE = 16
#: What comes back to its owner's controller by a watch.
_AWAITED = frozenset({resources.PODS, resources.REPLICA_SETS, resources.JOBS})

_log = structlog.get_logger(__name__)


class Actor:
    """Writes to the API server, so much at a time, and keeps account of what is still to be seen."""

    def __init__(self, client: KubeClient, expectations: Expectations, events: EventRecorder) -> None:
        self._client = client
        self._events = events
        self._expectations = expectations
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def carry_out(self, actions: Iterable[Action], owner: str) -> None:
        """Do all of it; the first failure is raised after the rest was tried."""
        results = await asyncio.gather(*(self._do(one, owner) for one in actions), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _do(self, action: Action, owner: str) -> None:
        async with self._limit:
            match action:
                case Adopt():
                    await self._adopt(action)
                case Create(resource, namespace, body):
                    await self._create(resource, namespace, body, owner)
                case Delete(resource, namespace, name, uid, propagation, finalizer):
                    if finalizer:
                        await self._let_go(resource, namespace, name, uid, finalizer)
                    await self._delete(resource, namespace, name, uid, propagation)
                case LetGo(resource, namespace, name, uid, finalizer):
                    await self._let_go(resource, namespace, name, uid, finalizer)
                case Release(resource, namespace, name, uid, former):
                    references = [{"$patch": "delete", "uid": former}]
                    await self._change(resource, namespace, name, uid, {"ownerReferences": references})
                case Patch(resource, namespace, name, patch, subresource, kind):
                    try:
                        await self._client.patch(
                            (await self._form(resource)).resource,
                            name,
                            patch,
                            namespace=namespace,
                            subresource=subresource,
                            kind=kind,
                        )
                    except NotFound:
                        return

    async def _create(self, resource: Resource, namespace: str, body: dict[str, Any], owner: str) -> None:
        if resource in _AWAITED:
            self._expectations.expect_created(owner)
        try:
            form = await self._form(resource)
            wanted = body if form.write is None else form.write(body)
            await self._client.create(form.resource, wanted, namespace=namespace)
        except AlreadyExists:
            self._expectations.created(owner)
        except ApiError as error:
            self._expectations.created(owner)
            _log.warning("not created", kind=resource.kind, namespace=namespace, error=str(error))
            self._tell(namespace, body, f"Error creating: {error}")
            raise

    async def _form(self, resource: Resource) -> Form:
        """The version that is served; of kinds with a single one nobody is asked."""
        if len(forms(resource)) == 1:
            return Form(resource)
        return await served(self._client, resource) or Form(resource)

    def _tell(self, namespace: str, body: dict[str, Any], why: str) -> None:
        """Tell whose object it would be."""
        for owner in body["metadata"].get("ownerReferences", ()):
            about = ObjectReference(
                owner["apiVersion"], owner["kind"], namespace, owner["name"], owner["uid"]
            )
            self._events.emit(about, "Warning", "FailedCreate", why)

    async def _adopt(self, it: Adopt) -> None:
        metadata = {"resourceVersion": it.version, "ownerReferences": [it.owner]}
        if it.finalizers:
            metadata["finalizers"] = list(it.finalizers)
        await self._change(it.resource, it.namespace, it.name, it.uid, metadata)

    async def _let_go(self, resource: Resource, namespace: str, name: str, uid: str, finalizer: str) -> None:
        metadata = {"$deleteFromPrimitiveList/finalizers": [finalizer]}
        await self._change(resource, namespace, name, uid, metadata)

    async def _change(
        self, resource: Resource, namespace: str, name: str, uid: str, metadata: dict[str, Any]
    ) -> None:
        """Merge into the lists of an object's metadata."""
        patch = {"metadata": {"uid": uid, **metadata}}
        try:
            await self._client.patch(resource, name, patch, namespace=namespace, kind=PatchKind.STRATEGIC)
        except (NotFound, Conflict):  # gone or changed already, or another one has its name
            return

    async def _delete(
        self, resource: Resource, namespace: str, name: str, uid: str, propagation: str
    ) -> None:
        self._expectations.expect_deleted(uid)
        try:
            found = (await self._form(resource)).resource
            await self._client.delete(found, name, namespace=namespace, uid=uid, propagation=propagation)
        except (NotFound, Conflict):  # gone already
            return
        except ApiError:
            self._expectations.deleted(uid)
            raise
