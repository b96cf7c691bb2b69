"""Admission webhooks: which are concerned, calling them over HTTPS, and what their answers mean."""

import asyncio
import base64
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import aiohttp
import msgspec

from kai.kube.connections import NewestFirst
from kai_local.apiserver.admission import matching
from kai_local.apiserver.calls.requests import Target, WriteOptions
from kai_local.apiserver.errors import ApiFailure, Obj
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.patches import patch
from kai_local.apiserver.schemas import cel
from kai_local.apiserver.store.storage import Change, Store

MUTATING: Final = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
VALIDATING: Final = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
_SERVICES: Final = ("", "services")
_ENDPOINTS: Final = ("", "endpoints")
_SLICES: Final = ("discovery.k8s.io", "endpointslices")


class _Response(TypedDict, total=False):
    """What a webhook says of a request; where it says it otherwise, it has failed."""

    allowed: bool
    patch: str | None
    status: dict[str, Any] | None
    warnings: list[str] | None


class _Review(TypedDict):
    """What a webhook answers."""

    response: _Response


@dataclass(slots=True, eq=False)
class Webhook:
    """One webhook of a stored configuration."""

    spec: Obj
    mutating: bool
    match: matching.Match
    context: ssl.SSLContext | bool

    @property
    def name(self) -> str:
        """The name that refusals show."""
        return str(self.spec["name"])


