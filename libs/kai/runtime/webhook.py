"""An HTTPS server for admission webhooks (AdmissionReview, admission.k8s.io/v1).

A handler gets the request and answers whether it is allowed, with warnings and, if it mutates, the
JSON patch. Certificates are files, read again when they change; where they do not exist yet the
server waits for them and is not ready.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kai.kube.connections import keep_buffers_small
from kai.runtime.health import Health, listen_on, split_address
from kai.tls import CertificateFiles, keep_loaded, server_context, until_loaded

Json = dict[str, Any]

#: etcd takes 1.5 MiB; a review may carry an object twice.
MAX_BODY_BYTES = 8 * 2**20
#: How reviews end.
_RESULTS: Final = ("allowed", "denied", "error", "malformed")
#: Seconds: most answers take less than the first.
_LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_log = structlog.get_logger(__name__)


class GroupVersionKind(msgspec.Struct):
    """A kind in an API version."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(msgspec.Struct):
    """Who asks."""

    username: str = ""
    groups: list[str] | None = None


class AdmissionRequest(msgspec.Struct, rename="camel"):
    """What somebody wants to do. ``object`` is None for a deletion, ``old_object`` for a creation."""

    uid: str
    operation: str
    kind: GroupVersionKind = msgspec.field(default_factory=GroupVersionKind)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    object: Json | None = None
    old_object: Json | None = None
    dry_run: bool | None = None

    @property
    def keeps_spec(self) -> bool:
        """Whether it changes other things than the ``spec`` that is stored: finalizers, labels, annotations.

        What older releases let be written is no reason to refuse these, nor may it keep an object from going.
        """
        old, new = self.old_object, self.object
        return old is not None and new is not None and new.get("spec") == old.get("spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResponse:
    """Our answer. ``patch`` is a list of JSON patch operations; empty changes nothing."""

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    warnings: tuple[str, ...] = ()
    patch: list[Json] = field(default_factory=list)


#: May be a coroutine function, too.
Handler = Callable[[AdmissionRequest], AdmissionResponse | Awaitable[AdmissionResponse]]


class _Review(msgspec.Struct, rename="camel"):
    request: AdmissionRequest
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


_REVIEW = msgspec.json.Decoder(_Review)


class WebhookServer:
    """Serves ``handlers`` by path. Give :meth:`run` to a task group."""

    def __init__(
        self,
        handlers: dict[str, Handler],
        *,
        listen: str,
        certificates: CertificateFiles,
        health: Health | None = None,
        registry: CollectorRegistry | None = None,
        flag: str = "--webhook-listen",
    ) -> None:
        self.started = asyncio.Event()
        #: ``(host, port)`` that was bound, once started.
        self.address = ("", 0)
        self._handlers = handlers
        self._listen = listen
        self._certificates = certificates
        self._flag = flag
        metrics = registry or CollectorRegistry()
        self._reviews = Counter(
            "kai_webhook_reviews", "Admission reviews", ("path", "result"), registry=metrics
        )
        self._requests = Counter(
            "controller_runtime_webhook_requests",
            "Requests to a webhook by HTTP code",
            ("webhook", "code"),
            registry=metrics,
        )
        self._in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Requests that a webhook is at",
            ("webhook",),
            registry=metrics,
        )
        self._duration = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time to answer an admission review",
            ("webhook",),
            buckets=_LATENCY_BUCKETS,
            registry=metrics,
        )
        for path in handlers:
            for result in _RESULTS:  # a rate of what begins with its first case does not know that one
                self._reviews.labels(path, result)
        if health is not None:
            health.add("webhook", lambda: self.started.is_set() or "waiting for its certificate")

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ListenError: the address cannot be bound.
        """
        keep_buffers_small()
        context = server_context()
        loaded = await until_loaded(context, self._certificates, who="webhook")
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for path in self._handlers:
            app.router.add_post(path, self._answer)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5.0)
        await runner.setup()
        try:
            host, port = split_address(self._listen)
            self.address = await listen_on(runner, host, port, flag=self._flag, ssl_context=context)
            self.started.set()
            _log.info(
                "webhook serves", address=f"{self.address[0]}:{self.address[1]}", paths=list(self._handlers)
            )
            await keep_loaded(context, self._certificates, loaded)
        finally:
            await runner.cleanup()

    async def _answer(self, http: web.Request) -> web.Response:
        try:
            body = await http.read()
        except web.RequestPayloadError as error:
            return web.Response(status=400, text=f"the body is not what its headers say: {error}")
        return await self.answer(http.path, body)

    async def answer(self, path: str, body: bytes) -> web.Response:
        """What is answered to a request for ``path`` with this body."""
        with self._in_flight.labels(path).track_inprogress():
            response = await self._review(path, body)
        self._requests.labels(path, str(response.status)).inc()
        return response

    async def _review(self, path: str, body: bytes) -> web.Response:
        try:
            request = _REVIEW.decode(body).request
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            self._reviews.labels(path, "malformed").inc()
            return web.Response(status=400, text=f"not an AdmissionReview: {error}")
        with self._duration.labels(path).time():
            try:
                answer = self._handlers[path](request)
                response = answer if isinstance(answer, AdmissionResponse) else await answer
            except Exception:  # noqa: BLE001 (the API server decides by its failure policy)
                _log.exception("webhook failed", path=path, name=request.name, namespace=request.namespace)
                self._reviews.labels(path, "error").inc()
                return web.Response(status=500, text="internal error; see the log of the webhook")
        self._reviews.labels(path, "allowed" if response.allowed else "denied").inc()
        return web.Response(body=encode_review(request, response), content_type="application/json")


def encode_review(request: AdmissionRequest, response: AdmissionResponse) -> bytes:
    """The AdmissionReview that answers ``request``."""
    said: Json = {"uid": request.uid, "allowed": response.allowed}
    if not response.allowed:
        said["status"] = {"code": response.code, "reason": response.reason, "message": response.message}
    if response.warnings:
        said["warnings"] = list(response.warnings)
    if response.allowed and response.patch:
        said["patchType"] = "JSONPatch"
        said["patch"] = base64.b64encode(msgspec.json.encode(response.patch)).decode()
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said}
    return msgspec.json.encode(review)
