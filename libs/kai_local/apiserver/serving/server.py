"""The server: TLS, dispatch, life cycle. See ``ApiServer``."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import structlog
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from kai_local.apiserver.access import files, reviews
from kai_local.apiserver.access.authn import Authenticator
from kai_local.apiserver.access.authz import Action, Authorizer
from kai_local.apiserver.access.credentials import Credentials
from kai_local.apiserver.access.pki import Authority, Pair
from kai_local.apiserver.admission.builtin import Admission
from kai_local.apiserver.admission.dynamic import DynamicAdmission
from kai_local.apiserver.admission.policies import BINDINGS, POLICIES, Policies
from kai_local.apiserver.admission.webhooks import WebhookCaller
from kai_local.apiserver.calls import routes
from kai_local.apiserver.calls.bodies import answer, read_bytes, read_object, refusal
from kai_local.apiserver.calls.query import flag
from kai_local.apiserver.calls.requests import User
from kai_local.apiserver.clock import Clock
from kai_local.apiserver.errors import ApiFailure, NothingServed
from kai_local.apiserver.kinds import builtins, crds, events
from kai_local.apiserver.kinds.catalogue import Catalogue
from kai_local.apiserver.kinds.discovery import AGGREGATED, VERSION, Discovery
from kai_local.apiserver.kinds.openapi import V2_DOCUMENT, V2_MEDIA_TYPE, OpenApi
from kai_local.apiserver.kinds.selectors import exact_name
from kai_local.apiserver.reading.reads import Reader
from kai_local.apiserver.reading.watch import Hubs
from kai_local.apiserver.serving.bootstrap import MACHINERY, create_base_objects
from kai_local.apiserver.serving.faults import FAULTS_PATH, REQUESTS_PATH, Dropped, Faults, RequestCounts
from kai_local.apiserver.serving.kubelets import Kubelets
from kai_local.apiserver.serving.rest import Rest
from kai_local.apiserver.serving.subresources import Subresources
from kai_local.apiserver.store.journal import Journal
from kai_local.apiserver.store.storage import Change, Store
from kai_local.apiserver.writing.garbage import GarbageCollector
from kai_local.apiserver.writing.registry import Registry

BODY_LIMIT: Final = 3 * 1024 * 1024
_PROBES: Final = ("/healthz", "/livez", "/readyz")
#: 2025-01-01, so that versions are not longer than they need be
_EPOCH: Final = 1_735_689_600
_log = structlog.get_logger(__name__)


def first_version(now: float) -> int:
    """Where resourceVersions start: above all that a server on this machine gave out before.

    Clients that outlive the server see that their version is too old, and fencing tokens keep rising.
    """
    return int((now - _EPOCH) * 1000)


class ApiServer:
    """An API server in this process.

    ``async with ApiServer() as server:`` serves on a free port of loopback until the block ends;
    ``server.url`` and ``server.kubeconfig()`` say how to reach it. With a ``folder`` it keeps there what it
    holds, and a server that is started on it again, whatever became of the first, goes on. ``egress`` is the
    ``host:port`` of a proxy that leads to Services and kubelets, ``runtime_config`` which versions are served
    where there are several. Raises OSError when the address cannot be bound, ValueError and JournalError when
    the folder holds something damaged.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        names: Sequence[str] = (),
        rbac: bool = False,
        window: int = 1024,
        clock: Clock | None = None,
        context: str = "kai-local",
        folder: Path | None = None,
        egress: str = "",
        runtime_config: str = "",
    ) -> None:
        self._host, self._port = host, port
        self._context = context
        self.clock = clock or Clock()
        self.store = Store(window, first_version(self.clock.now()))
        self.catalogue = Catalogue()
        builtins.install(self.catalogue, runtime_config)
        self.hubs = Hubs(self.store)
        credentials = Credentials.of(folder / "credentials.json") if folder else Credentials.new()
        self._journal = Journal(folder / "journal", self.store) if folder else None
        self.authority = Authority(credentials.authority)
        self.admin: Pair = credentials.admin
        self.authenticator = Authenticator(credentials.token_key)
        self.authorizer = Authorizer(self.store, rbac=rbac)
        self.webhooks = WebhookCaller(self.store, egress=egress)
        policies = Policies(self.store, self.authorizer)
        dynamic = DynamicAdmission(policies, self.webhooks)
        self.registry = Registry(self.store, Admission(self.store), dynamic, self.clock)
        self.registry.on_write[POLICIES] = policies.check_policy
        self.registry.on_write[BINDINGS] = policies.check_binding
        self.garbage = GarbageCollector(self.registry, self.catalogue)
        self._reader = Reader(self.store, self.hubs, self.clock)
        pods = self.catalogue.get("", "pods")
        assert pods is not None, "pods are built in"
        kubelets = Kubelets(self.store, egress) if egress else None
        subresources = Subresources(self.registry, self.authenticator, pods, kubelets)
        self._rest = Rest(self._reader, self.registry, subresources)
        self._reviews = reviews.Reviews(self.authenticator, self.authorizer)
        self._discovery = Discovery(self.catalogue)
        self._openapi = OpenApi(self.catalogue)
        self.faults = Faults(self.store, self.hubs, self._reader.forget_pages)
        self.counts = RequestCounts()
        self._server_pair = self.authority.server(
            ["127.0.0.1", "localhost", "kubernetes.default.svc", *names]
        )
        self._runner: web.ServerRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._serve_definitions()

    def _serve_definitions(self) -> None:
        definitions = crds.Definitions(self.catalogue, self.clock)
        self.registry.on_write[crds.KEY] = crds.check
        self.registry.on_store[crds.KEY] = definitions.establish
        self.store.collection(crds.KEY).listeners.append(definitions.follow)
        self.store.collection(crds.KEY).listeners.append(self._end_watches)

    def _end_watches(self, change: Change) -> None:
        """Nobody watches what is no longer served."""
        if change.kind == "DELETED":
            spec = change.record.obj["spec"]
            self.hubs.close((spec["group"], spec["names"]["plural"]))

    # --- life cycle ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._journal is not None:
            self._journal.restore()
        create_base_objects(self.store, self.clock)
        server = web.Server(
            self._handle,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=300,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, self._host, self._port, ssl_context=self._ssl_context(), backlog=1024
        )
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._tasks = [
            asyncio.create_task(self.garbage.run(), name="garbage collector"),
            asyncio.create_task(events.expire(self.store, self.clock), name="events"),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.hubs.close()
        assert self._runner is not None, "entered before it is left"
        await self._runner.cleanup()
        await self.webhooks.close()
        if self._journal is not None:
            self._journal.close()

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        with files.as_paths(self._server_pair) as (certificate, key):
            context.load_cert_chain(certificate, key)
        return context

    # --- how to reach it ----------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """``https://127.0.0.1:…``."""
        host = "127.0.0.1" if self._host in ("", "0.0.0.0", "::") else self._host
        return f"https://{host}:{self._port}"

    def client_context(self) -> ssl.SSLContext:
        """A TLS context that trusts this server; the bearer token of the administrator goes with it."""
        return ssl.create_default_context(cadata=self.authority.certificate.decode())

    @property
    def admin_token(self) -> str:
        """A bearer token of the administrator."""
        return self.authenticator.admin_token

    def kubeconfig(self, context: str = "", url: str = "") -> str:
        """A kubeconfig of the administrator, with a client certificate."""
        return files.kubeconfig(
            context or self._context, url or self.url, self.authority.certificate, self.admin
        )

    def machinery_kubeconfig(self, url: str = "") -> str:
        """A kubeconfig of whoever plays kubelets and controllers."""
        pair = self.authority.client(MACHINERY)
        return files.kubeconfig(self._context, url or self.url, self.authority.certificate, pair)

    def write_kubeconfig(self, path: Path, context: str = "", url: str = "") -> Path:
        """Write the kubeconfig to a file that only its owner reads."""
        files.write_private(path, self.kubeconfig(context, url).encode())
        return path

    # --- requests -----------------------------------------------------------------------------------

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(http)
        except ApiFailure as failure:
            return refusal(failure)
        except Dropped:
            if http.transport is not None:
                http.transport.abort()
            return web.Response()
        except Exception as error:  # noqa: BLE001 (the rim of the service: logged once, answered 500)
            # As text: with the locals of each frame a traceback takes minutes, and all other requests wait.
            text = traceback.format_exc()
            _log.error("request failed", method=http.method, path=http.path, exception=text)
            return refusal(ApiFailure(500, "InternalError", f"Internal error occurred: {error}"))

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        path = http.path
        parts = path.strip("/").split("/")
        root = parts[0]
        user = self.authorizer.impersonated(self.authenticator.user_of(http), http.headers)
        if (root == "api" and len(parts) > 2) or (root == "apis" and len(parts) > 3):
            return await self._resource(http, parts, user)
        self.authorizer.check(
            user, Action(http.method.lower() if http.method != "HEAD" else "get", path=path)
        )
        return await self._other(http, path, tuple(parts))

    async def _resource(self, http: web.BaseRequest, parts: list[str], user: User) -> web.StreamResponse:
        target = routes.parse(self.catalogue, parts)
        verb = routes.verb_of(http.method, target, watch=flag(http.query, "watch"))
        agent = http.headers.get("User-Agent", "")
        self.counts.note(agent, verb, target)
        resource, name = target.resource, target.name
        if verb in ("list", "watch"):  # a role may allow those of single objects
            name = name or exact_name(http.query.get("fieldSelector", ""))
        try:
            self.authorizer.check(
                user,
                Action(verb, resource.group, resource.plural, target.subresource, target.namespace, name),
            )
        except ApiFailure:
            self.counts.note_forbidden(agent, verb, target)
            raise
        later = await self.faults.before(verb, target, agent)
        if resource.group in reviews.GROUPS:
            return self._reviews.create(target, await read_object(http), user)
        response = await self._rest.answer(http, target, verb, user)
        if later is not None:
            await self.faults.carry_out(later)
        return response

    async def _other(self, http: web.BaseRequest, path: str, parts: tuple[str, ...]) -> web.StreamResponse:
        if path.rstrip("/") in _PROBES or parts[0] in ("livez", "readyz", "healthz"):
            return web.Response(text="ok")
        if parts[0] in ("api", "apis"):
            aggregated = "as=APIGroupDiscoveryList" in http.headers.get("Accept", "")
            document = self._discovery.document(parts, aggregated=aggregated)
            if document is None:
                raise NothingServed
            response = answer(document)
            if aggregated and len(parts) == 1:
                response.headers["Content-Type"] = AGGREGATED
            return response
        if path == "/version" or path == "/version/":
            return answer(VERSION)
        if path == "/openapi/v2":
            return web.Response(body=V2_DOCUMENT, content_type=V2_MEDIA_TYPE)
        if path == "/openapi/v3":
            return answer(self._openapi.index())
        if path.startswith("/openapi/v3/"):
            return answer(self._openapi.document(path.removeprefix("/openapi/v3/")))
        if path == FAULTS_PATH:
            return self.faults.answer(http.method, await read_bytes(http))
        if path == REQUESTS_PATH:
            if http.method == "DELETE":
                self.counts.reset()
            return answer({"requests": self.counts.report(), "watches": self.hubs.counts()})
        raise NothingServed


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: Any,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=BODY_LIMIT
    )
