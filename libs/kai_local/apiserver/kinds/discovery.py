"""Discovery documents: which groups, versions and resources there are, in both forms that clients ask for."""

import re
from functools import cmp_to_key
from typing import Any, Final

import msgspec

from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds.catalogue import Catalogue, Resource

VERSION: Final[Obj] = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    "gitVersion": "v1.34.0+kai-local",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERSION_NAME: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?\Z")
#: what a subresource takes or gives when it is not the object itself: group, version, kind
SUBRESOURCE_KINDS: Final = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_SUBRESOURCE_VERBS: Final = {
    "status": ["get", "patch", "update"],
    "ephemeralcontainers": ["get", "patch", "update"],
    "scale": ["get", "patch", "update"],
    "binding": ["create"],
    "eviction": ["create"],
    "token": ["create"],
    "log": ["get"],
    "finalize": ["update"],
}


def version_order(left: str, right: str) -> int:
    """Kubernetes' order of versions, most stable and newest first."""

    def rank(name: str) -> tuple[int, int, int]:
        match = _VERSION_NAME.match(name)
        if match is None:
            return 0, 0, 0
        stability = {None: 3, "beta": 2, "alpha": 1}[match[2]]
        return stability, int(match[1]), int(match[3] or 0)

    a, b = rank(left), rank(right)
    return (a < b) - (a > b) or (left > right) - (left < right)


class Discovery:
    """The documents, made anew when the catalogue has changed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._made: dict[tuple[str, ...], bytes] = {}
        self._generation = -1

    def document(self, parts: tuple[str, ...], *, aggregated: bool) -> bytes | None:
        """The document at ``/api``, ``/apis``, ``/apis/<group>`` or ``…/<version>``;

        None where there is none.
        """
        if self._generation != self._catalogue.generation:
            self._made.clear()
            self._generation = self._catalogue.generation
        key = (*parts, "aggregated") if aggregated and len(parts) == 1 else parts
        if key not in self._made:
            made = self._make(parts, aggregated=key != parts)
            if made is None:
                return None
            self._made[key] = msgspec.json.encode(made)
        return self._made[key]

    def _make(self, parts: tuple[str, ...], *, aggregated: bool) -> Obj | None:
        core = parts[0] == "api"
        if aggregated:
            groups = [""] if core else self._groups()
            return {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": [self._aggregated_group(group) for group in groups],
            }
        match parts:
            case ("api",):
                return {"kind": "APIVersions", "versions": ["v1"]}
            case ("apis",):
                listed = [self._group(group) for group in self._groups()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
            case ("api", version):
                return self._resource_list("", version)
            case ("apis", group):
                return (
                    {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
                    if group in self._groups()
                    else None
                )
            case ("apis", group, version):
                return self._resource_list(group, version)
        return None

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(resource.group for resource in self._catalogue if resource.group))

    def _versions(self, group: str) -> list[str]:
        names = {
            version.name
            for resource in self._catalogue
            if resource.group == group
            for version in resource.versions.values()
            if version.served
        }
        return sorted(names, key=cmp_to_key(version_order))

    def _group(self, group: str) -> Obj:
        versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in self._versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, group: str, version: str) -> list[Resource]:
        return [
            resource
            for resource in self._catalogue
            if resource.group == group and version in resource.versions and resource.versions[version].served
        ]

    def _resource_list(self, group: str, version: str) -> Obj | None:
        resources = self._resources(group, version)
        if not resources:
            return None
        listed: list[Obj] = []
        for resource in resources:
            listed.append(_resource_entry(resource))
            for name in sorted(resource.subresources):
                other_group, other_version, kind = SUBRESOURCE_KINDS.get(name, ("", "", resource.kind))
                entry: Obj = {
                    "name": f"{resource.plural}/{name}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": kind,
                    "verbs": _SUBRESOURCE_VERBS.get(name, ["create", "get"]),
                }
                if other_version and (other_group, other_version) != (group, version):
                    entry.update(group=other_group, version=other_version)
                listed.append(entry)
        group_version = f"{group}/{version}" if group else version
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": listed,
        }

    def _aggregated_group(self, group: str) -> Obj:
        versions = [
            {
                "version": version,
                "resources": [
                    _aggregated_entry(resource, version) for resource in self._resources(group, version)
                ],
                "freshness": "Current",
            }
            for version in self._versions(group)
        ]
        metadata: Obj = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
        return {"metadata": metadata, "versions": versions}


def _resource_entry(resource: Resource) -> Obj:
    entry: Obj = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _aggregated_entry(resource: Resource, version: str) -> Obj:
    def kind_of(group: str, version: str, kind: str) -> Obj:
        return {"group": group, "version": version, "kind": kind}

    own = kind_of(resource.group, version, resource.kind)
    entry: Obj = {
        "resource": resource.plural,
        "responseKind": own,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources: list[Any] = [
        {
            "subresource": name,
            "responseKind": kind_of(*SUBRESOURCE_KINDS[name]) if name in SUBRESOURCE_KINDS else own,
            "verbs": _SUBRESOURCE_VERBS.get(name, ["create", "get"]),
        }
        for name in sorted(resource.subresources)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry
