"""Subresources that are not the object itself: binding, eviction, scale, tokens, finalize; and those we
refuse.
"""

from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from kai.model import merge_patch
from kai.model.rules.phases import has_ended
from kai_local.apiserver.access.authn import Authenticator, service_account
from kai_local.apiserver.calls import delete_options
from kai_local.apiserver.calls.bodies import answer, in_shape, parse_json, parse_yaml, read_bytes, read_object
from kai_local.apiserver.calls.requests import Target, User, WriteOptions
from kai_local.apiserver.errors import (
    ApiFailure,
    Obj,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    method_not_allowed,
    required,
)
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.patches import apply, patch
from kai_local.apiserver.reading import jsonpath
from kai_local.apiserver.reading.pod_printer import selector_text
from kai_local.apiserver.schemas import schema
from kai_local.apiserver.serving.kubelets import Kubelets
from kai_local.apiserver.store.storage import Record
from kai_local.apiserver.writing.disruption import count_eviction
from kai_local.apiserver.writing.registry import Registry
from kai_local.parts.disruptions import disruption

_SUCCESS: Final[Obj] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
_NO_CONTAINERS: Final = (
    "the embedded cluster runs no containers: there is nothing to {} (pods here are simulated)"
)
_NEEDS_CONTAINERS: Final = {
    "log": "read a log from",
    "exec": "run a command in",
    "attach": "attach to",
    "portforward": "forward a port to",
}


