"""OpenAPI v3: what ``kubectl explain`` shows, and how clients learn that the server validates fields."""

import hashlib
from typing import Any, Final

import msgspec

from kai_local.apiserver.errors import Obj, no_such_path
from kai_local.apiserver.kinds.catalogue import Catalogue, Resource
from kai_local.apiserver.schemas import schema

_REF: Final = "#/$defs/"
_NEW_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUERY_STRINGS: Final = ("dryRun", "fieldManager", "fieldValidation")


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


V2_MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# an OpenAPI v2 document (swagger, info, paths) without models: old clients ask for it, and then validate
# nothing
V2_DOCUMENT: Final = (
    _field(1, b"2.0") + _field(2, _field(1, b"Kubernetes") + _field(2, b"v1.34.0")) + _field(8, b"")
)


class OpenApi:
    """One document for each group and version, made when asked for."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def index(self) -> Obj:
        """Where the documents are."""
        paths = {}
        for resource in self._catalogue:
            for version in resource.versions.values():
                if version.served:
                    prefix = _prefix(resource, version.name)
                    digest = hashlib.sha256(f"{prefix}{self._catalogue.generation}".encode()).hexdigest()[:32]
                    paths[prefix] = {"serverRelativeURL": f"/openapi/v3/{prefix}?hash={digest.upper()}"}
        return {"paths": paths}

    def document(self, prefix: str) -> bytes:
        """The document of ``api/v1`` or ``apis/<group>/<version>``. Raises ApiFailure (404)."""
        if self._generation != self._catalogue.generation:
            self._documents.clear()
            self._generation = self._catalogue.generation
        if prefix not in self._documents:
            self._documents[prefix] = msgspec.json.encode(self._make(prefix))
        return self._documents[prefix]

    def _make(self, prefix: str) -> Obj:
        paths: Obj = {}
        schemas: Obj = {}
        for resource in self._catalogue:
            for version in resource.versions.values():
                if _prefix(resource, version.name) != prefix:
                    continue
                name = _schema_name(resource, version.name)
                if resource.custom:
                    schemas[name] = _custom(resource, version.name, version.schema or {})
                    _collect(_META, schemas)
                else:
                    _collect(name, schemas)
                paths.update(_paths(prefix, resource, version.name, name))
        if not paths:
            raise no_such_path()
        info = {"title": "Kubernetes", "version": "v1.34.0"}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _prefix(resource: Resource, version: str) -> str:
    return f"apis/{resource.group}/{version}" if resource.group else f"api/{version}"


def _schema_name(resource: Resource, version: str) -> str:
    if resource.custom:
        return ".".join([*reversed(resource.group.split(".")), version, resource.kind])
    return schema.definition_names()[resource.group, version, resource.kind]


def _gvk(resource: Resource, version: str) -> Obj:
    return {"group": resource.group, "kind": resource.kind, "version": version}


def _custom(resource: Resource, version: str, source: Obj) -> Obj:
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **source.get("properties", {}),
        "metadata": {"$ref": _NEW_REF + _META},
    }
    return {
        **source,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(resource, version)],
    }


def _collect(name: str, schemas: Obj) -> None:
    """Put a built-in definition and all that it refers to among the schemas."""
    if name in schemas:
        return
    source = schema.definitions()[name]
    schemas[name] = {}
    schemas[name] = _translate(source, schemas)


def _translate(value: Any, schemas: Obj) -> Any:
    if isinstance(value, list):
        return [_translate(item, schemas) for item in value]
    if not isinstance(value, dict):
        return value
    translated: Obj = {}
    for key, member in value.items():
        if key == "$ref" and isinstance(member, str):
            name = member.removeprefix(_REF)
            _collect(name, schemas)
            translated[key] = _NEW_REF + name
        elif key == "type" and isinstance(member, list):
            translated[key] = next(item for item in member if item != "null")
        else:
            translated[key] = _translate(member, schemas)
    if isinstance(translated.get("$ref"), str) and len(translated) > 1:
        reference = translated.pop("$ref")
        translated["allOf"] = [{"$ref": reference}]
    return translated


def _paths(prefix: str, resource: Resource, version: str, name: str) -> Obj:
    base = (
        f"/{prefix}/namespaces/{{namespace}}/{resource.plural}"
        if resource.namespaced
        else f"/{prefix}/{resource.plural}"
    )
    parameters = [
        {"name": query, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for query in _QUERY_STRINGS
    ]
    content = {"application/json": {"schema": {"$ref": _NEW_REF + name}}}
    answer = {"200": {"description": "OK", "content": content}}

    def operation(action: str, *, body: bool) -> Obj:
        made: Obj = {
            "parameters": parameters if body else [],
            "responses": answer,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource, version),
        }
        if body:
            made["requestBody"] = {"content": content}
        return made

    paths: Obj = {base: {"get": operation("list", body=False), "post": operation("post", body=True)}}
    if "get" in resource.verbs:
        paths[base + "/{name}"] = {
            "get": operation("get", body=False),
            "put": operation("put", body=True),
            "patch": operation("patch", body=True),
            "delete": operation("delete", body=False),
        }
    return paths
