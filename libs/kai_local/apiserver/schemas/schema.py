"""Types of objects as trees of nodes, for the built-in kinds and for custom resources alike.

The built-in types come from the OpenAPI definitions in the package ``kubernetes-validate`` (merge keys, list
types and required fields included); custom resources bring a structural schema. Both become ``Node`` trees,
which decoding, pruning, validation, strategic merge and server-side apply walk.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from kai_local.apiserver.errors import Obj

SCHEMA_RELEASE: Final = "v1.34.0-local"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIMES: Final = tuple(f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in ("Time", "MicroTime"))
_REF_PREFIX: Final = "#/$defs/"
_VALUE_CHECKS: Final = frozenset(
    [
        "enum",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ]
)


@dataclass(slots=True, eq=False)
class Node:
    """The type of one value. ``type`` is empty where anything goes."""

    type: str = ""
    properties: dict[str, "Node"] | None = None
    items: "Node | None" = None
    additional: "Node | None" = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    has_default: bool = False
    default: Any = None
    preserve_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    quantity: bool = False
    base64: bool = False
    time: bool = False
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    merge_key: str = ""
    merge: bool = False
    retain_keys: bool = False
    rules: tuple[Obj, ...] = ()
    checks: Obj = field(default_factory=dict)
    #: whether this node or one below it has a default, or a rule
    deep_default: bool = False
    deep_rules: bool = False

    def child(self, key: str) -> "Node | None":
        """The type of member ``key`` of an object of this type."""
        if self.properties is not None:
            node = self.properties.get(key)
            if node is not None:
                return node
        return self.additional


ANY: Final = Node(preserve_unknown=True)


def published(release: str = SCHEMA_RELEASE) -> Path:
    """The folder of all schemas of a release, such as ``v1.34.0-local``.

    The package that has them is found without being imported: it takes a second and a half to make parsers.
    """
    spec = find_spec("kubernetes_validate")
    assert spec is not None, "the package kubernetes-validate is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent / "kubernetes-json-schema" / release


@cache
def definitions() -> dict[str, Obj]:
    """The OpenAPI definitions of the built-in types by name."""
    document = msgspec.json.decode((published() / "_definitions.json").read_bytes())
    found: dict[str, Obj] = document["$defs"]
    return found


@cache
def definition_names() -> dict[tuple[str, str, str], str]:
    """Name of the definition of each group, version and kind."""
    names: dict[tuple[str, str, str], str] = {}
    for name, definition in definitions().items():
        kinds = definition.get("x-kubernetes-group-version-kind", ())
        if len(kinds) == 1:
            gvk = kinds[0]
            names[gvk["group"], gvk["version"], gvk["kind"]] = name
    return names


_compiled: dict[str, Node] = {}


def builtin(group: str, version: str, kind: str) -> Node:
    """The type of a built-in kind. Raises KeyError for others."""
    return definition(definition_names()[group, version, kind])


def definition(name: str) -> Node:
    """The type behind one OpenAPI definition; types may refer to themselves."""
    node = _compiled.get(name)
    if node is None:
        node = _compiled[name] = Node()
        source = definitions()[name]
        if name == _QUANTITY:
            node.type, node.quantity = "string", True
        elif name == _INT_OR_STRING:
            node.int_or_string = True
        elif name in _TIMES:
            node.type, node.time = "string", True
        else:
            _fill(node, source, own=True)
    return node


def object_meta() -> Node:
    """The type of every object's metadata."""
    return definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def delete_options() -> Node:
    """The type of what a delete may bring along, which every group has as a kind of its own."""
    return definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")


def structural(source: Obj) -> Node:
    """The type that the schema of a custom resource describes."""
    node = Node()
    _fill(node, source, own=False)
    return node


def _fill(node: Node, source: Obj, *, own: bool) -> None:
    kind = source.get("type", "")
    if isinstance(kind, list):
        kind = next(item for item in kind if item != "null")
    node.type = kind
    node.base64 = own and source.get("format") == "byte"
    node.nullable = bool(source.get("nullable"))
    node.required = tuple(source.get("required", ()))
    node.preserve_unknown = bool(source.get("x-kubernetes-preserve-unknown-fields"))
    node.embedded = bool(source.get("x-kubernetes-embedded-resource"))
    node.int_or_string = bool(source.get("x-kubernetes-int-or-string"))
    node.list_type = source.get("x-kubernetes-list-type", "")
    node.map_keys = tuple(source.get("x-kubernetes-list-map-keys", ()))
    node.rules = tuple(source.get("x-kubernetes-validations", ()))
    if "default" in source and not own:
        node.has_default, node.default = True, source["default"]
    _mark(node, source)
    if "properties" in source:
        node.properties = {key: _compile(child, own) for key, child in source["properties"].items()}
    if "items" in source:
        node.items = _compile(source["items"], own)
    additional = source.get("additionalProperties")
    if isinstance(additional, dict):
        node.additional = _compile(additional, own)
    elif additional is True:
        node.additional = ANY
    if own:
        node.preserve_unknown = node.properties is None and node.additional is None
    else:
        node.checks = {key: source[key] for key in source.keys() & _VALUE_CHECKS}
        children = [*(node.properties or {}).values(), *filter(None, (node.items, node.additional))]
        node.deep_default = node.has_default or any(child.deep_default for child in children)
        node.deep_rules = bool(node.rules) or any(child.deep_rules for child in children)


def _mark(node: Node, source: Obj) -> None:
    node.atomic_map = source.get("x-kubernetes-map-type") == "atomic"
    strategies = source.get("x-kubernetes-patch-strategy", "").split(",")
    node.merge = "merge" in strategies
    node.retain_keys = "retainKeys" in strategies
    node.merge_key = source.get("x-kubernetes-patch-merge-key", "")


def _compile(source: Obj, own: bool) -> Node:
    reference = source.get("$ref")
    if reference is None:
        node = Node()
        _fill(node, source, own=own)
        return node
    target = definition(reference.removeprefix(_REF_PREFIX))
    if any(key.startswith("x-kubernetes-") for key in source):
        target = replace(target)
        atomic = target.atomic_map
        _mark(target, source)
        target.atomic_map = target.atomic_map or atomic
    return target
