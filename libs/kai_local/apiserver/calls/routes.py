"""Paths of the API: which resource, object and subresource they name."""

from kai_local.apiserver.calls.requests import Target
from kai_local.apiserver.errors import NothingServed, no_such_path
from kai_local.apiserver.kinds.catalogue import Catalogue, Resource, Version

_NAMESPACE_PARTS = frozenset({"status", "finalize"})


def parse(catalogue: Catalogue, parts: list[str]) -> Target:
    """The target of a resource path, given its segments from ``api`` or ``apis`` on.

    Raises:
        ApiFailure: (404) nothing is served there; ``NothingServed`` where not even the version of a group is.
    """
    if parts[0] == "api":
        group, rest = "", parts[1:]
    else:
        group, rest = parts[1], parts[2:]
    version, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_PARTS):
        namespace, rest = rest[1], rest[2:]
    resource, served = _lookup(catalogue, group, version, rest[0])
    if (namespace and not resource.namespaced) or len(rest) > 3:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    return Target(resource, served, namespace, name, subresource)


def _lookup(catalogue: Catalogue, group: str, version: str, plural: str) -> tuple[Resource, Version]:
    resource = catalogue.get(group, plural)
    served = resource.versions.get(version) if resource is not None else None
    if resource is None or served is None or not served.served:
        raise no_such_path() if catalogue.serves(group, version) else NothingServed()
    return resource, served


def verb_of(method: str, target: Target, *, watch: bool) -> str:
    """The API verb of a request: ``get``, ``list``, ``watch``, ``create`` …"""
    if method == "GET" or method == "HEAD":
        if watch:
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())