class Subresources:
    """Answers requests about subresources."""

    def __init__(
        self,
        registry: Registry,
        authenticator: Authenticator,
        pods: Resource,
        kubelets: Kubelets | None = None,
    ) -> None:
        self._registry = registry
        self._kubelets = kubelets
        self._pods = pods
        self._authenticator = authenticator

    async def answer(
        self, http: web.BaseRequest, target: Target, verb: str, options: WriteOptions
    ) -> web.StreamResponse:
        """Answer one request. Raises ApiFailure."""
        match target.subresource, verb:
            case "binding", "create":
                return await self.bind(await read_object(http), target, options)
            case "eviction", "create":
                return await self._evict(await read_object(http), target, options)
            case "scale", "get":
                return answer(self._scale(target, self._registry.find(target)))
            case "scale", "update" | "patch":
                return await self._rescale(http, target, verb, options)
            case "token", "create":
                return self._token(await read_object(http), target)
            case "finalize", "update":
                return await self._finalize(await read_object(http), target, options)
        if target.subresource in _NEEDS_CONTAINERS:
            pod = self._registry.find(target).obj
            if self._kubelets is not None and self._kubelets.knows(pod):
                return await self._kubelets.pass_on(http, pod, target.subresource)
            message = _NO_CONTAINERS.format(_NEEDS_CONTAINERS[target.subresource])
            raise ApiFailure(501, "NotImplemented", message)
        raise method_not_allowed(
            verb, f"{target.resource.plural}/{target.subresource}", target.resource.group
        )

    # --- pods/binding -------------------------------------------------------------------------------

    async def bind(self, body: Any, target: Target, options: WriteOptions) -> web.Response:
        """Put a pod on a node, from ``pods/<name>/binding`` or from ``bindings`` with the name in the
        body.
        """
        body = in_shape(body, schema.builtin("", "v1", "Binding"), "Binding")
        node = dig(body, "target", "name")
        if target.resource.kind == "Binding":
            pods = self._pods
            target = Target(
                pods, pods.versions["v1"], target.namespace, dig(body, "metadata", "name") or "", "binding"
            )
        if not node:
            raise invalid("Binding", "", target.name, [required("target.name")])
        if dig(body, "target", "kind") not in (None, "", "Node"):
            raise invalid(
                "Binding",
                "",
                target.name,
                [invalid_value("target.kind", body["target"]["kind"], "must be Node")],
            )
        if self._registry.dynamic.concern("CREATE", target):
            body = await self._admitted("Binding", "v1", body, target, options)
            node = dig(body, "target", "name")
        metadata = body.get("metadata") or {}
        stamp = self._registry.clock.stamp()

        def change(pod: Obj) -> Obj:
            self._check_bindable(pod, metadata, target)
            return _bound(pod, node, metadata, stamp)

        record = self._registry.find(target)
        obj = change(record.obj)
        if not options.dry_run:
            self._registry.store_update(target.resource, record, obj)
        return answer(_SUCCESS, 201, options.warnings)

    async def _admitted(
        self, kind: str, api_version: str, body: Any, target: Target, options: WriteOptions
    ) -> Obj:
        """What is sent to a subresource, an object of its own, as admission leaves it."""
        metadata = {**(dig(body, "metadata") or {}), "name": target.name, "namespace": target.namespace}
        sent = {**(body or {}), "kind": kind, "apiVersion": api_version, "metadata": metadata}
        changed = await self._registry.dynamic.mutate("CREATE", target, sent, None, options) or sent
        await self._registry.dynamic.validate("CREATE", target, changed, None, options)
        return changed

    def _check_bindable(self, pod: Obj, metadata: Obj, target: Target) -> None:
        own = pod["metadata"]
        uid = metadata.get("uid")
        if uid and uid != own["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own['uid']}"
            raise conflict("pods", "", target.name, why)
        version = metadata.get("resourceVersion")
        if version and version != own["resourceVersion"]:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {version}, "
                f"ResourceVersion in object meta: {own['resourceVersion']}"
            )
            raise conflict("pods", "", target.name, why)
        if "deletionTimestamp" in own:
            raise conflict(
                "pods/binding",
                "",
                target.name,
                f"pod {target.name} is being deleted, cannot be assigned to a host",
            )
        assigned = pod["spec"].get("nodeName")
        if assigned:
            raise conflict(
                "pods/binding", "", target.name, f'pod {target.name} is already assigned to node "{assigned}"'
            )
        if pod["spec"].get("schedulingGates"):
            raise conflict(
                "pods/binding", "", target.name, f"pod {target.name} has non-empty .spec.schedulingGates"
            )

    # --- pods/eviction ------------------------------------------------------------------------------

    async def _evict(self, body: Any, target: Target, options: WriteOptions) -> web.Response:
        body = in_shape(body, schema.builtin("policy", "v1", "Eviction"), "Eviction")
        if self._registry.dynamic.concern("CREATE", target):
            body = await self._admitted("Eviction", "policy/v1", body, target, options)
        record = self._registry.find(target)
        delete = delete_options.read(body.get("deleteOptions"))
        dry_run = delete.dry_run = delete.dry_run or options.dry_run
        phase = (record.obj.get("status") or {}).get("phase", "")
        going = "deletionTimestamp" in record.obj["metadata"]
        if phase != "Pending" and not has_ended(phase) and not going:
            count_eviction(self._registry, record, dry_run=dry_run)
        meant = delete.uid in (None, record.uid) and delete.resource_version in (None, str(record.version))
        if meant and not (dry_run or going or has_ended(phase)):
            marked = self._mark_disrupted(target.resource, record)
            if delete.resource_version is not None:
                delete.resource_version = str(marked.version)
        plain = Target(target.resource, target.version, target.namespace, target.name)
        await self._registry.delete(plain, delete, options, admitted=True)
        return answer(_SUCCESS, 201)

    def _mark_disrupted(self, pods: Resource, pod: Record) -> Record:
        """Say of a pod that it does not end by itself."""
        stamp = self._registry.clock.stamp()
        condition = disruption("EvictionByEvictionAPI", "Eviction API: evicting", at=stamp)
        status = pod.obj.get("status") or {}
        others = [one for one in status.get("conditions") or () if one["type"] != condition["type"]]
        told = {**status, "conditions": [*others, condition]}
        return self._registry.store_update(
            pods, pod, {**pod.obj, "metadata": dict(pod.obj["metadata"]), "status": told}
        )

    # --- scale --------------------------------------------------------------------------------------

    def _scale(self, target: Target, record: Record) -> Obj:
        paths, obj = target.resource.scale_paths, record.obj
        replicas = jsonpath.compile_path(paths["spec"])(obj)
        current = jsonpath.compile_path(paths["status"])(obj)
        metadata = {key: obj["metadata"][key] for key in _SCALE_METADATA if key in obj["metadata"]}
        status: Obj = {"replicas": current[0] if current else 0}
        if "selector" in paths:
            found = jsonpath.compile_path(paths["selector"])(obj)
            status["selector"] = found[0] if found else ""
        elif not target.resource.custom:
            status["selector"] = selector_text(dig(obj, "spec", "selector"))
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": {"replicas": replicas[0] if replicas else 0},
            "status": status,
        }

    async def _rescale(
        self, http: web.BaseRequest, target: Target, verb: str, options: WriteOptions
    ) -> web.Response:
        media_type = http.content_type
        if verb == "update":
            body = await read_object(http)
            if not isinstance(body, dict):
                raise bad_request("the body of an update is the scale")
        else:
            data = await read_bytes(http)
            body = parse_yaml(data) if media_type == "application/apply-patch+yaml" else parse_json(data)
            if media_type != "application/json-patch+json" and not isinstance(body, dict):
                raise bad_request("a patch of this type is a JSON object")
        keys = target.resource.scale_paths["spec"].removeprefix(".").split(".")

        def change(obj: Obj) -> Obj:
            scale = self._scale(target, Record(obj, int(obj["metadata"]["resourceVersion"])))
            if verb == "update":
                wanted = body  # all of it: of replicas nothing is said where there are to be none
            elif media_type == "application/json-patch+json":
                wanted = patch.json_patch(scale, body)
            else:
                wanted = merge_patch.merged(scale, body)
            wanted = in_shape(wanted, schema.builtin("autoscaling", "v1", "Scale"), "Scale")
            version = dig(wanted, "metadata", "resourceVersion")
            if version and version != obj["metadata"]["resourceVersion"]:
                raise conflict(
                    target.resource.plural, target.resource.group, target.name, "the object has been modified"
                )
            replicas = dig(wanted, "spec", "replicas") or 0
            if replicas < 0:
                cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
                raise invalid("Scale", "autoscaling", target.name, [cause])
            return _with(obj, keys, replicas)

        writer = apply.Writer(options.manager, "Update", target.api_version, "scale")
        record = await self._registry.update(target, change, options, retry=True, writer=writer)
        return answer(self._scale(target, record))

    # --- others -------------------------------------------------------------------------------------

    def _token(self, body: Any, target: Target) -> web.Response:
        body = in_shape(body, schema.builtin("authentication.k8s.io", "v1", "TokenRequest"), "TokenRequest")
        record = self._registry.find(target)
        user = service_account(record.namespace, record.name, record.uid)
        user = self._bound_user(user, target, dig(body, "spec", "boundObjectRef"))
        seconds = dig(body, "spec", "expirationSeconds") or 3600
        request = {**body}
        request.update(kind="TokenRequest", apiVersion="authentication.k8s.io/v1")
        request["metadata"] = {"name": record.name, "namespace": record.namespace, "creationTimestamp": None}
        request["status"] = {
            "token": self._authenticator.issue(user),
            "expirationTimestamp": self._registry.clock.stamp(seconds),
        }
        return answer(request, 201)

    def _bound_user(self, user: User, target: Target, reference: Obj | None) -> User:
        """The user of a token that is bound to a pod: it says which. Other bounds end nothing here."""
        if not reference or reference.get("kind") != "Pod":
            return user
        name, uid = reference.get("name", ""), reference.get("uid", "")
        pod = self._registry.find(Target(self._pods, self._pods.versions["v1"], target.namespace, name))
        if uid and uid != pod.uid:
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record ({pod.uid})"
            )
            raise conflict("pods", "", name, why)
        if pod.obj["spec"].get("serviceAccountName") != target.name:
            why = f"cannot bind token for serviceaccount {target.name!r} to pod running with serviceaccount "
            raise bad_request(f"{why}{pod.obj['spec'].get('serviceAccountName')!r}")
        bound = {"pod-name": pod.name, "pod-uid": pod.uid, "node-name": pod.obj["spec"].get("nodeName")}
        extra = {f"authentication.kubernetes.io/{key}": (value,) for key, value in bound.items() if value}
        return replace(user, extra=extra)

    async def _finalize(self, body: Any, target: Target, options: WriteOptions) -> web.Response:
        if body is None:
            raise bad_request("the body is the namespace with its spec.finalizers")
        body = in_shape(body, schema.builtin("", "v1", "Namespace"), "Namespace")
        finalizers = dig(body, "spec", "finalizers") or []

        def change(namespace: Obj) -> Obj:
            return {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": finalizers}}

        record = await self._registry.update(target, change, options, retry=True)
        return answer(record.raw)


_SCALE_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _with(obj: Obj, keys: list[str], value: Any) -> Obj:
    """``obj`` with ``value`` at the path."""
    head, *rest = keys
    return {**obj, head: _with(obj.get(head) or {}, rest, value) if rest else value}


def _bound(pod: Obj, node: str, metadata: Obj, stamp: str) -> Obj:
    """The pod on its node; annotations and labels of the Binding go to the pod."""
    own = dict(pod["metadata"])
    for key in ("annotations", "labels"):
        if metadata.get(key):
            own[key] = {**own.get(key, {}), **metadata[key]}
    status = dict(pod.get("status") or {})
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}
    conditions = [item for item in status.get("conditions", ()) if item["type"] != "PodScheduled"]
    status["conditions"] = [*conditions, condition]
    return {**pod, "metadata": own, "spec": {**pod["spec"], "nodeName": node}, "status": status}