class WebhookCaller:
    """Calls the webhooks of the stored configurations.

    ``egress``: ``host:port`` of a proxy that leads to Services which have no endpoints here; empty for none.
    """

    def __init__(self, store: Store, *, egress: str = "") -> None:
        self._store = store
        self._egress = egress
        self._session: aiohttp.ClientSession | None = None
        self._webhooks: dict[tuple[str, str], list[Webhook]] = {}
        self._concerned: dict[tuple[str, Resource, str], bool] = {}
        for key in (MUTATING, VALIDATING):
            store.collection(key).listeners.append(self._reload)
        self._reload(None)

    def _reload(self, _change: Change | None) -> None:
        self._concerned.clear()
        for key in (MUTATING, VALIDATING):
            self._webhooks[key] = [
                _compile(spec, mutating=key == MUTATING)
                for record in self._store.collection(key).records()
                for spec in record.obj.get("webhooks", ())
            ]

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def concern(self, operation: str, target: Target) -> bool:
        """Whether any webhook has a rule for the request."""
        key = (operation, target.resource, target.subresource)
        found = self._concerned.get(key)
        if found is None:
            found = self._concerned[key] = any(
                webhook.match.concerns(operation, target)
                for webhooks in self._webhooks.values()
                for webhook in webhooks
            )
        return found

    def _matching(self, key: tuple[str, str], request: Obj, target: Target) -> Iterator[Webhook]:
        for webhook in self._webhooks[key]:
            if webhook.match.concerns(request["operation"], target) and self._selected(
                webhook, request, target
            ):
                yield webhook

    def _selected(self, webhook: Webhook, request: Obj, target: Target) -> bool:
        labels = matching.namespace_labels(self._store, target, request)
        return webhook.match.selects(request, target, labels) and self._conditions_hold(webhook, request)

    def _conditions_hold(self, webhook: Webhook, request: Obj) -> bool:
        for condition in webhook.spec.get("matchConditions", ()):
            values = {
                "object": request.get("object"),
                "oldObject": request.get("oldObject"),
                "request": request,
            }
            try:
                if not cel.evaluate(condition["expression"], **values):
                    return False
            except cel.CelError as error:
                if webhook.spec.get("failurePolicy", "Fail") == "Ignore":
                    return False
                raise _failed(webhook, f"match condition {condition['name']!r} failed: {error}") from error
        return True

    async def mutate(
        self, operation: str, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> Obj | None:
        """The object after all mutating webhooks; those that ask for it run again when a later one changed
        it.
        """
        if not self._webhooks[MUTATING]:
            return obj
        request = matching.admission_request(operation, target, obj, old, options)
        changed_after: list[Webhook] = []
        for webhook in list(self._matching(MUTATING, request, target)):
            if await self._mutate_once(webhook, request, options):
                again = [item for item in changed_after if item.spec.get("reinvocationPolicy") == "IfNeeded"]
                for other in again:
                    await self._mutate_once(other, request, options)
            changed_after.append(webhook)
        current: Obj | None = request["object"]
        if current is obj or current == obj:
            return obj
        return current

    async def _mutate_once(self, webhook: Webhook, request: Obj, options: WriteOptions) -> bool:
        response = await self._call(webhook, request, options)
        encoded = (response or {}).get("patch")
        if not encoded:
            return False
        operations = msgspec.json.decode(base64.b64decode(encoded))
        if not operations:
            return False
        try:
            request["object"] = patch.json_patch(request["object"], operations)
        except ApiFailure as failure:
            raise _failed(webhook, f"cannot apply its patch: {failure.message}") from failure
        return True

    async def validate(
        self, operation: str, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> None:
        """Ask all validating webhooks, at once. Raises the first refusal."""
        if not self._webhooks[VALIDATING]:
            return
        request = matching.admission_request(operation, target, obj, old, options)
        calls = [
            self._call(webhook, request, options) for webhook in self._matching(VALIDATING, request, target)
        ]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _call(self, webhook: Webhook, request: Obj, options: WriteOptions) -> _Response | None:
        """The webhook's response, None where it failed and may be ignored.

        Raises ApiFailure when it refuses.
        """
        if options.dry_run and webhook.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise _failed(webhook, "it has side effects, so it does not support dry run")
        try:
            response = await self._post(webhook, {**request, "uid": str(uuid.uuid4())})
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, LookupError) as error:
            if webhook.spec.get("failurePolicy", "Fail") == "Ignore":
                return None
            raise _failed(webhook, str(error) or type(error).__name__) from error
        options.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(webhook, response.get("status") or {})
        return response

    async def _post(self, webhook: Webhook, request: Obj) -> _Response:
        url, server_name, proxy = self._address(webhook.spec["clientConfig"])
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=NewestFirst(keepalive_timeout=60, limit=64))
        seconds = webhook.spec.get("timeoutSeconds", 10)
        async with self._session.post(
            url,
            params={"timeout": f"{seconds}s"},
            data=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            ssl=webhook.context,
            server_hostname=server_name,
            proxy=proxy,
            timeout=aiohttp.ClientTimeout(total=seconds),
        ) as answer:
            data = await answer.read()
            if answer.status != 200:
                raise LookupError(
                    f"the server answered {answer.status}: {data[:200].decode(errors='replace')}"
                )
        return msgspec.json.decode(data, type=_Review)["response"]

    def _address(self, client: Obj) -> tuple[str, str | None, str | None]:
        """Where to call, the name that the certificate must bear, and the proxy that leads there."""
        if "url" in client:
            return client["url"], None, None
        service = client["service"]
        namespace, name, path = service["namespace"], service["name"], service.get("path", "").lstrip("/")
        port, called = service.get("port", 443), f"{name}.{namespace}.svc"
        try:
            host, port = self._endpoint(namespace, name, port)
        except LookupError:
            if not self._egress:
                raise
            return f"https://{called}:{port}/{path}", None, f"http://{self._egress}"
        return f"https://{host}:{port}/{path}", called, None

    def _endpoint(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """A service stands for another name, or is found by its endpoints."""
        found = self._store.collection(_SERVICES).get(namespace, name)
        if found is not None and dig(found.obj, "spec", "type") == "ExternalName":
            return found.obj["spec"]["externalName"], port
        for record in self._store.collection(_SLICES).records(namespace):
            if dig(record.obj, "metadata", "labels", "kubernetes.io/service-name") == name:
                for endpoint in record.obj.get("endpoints") or ():
                    if endpoint.get("addresses") and dig(endpoint, "conditions", "ready") is not False:
                        return endpoint["addresses"][0], record.obj["ports"][0]["port"]
        endpoints = self._store.collection(_ENDPOINTS).get(namespace, name)
        for subset in endpoints.obj.get("subsets", ()) if endpoints is not None else ():
            if subset.get("addresses") and subset.get("ports"):
                return subset["addresses"][0]["ip"], subset["ports"][0]["port"]
        raise LookupError(f'no endpoints available for service "{name}" in namespace "{namespace}"')


def _compile(spec: Obj, *, mutating: bool) -> Webhook:
    bundle = spec.get("clientConfig", {}).get("caBundle")
    context: ssl.SSLContext | bool = True
    if bundle:
        try:
            context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        except (ValueError, ssl.SSLError):
            context = True  # calls fail, and say why
    return Webhook(spec, mutating, matching.of_webhook(spec), context)


def _failed(webhook: Webhook, why: str) -> ApiFailure:
    message = (
        f'Internal error occurred: failed calling webhook "{webhook.name}": failed to call webhook: {why}'
    )
    cause = {"message": f'failed calling webhook "{webhook.name}": failed to call webhook: {why}'}
    return ApiFailure(500, "InternalError", message, details={"causes": [cause]})


def _denied(webhook: Webhook, status: Obj) -> ApiFailure:
    message = f'admission webhook "{webhook.name}" denied the request'
    reason, text = status.get("reason") or "", status.get("message") or ""
    message += f": {text or reason}" if text or reason else " without explanation"
    code = status.get("code") or 403
    return ApiFailure(
        max(code, 400),
        reason or ("Forbidden" if code == 403 else "BadRequest"),
        message,
        details=status.get("details"),
    )
