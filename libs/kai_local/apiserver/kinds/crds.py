"""CustomResourceDefinitions: checked, served from the moment they are stored, gone when they are deleted."""

from typing import Final
from urllib.parse import urlsplit

from kai_local.apiserver.clock import Clock
from kai_local.apiserver.errors import Cause, Obj, invalid_value, required, unsupported
from kai_local.apiserver.kinds.catalogue import Catalogue, Resource, Version, dig
from kai_local.apiserver.schemas import schema
from kai_local.apiserver.store.storage import Change

KEY: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
#: in the order in which they are told
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")
_APPROVED: Final = "api-approved.kubernetes.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


def check(obj: Obj, old: Obj | None) -> list[Cause]:
    """What is wrong with a definition."""
    spec = obj["spec"]
    causes = []
    plural, group = dig(spec, "names", "plural") or "", spec.get("group", "")
    if obj["metadata"]["name"] != f"{plural}.{group}":
        causes.append(
            invalid_value(
                "metadata.name", obj["metadata"]["name"], 'must be spec.names.plural+"."+spec.group'
            )
        )
    versions = spec.get("versions", ())
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.append(
            invalid_value(
                "spec.versions",
                [v.get("name") for v in versions],
                "must have exactly one version marked as storage version",
            )
        )
    for index, version in enumerate(versions):
        if dig(version, "schema", "openAPIV3Schema") is None:
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required"))
    causes += _approval(obj, old)
    strategy = dig(spec, "conversion", "strategy")
    if strategy != "None":
        causes.append(unsupported("spec.conversion.strategy", strategy, ["None"]))
    if old is not None:
        causes += [
            invalid_value(f"spec.{field}", spec.get(field), "field is immutable")
            for field in ("group", "scope")
            if spec.get(field) != old["spec"].get(field)
        ]
    return causes


def _approval(obj: Obj, old: Obj | None) -> list[Cause]:
    """Groups of Kubernetes' community want a word of approval; what is stored without one may stay so."""
    group = obj["spec"].get("group", "")
    if not f".{group}".endswith(_PROTECTED):
        return []
    said = (obj["metadata"].get("annotations") or {}).get(_APPROVED, "")
    if old is not None and said == (old["metadata"].get("annotations") or {}).get(_APPROVED, ""):
        return []
    field, must = f"metadata.annotations[{_APPROVED}]", "protected groups must have approval annotation"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not said:
        return [required(field, f'{must} "{_APPROVED}", {see}')]
    where = urlsplit(said)
    if said.startswith("unapproved") or (where.scheme and where.netloc):
        return []
    reason = f'with either a URL or a reason starting with "unapproved", {see}'
    return [invalid_value(field, said, f'{must} "{_APPROVED}" {reason}')]


class Definitions:
    """Keeps the catalogue as the stored definitions say."""

    def __init__(self, catalogue: Catalogue, clock: Clock) -> None:
        self._catalogue = catalogue
        self._clock = clock

    def establish(self, obj: Obj, old: Obj | None) -> Obj:
        """The definition with the status of one that is served."""
        names = obj["spec"]["names"]
        stamp = self._clock.stamp()
        status = dict(obj.get("status") or {})
        status["acceptedNames"] = names
        stored = [version["name"] for version in obj["spec"]["versions"] if version.get("storage")]
        status["storedVersions"] = list(dict.fromkeys([*status.get("storedVersions", ()), *stored]))
        if old is None or not status.get("conditions"):
            status["conditions"] = [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", stamp),
                _condition(
                    "Established", "InitialNamesAccepted", "the initial names have been accepted", stamp
                ),
            ]
        metadata = obj["metadata"]
        if old is None:
            metadata = {**metadata, "finalizers": [*metadata.get("finalizers", ()), CLEANUP]}
        return {**obj, "metadata": metadata, "status": status}

    def follow(self, change: Change) -> None:
        """Serve what a stored definition says."""
        spec = change.record.obj["spec"]
        if change.kind == "DELETED":
            self._catalogue.remove(spec["group"], spec["names"]["plural"])
        elif change.previous is None or change.previous.obj["spec"] is not spec:
            self._catalogue.add(resource_of(change.record.obj))


def _condition(kind: str, reason: str, message: str, stamp: str) -> Obj:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": stamp}


def resource_of(obj: Obj) -> Resource:
    """The resource that a definition describes."""
    spec = obj["spec"]
    names, group = spec["names"], spec["group"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    subresources: set[str] = set()
    scale: dict[str, str] = {}
    for version in spec["versions"]:
        declared = version.get("subresources") or {}
        subresources |= declared.keys()
        if "scale" in declared:
            paths = declared["scale"]
            scale = {"spec": paths["specReplicasPath"], "status": paths["statusReplicasPath"]}
            if "labelSelectorPath" in paths:
                scale["selector"] = paths["labelSelectorPath"]
    served = {
        version["name"]: _version(version, f"{group}/{storage}", group)
        for version in spec["versions"]
        if version.get("served") or version["name"] == storage
    }
    selectable = {
        field["jsonPath"].removeprefix(".")
        for version in spec["versions"]
        for field in version.get("selectableFields", ())
    }
    return Resource(
        group=group,
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        versions=served,
        storage_version=storage,
        singular=names.get("singular", names["kind"].lower()),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=frozenset(subresources),
        generation=True,
        custom=True,
        unconditional=False,
        verbs=_VERBS,
        selectable=tuple(selectable),
        scale_paths=scale,
    )


def _version(source: Obj, storage_api_version: str, group: str) -> Version:
    """A served version. Objects differ between versions by their apiVersion alone (conversion ``None``)."""
    schema_source: Obj = source["schema"]["openAPIV3Schema"]
    api_version = f"{group}/{source['name']}"
    node = schema.structural(schema_source)
    node.properties = {**(node.properties or {}), "metadata": schema.object_meta()}
    version = Version(
        name=source["name"],
        node=node,
        columns=tuple(source.get("additionalPrinterColumns", ())),
        schema=schema_source,
        served=bool(source.get("served")),
    )
    if source.get("deprecated"):
        version.deprecation = source.get("deprecationWarning") or f"{api_version} is deprecated"
    if api_version != storage_api_version:
        version.from_storage = lambda obj: {**obj, "apiVersion": api_version}
        version.to_storage = lambda obj: {**obj, "apiVersion": storage_api_version}
    return version
