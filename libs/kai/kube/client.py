"""Reads and writes of API objects, as structs or as plain JSON."""

# ruff: noqa: A002 (`type=Pod` reads as in the rest of Python)
from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar, cast, overload

import msgspec
from prometheus_client import CollectorRegistry

from kai.kube.answers import Page, decoded, page_of
from kai.kube.authorities import aiohttp
from kai.kube.discovery import Discovery
from kai.kube.exchange import Exchange
from kai.kube.metrics import RequestMetrics
from kai.kube.newest import newest_version
from kai.kube.pace import Pace
from kai.kube.ranks import Rank, rank_of
from kai.kube.request import (
    DEADLINE_SECONDS,
    LIST_DEADLINE_SECONDS,
    MERGE_PATCH,
    PAGE_SIZE,
    STRATEGIC_PATCH,
    Request,
)
from kai.kube.resources import Resource
from kai.kube.transport import Transport, load_configuration

T = TypeVar("T")
Json = dict[str, Any]

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_encode = msgspec.json.Encoder().encode


class PatchKind(StrEnum):
    """How a patch is to be understood; the values are content types."""

    MERGE = MERGE_PATCH
    JSON = "application/json-patch+json"
    STRATEGIC = STRATEGIC_PATCH
    APPLY = "application/apply-patch+yaml"


async def own_namespace(kubeconfig: str | None = None, *, context: str | None = None) -> str:
    """The namespace of a context, as kubectl takes it where none is given; asks nobody.

    Raises:
        KubeConfigError: there is no kubeconfig, or it is broken.
    """
    _, namespace = await load_configuration(kubeconfig, context)
    return namespace


