"""Reading objects of any kind, which users wrote: every field is checked, every error names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kai.grouping.errors import InvalidWorkload
from kai.model.objects import OwnerReference

_INT32 = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Which object: enough to read it."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping somewhere in a document. ``path`` is where, for error messages.

    Absent and null are the same. Whatever has another type than asked for raises :class:`InvalidWorkload`.
    """

    of: str
    path: str
    content: Mapping[str, Any]

    def at(self, *keys: str) -> Fields:
        """The mapping at ``keys``; empty if there is none."""
        found = self._find(keys)
        if found is None:
            found = {}
        if not isinstance(found, dict):
            raise self._wrong(keys, "a mapping", found)
        return Fields(self.of, self._name(keys), found)

    def has(self, *keys: str) -> bool:
        """Whether there is anything but null at ``keys``."""
        return self._find(keys) is not None

    def text(self, *keys: str) -> str | None:
        """The string at ``keys``."""
        found = self._find(keys)
        if found is not None and not isinstance(found, str):
            raise self._wrong(keys, "a string", found)
        return found

    def boolean(self, *keys: str) -> bool | None:
        """The truth value at ``keys``."""
        found = self._find(keys)
        if found is not None and not isinstance(found, bool):
            raise self._wrong(keys, "true or false", found)
        return found

    def integer(self, *keys: str) -> int | None:
        """The number at ``keys``, an integer of 32 bits. ``3.0`` is one in JSON, ``"3"`` is not."""
        found = self._find(keys)
        if found is None:
            return None
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool) or found not in _INT32:
            raise self._wrong(keys, "an integer of 32 bits", found)
        return found

    def parts(self, *keys: str) -> list[Fields]:
        """The list of mappings at ``keys``; empty if there is none."""
        found = self._list(keys)
        name = self._name(keys)
        for index, item in enumerate(found):
            if not isinstance(item, dict):
                raise self._wrong((*keys, f"[{index}]"), "a mapping", item)
        return [Fields(self.of, f"{name}[{index}]", item) for index, item in enumerate(found)]

    def texts(self, *keys: str) -> list[str]:
        """The list of strings at ``keys``; empty if there is none."""
        found = self._list(keys)
        for index, item in enumerate(found):
            if not isinstance(item, str):
                raise self._wrong((*keys, f"[{index}]"), "a string", item)
        return found

    def needed(self, *keys: str) -> str:
        """The non-empty string at ``keys``."""
        found = self.text(*keys)
        if not found:
            raise self.invalid(*keys, problem="is missing; write a non-empty string")
        return found

    def invalid(self, *keys: str, problem: str) -> InvalidWorkload:
        """An error about the field at ``keys``."""
        return InvalidWorkload(f"{self.of}: {self._name(keys)} {problem}")

    def _list(self, keys: tuple[str, ...]) -> list[Any]:
        found = self._find(keys)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self._wrong(keys, "a list", found)
        return found

    def _find(self, keys: tuple[str, ...]) -> Any:
        found: Any = self.content
        for depth, key in enumerate(keys):
            if found is None:
                return None
            if not isinstance(found, dict):
                raise self._wrong(keys[:depth], "a mapping", found)
            found = found.get(key)
        return found

    def _name(self, keys: Iterable[str]) -> str:
        name = self.path
        for key in keys:
            plain = key.replace("-", "").isalnum()
            joined = f".{key}" if name else key
            name += key if key.startswith("[") else (joined if plain else f'["{key}"]')
        return name

    def _wrong(self, keys: tuple[str, ...], wanted: str, found: Any) -> InvalidWorkload:
        return self.invalid(*keys, problem=f"must be {wanted}, but is {_shown(found)}")


@dataclass(frozen=True, slots=True)
class Document(Fields):
    """An object with the metadata that grouping needs, checked."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: tuple[OwnerReference, ...] = field(default=())

    @classmethod
    def of_body(cls, body: object) -> Document:
        """Check the parts that every object has.

        Raises:
            InvalidWorkload: not an object, or its metadata have the wrong types.
        """
        if not isinstance(body, dict):
            raise InvalidWorkload(
                f"an object must be a mapping with apiVersion, kind and metadata, but is {_shown(body)}"
            )
        plain = Fields("object", "", body)
        api_version, kind = plain.needed("apiVersion"), plain.needed("kind")
        name = Fields(kind, "", body).needed("metadata", "name")
        namespace = plain.text("metadata", "namespace")
        named = Fields(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}", "", body)
        if api_version.count("/") > 1:
            raise named.invalid(
                "apiVersion", problem=f"must be group/version or version, but is {api_version!r}"
            )
        return cls(
            of=named.of,
            path="",
            content=body,
            api_version=api_version,
            kind=kind,
            namespace=namespace or "",
            name=name,
            uid=named.text("metadata", "uid") or "",
            labels=_strings(named, "labels"),
            annotations=_strings(named, "annotations"),
            owners=tuple(_owner(reference) for reference in named.parts("metadata", "ownerReferences")),
        )

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The API version without its group."""
        return self.api_version.rpartition("/")[2]

    @property
    def reference(self) -> OwnerReference:
        """An owner reference to this object."""
        return OwnerReference(api_version=self.api_version, kind=self.kind, name=self.name, uid=self.uid)


def without_nulls(body: Any) -> Any:
    """The same JSON without keys that are null, which an API server takes for absent. Lists keep theirs."""
    if isinstance(body, dict):
        return {key: without_nulls(value) for key, value in body.items() if value is not None}
    return [without_nulls(item) for item in body] if isinstance(body, list) else body


def template_annotation(template: Fields, key: str) -> str:
    """An annotation of a pod template, empty if there is none."""
    return template.text("metadata", "annotations", key) or ""


def _strings(named: Fields, key: str) -> Mapping[str, str]:
    found = named.at("metadata", key)
    for name in found.content:
        if found.text(name) is None:
            raise found.invalid(name, problem="is null; write a string or leave the key out")
    return found.content


def _owner(reference: Fields) -> OwnerReference:
    api_version = reference.needed("apiVersion")
    if api_version.count("/") > 1:
        raise reference.invalid(
            "apiVersion", problem=f"must be group/version or version, but is {api_version!r}"
        )
    return OwnerReference(
        api_version=api_version,
        kind=reference.needed("kind"),
        name=reference.needed("name"),
        uid=reference.text("uid") or "",
        controller=reference.boolean("controller"),
        block_owner_deletion=reference.boolean("blockOwnerDeletion"),
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