class KubeClient:
    """One API server, as one user. An async context manager; :meth:`connect` makes one.

    ``namespace`` is to be given for namespaced kinds; reading a collection without it means all.
    Writes go out by their :class:`~kai.kube.ranks.Rank`, which is that of what is written unless another
    one is given; they have no other way to the server.
    ``type`` is a struct of :mod:`kai.model.objects` or ``dict`` for everything the server says.
    """

    def __init__(self, exchange: Exchange, *, wait: float = 0.0) -> None:
        self.metrics = exchange.metrics
        self._exchange = exchange
        self._wait = wait
        self._discovery = Discovery(exchange)

    @classmethod
    def connect(
        cls,
        kubeconfig: str | None = None,
        *,
        context: str | None = None,
        user_agent: str = "kai",
        wait: float = 0.0,
        registry: CollectorRegistry | None = None,
        pace: Pace | None = None,
    ) -> Self:
        """A client for the kubeconfig named, else the environment's, else our pod's; enter it to open it.

        With a ``pace`` it sends no more requests than that; those about Leases do not wait.

        Entering asks the server for its version, for up to ``wait`` seconds if it cannot be reached.

        Raises (on entering):
            KubeConfigError: no usable configuration or credential.
            TransportError: the server cannot be reached, or is no API server.
            Unauthorized: it does not accept the credentials.
        """
        transport = Transport(kubeconfig, context=context, user_agent=user_agent)
        metrics = RequestMetrics(registry or CollectorRegistry())
        return cls(Exchange(transport, metrics, pace=pace), wait=wait)

    @property
    def server(self) -> str:
        """URL of the API server, without a slash at the end."""
        return self._exchange.transport.server

    @property
    def namespace(self) -> str:
        """The namespace that the kubeconfig's context names."""
        namespace: str = self._exchange.transport.namespace
        return namespace

    async def __aenter__(self) -> Self:
        await self._exchange.transport.open()
        try:
            await self._exchange.reach(wait=self._wait)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; calls under way fail with ``TransportError``."""
        await self._exchange.transport.close()

    def hurry(self) -> None:
        """Write from now on without rests; for a process that is about to end."""
        self._exchange.dispatcher.hurry()

    # --- reads ---------------------------------------------------------------------------------
    @overload
    async def get(self, res: Resource, name: str, *, namespace: str = "", deadline: float = ...) -> Json: ...
    @overload
    async def get(
        self, res: Resource, name: str, *, namespace: str = "", type: builtins.type[T], deadline: float = ...
    ) -> T: ...
    async def get(
        self,
        res: Resource,
        name: str,
        *,
        namespace: str = "",
        type: Any = dict,
        deadline: float = DEADLINE_SECONDS,
    ) -> Any:
        """One object.

        Raises:
            NotFound: there is none of this name.
        """
        request = Request(
            verb="get",
            resource=res.plural,
            subject=_subject(namespace, name),
            path=res.object_path(name, namespace),
        )
        return await self._send(request, type, deadline)

    @overload
    async def list(
        self, res: Resource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> builtins.list[Json]: ...
    @overload
    async def list(
        self,
        res: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        type: builtins.type[T],
    ) -> builtins.list[T]: ...
    async def list(
        self,
        res: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        type: Any = dict,
    ) -> builtins.list[Any]:
        """All objects that match, read in pages. A server leaves ``kind`` out of objects in a list."""
        found: list[Any] = []
        params = selector_params(label_selector, field_selector)
        async for page in self.pages(res, namespace=namespace, params=params, type=type):
            found.extend(page.items or ())
        return found

    async def pages(
        self,
        res: Resource,
        *,
        namespace: str = "",
        params: dict[str, str] | None = None,
        type: Any = dict,
        page_size: int = PAGE_SIZE,
        metadata_only: bool = False,
    ) -> AsyncGenerator[Page[Any], None]:
        """The pages of a list; each carries the list's resource version.

        With ``metadata_only`` the server leaves everything else out of the objects.

        Raises:
            Gone: the server forgot the snapshot between two pages; start again.
            TransportError: the answer is no list, though it is no refusal either.
        """
        query = {**(params or {}), "limit": str(page_size)}
        while True:
            request = Request(
                verb="list",
                resource=res.plural,
                subject=namespace,
                path=res.path(namespace),
                params=query,
                accept=_METADATA_LIST if metadata_only else "",
            )
            body = await self._exchange.call(request, deadline=LIST_DEADLINE_SECONDS)
            page = page_of(body, type, request=request)
            yield page
            if not page.metadata.continue_:
                return
            query = {**query, "continue": page.metadata.continue_}

    async def newest_version(self, res: Resource, *, namespace: str = "", field_selector: str = "") -> str:
        """How far the server is with a kind, in one attempt: :func:`kai.kube.newest.newest_version`."""
        return await newest_version(self._exchange, res, namespace=namespace, field_selector=field_selector)

    @asynccontextmanager
    async def stream(
        self,
        res: Resource,
        *,
        namespace: str = "",
        params: dict[str, str],
        silence: float,
        metadata_only: bool = False,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A watch: the body as it comes, without limit of time, unless nothing comes for ``silence`` seconds.

        Raises:
            TransportError: it cannot be opened, or broke.
            ApiError: the server refuses it.
        """
        request = Request(
            verb="watch",
            resource=res.plural,
            subject=namespace,
            path=res.path(namespace),
            params=params,
            accept=_METADATA if metadata_only else "",
        )
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=silence)
        try:
            response = await self._exchange.open(request, limits=limits)
            try:
                yield response.content
            finally:
                response.close()
        except (aiohttp.ClientError, OSError) as error:
            raise self._exchange.failure(request, error) from error

    # --- writes --------------------------------------------------------------------------------
    @overload
    async def create(
        self, res: Resource, body: Any, *, namespace: str = "", deadline: float = ...
    ) -> Json: ...
    @overload
    async def create(
        self,
        res: Resource,
        body: Any,
        *,
        namespace: str = "",
        type: builtins.type[T],
        deadline: float = ...,
    ) -> T: ...
    async def create(
        self,
        res: Resource,
        body: Any,
        *,
        namespace: str = "",
        type: Any = dict,
        deadline: float = DEADLINE_SECONDS,
    ) -> Any:
        """Create an object from a struct or dict; ``apiVersion`` and ``kind`` are filled in.

        Raises:
            AlreadyExists: there is one of this name.
            TransportError: the answer was lost; the object may exist now.
        """
        request = Request(
            verb="create",
            resource=res.plural,
            subject=_subject(namespace, _name(body)),
            method="POST",
            path=res.path(namespace),
            data=_encode(_typed(res, body)),
            repeatable=False,
            rank=rank_of("create", res.plural),
        )
        return await self._send(request, type, deadline)

    async def create_subresource(
        self,
        res: Resource,
        name: str,
        subresource: str,
        body: Any,
        *,
        namespace: str = "",
        retry_throttled: bool = True,
        deadline: float = DEADLINE_SECONDS,
    ) -> Json:
        """POST to a subresource, such as ``binding``.

        An eviction that a disruption budget forbids is answered by 429, as is every request to a busy
        server; with ``retry_throttled=False`` it is raised instead of tried again.
        """
        request = Request(
            verb="create",
            resource=_label(res, subresource),
            subject=_subject(namespace, name),
            method="POST",
            path=res.object_path(name, namespace, subresource),
            data=_encode(body),
            repeatable=False,
            retry_throttled=retry_throttled,
            rank=rank_of("create", _label(res, subresource)),
        )
        return cast(Json, await self._send(request, dict, deadline))

    async def update(
        self,
        res: Resource,
        name: str,
        body: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        type: Any = dict,
        deadline: float = DEADLINE_SECONDS,
    ) -> Any:
        """Replace an object; with a ``resourceVersion`` in it, only if it still is that one.

        With ``dry_run`` the server tells what would become of it, and writes nothing.

        Raises:
            Conflict: it changed since it was read.
        """
        request = Request(
            verb="update",
            resource=_label(res, subresource),
            subject=_subject(namespace, name),
            method="PUT",
            path=res.object_path(name, namespace, subresource),
            params={"dryRun": "All"} if dry_run else {},
            data=_encode(_typed(res, body)),
            rank=rank_of("update", _label(res, subresource)),
        )
        return await self._send(request, type, deadline)

    async def patch(
        self,
        res: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        kind: PatchKind = PatchKind.MERGE,
        field_manager: str = "",
        rank: Rank | None = None,
        type: Any = dict,
        deadline: float = DEADLINE_SECONDS,
    ) -> Any:
        """Change a part of an object. ``APPLY`` needs a ``field_manager`` and takes over contested fields."""
        params = {"fieldManager": field_manager} if field_manager else {}
        if kind is PatchKind.APPLY:
            params["force"] = "true"
        request = Request(
            verb="patch",
            resource=_label(res, subresource),
            subject=_subject(namespace, name),
            method="PATCH",
            path=res.object_path(name, namespace, subresource),
            params=params,
            data=_encode(patch),
            content_type=kind.value,
            # A list of operations may append; the other kinds say how the object is to be.
            repeatable=kind is not PatchKind.JSON,
            rank=rank or rank_of("patch", _label(res, subresource)),
        )
        return await self._send(request, type, deadline)

    async def delete(
        self,
        res: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        """Delete an object; with ``uid`` only that one, with ``resource_version`` only as it was read.

        Raises:
            NotFound: it is gone already.
            Conflict: there is one of this name, but it is another, or changed since.
        """
        options: Json = {}
        wanted = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {key: value for key, value in wanted.items() if value}:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        request = Request(
            verb="delete",
            resource=res.plural,
            subject=_subject(namespace, name),
            method="DELETE",
            path=res.object_path(name, namespace),
            data=_encode(options) if options else None,
            rank=rank_of("delete", res.plural),
        )
        await self._exchange.call(request, deadline=deadline)

    # --- discovery -----------------------------------------------------------------------------
    async def discover(self, api_version: str, kind: str, *, max_age: float = 30.0) -> Resource | None:
        """The resource of a manifest's ``apiVersion`` and ``kind``; None if the server does not serve it.

        What was found is kept; what was not found is asked for again after ``max_age`` seconds.
        """
        return await self._discovery.find(api_version, kind, max_age=max_age)

    async def resource_called(self, word: str) -> Resource | None:
        """The resource of a word as kubectl takes it: :meth:`kai.kube.discovery.Discovery.called`."""
        return await self._discovery.called(word)

    async def raw(
        self, path: str, *, method: str = "GET", body: Any = None, deadline: float = DEADLINE_SECONDS
    ) -> Json:
        """JSON of any path of the server, as ``kubectl --raw`` gets it."""
        request = Request(
            verb=method.lower(),
            resource="raw",
            subject=path,
            method=method,
            path=path,
            data=None if body is None else _encode(body),
            repeatable=method != "POST",
            rank=None if method in ("GET", "HEAD") else Rank.NEED,
        )
        return cast(Json, await self._send(request, dict, deadline))

    async def _send(self, request: Request, kind: Any, deadline: float) -> Any:
        return decoded(await self._exchange.call(request, deadline=deadline), kind, request=request)


def selector_params(label_selector: str, field_selector: str) -> dict[str, str]:
    """Selectors as query parameters; empty ones are left out."""
    params = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in params.items() if value}


def _typed(res: Resource, body: Any) -> Json:
    fields = body if isinstance(body, dict) else msgspec.to_builtins(body)
    return {"apiVersion": res.api_version, "kind": res.kind, **fields}


def _name(body: Any) -> str:
    if isinstance(body, dict):
        metadata = body.get("metadata") or {}
        return str(metadata.get("name") or metadata.get("generateName") or "")
    return str(body.metadata.name or body.metadata.generate_name)


def _subject(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _label(res: Resource, subresource: str) -> str:
    return f"{res.plural}/{subresource}" if subresource else res.plural
