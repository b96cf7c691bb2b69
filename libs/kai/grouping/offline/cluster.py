"""A cluster that is a file: what is in it exists, nothing else does. Nothing here ever blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from kai.grouping import type_defaults
from kai.grouping.cluster import KARTA_LABELS
from kai.grouping.errors import InvalidWorkload, ObjectNotFound, ReadForbidden
from kai.grouping.objects.documents import Document, ObjectRef, without_nulls
from kai.grouping.objects.pods import Pod, decode_pod
from kai.grouping.offline.rights import is_granted
from kai.grouping.type_defaults import TypeDefaults
from kai.model.merge_patch import merged
from kai.model.objects import Json, PodGroup

_CLUSTER_SCOPED = frozenset({"PriorityClass", "Karta", "Namespace", "Node", "CustomResourceDefinition"})

Key = tuple[str, str, str, str]


class FileCluster:
    """Objects by group, kind, namespace and name.

    ``defaults`` names the ConfigMap with defaults by kind as ``namespace/name``; empty: the first of the file
    that has a key ``types``.
    """

    def __init__(self, bodies: Iterable[Json], *, defaults: str = "") -> None:
        self._objects: dict[Key, Document] = {}
        #: Pods in the order of the file, as bodies, so that what is written to one is seen by the next.
        self.pod_bodies: dict[tuple[str, str], Json] = {}
        self.pod_group_bodies: dict[tuple[str, str], Json] = {}
        #: Objects that an API server would not take; they do not exist.
        self.problems: list[str] = []
        #: What a pod-grouper would only log.
        self.notes: list[str] = []
        for body in bodies:
            try:
                self._add(body)
            except InvalidWorkload as error:
                if not self._keep_pod(body):
                    self.problems.append(f"{error}; the object is ignored")
        self._defaults = self._read_defaults(defaults)
        self._described = {
            (document.labels.get(KARTA_LABELS[0], ""), document.labels.get(KARTA_LABELS[2], ""))
            for document in self._objects.values()
            if document.kind == "Karta"
        }

    async def get(self, ref: ObjectRef, *, fresh: bool = False) -> Document:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        if ref.kind == "Pod" and ref.api_version == "v1":
            body = self.pod_bodies.get((ref.namespace, ref.name))
            if body is not None:
                return Document.of_body(body)
        granted = is_granted(ref.group, ref.kind)
        if granted is False and (ref.group, ref.kind) not in self._described:
            raise ReadForbidden(f"{ref} may not be read: the pod-grouper's role does not grant {ref.kind}")
        found = self._objects.get((ref.group, ref.kind, ref.namespace, ref.name))
        if found is None:
            raise ObjectNotFound(f"{ref} ({ref.api_version}) is not in the file; add it")
        if not granted:
            self.notes.append(
                f"{ref.kind} of {ref.group} is not in the chart's role; grant the pod-grouper to read it"
            )
        return found if found.api_version == ref.api_version else replace(found, api_version=ref.api_version)

    async def pod_body(self, pod: Pod) -> Json:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return self.pod_bodies[pod.metadata.namespace, pod.metadata.name]

    async def definitions(self, owner: Document) -> Iterable[Document]:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        wanted = (owner.group, owner.version, owner.kind)
        return [
            document
            for document in self._objects.values()
            if document.kind == "Karta"
            and document.group == "run.ai"
            and tuple(document.labels.get(key) for key in KARTA_LABELS) == wanted
        ]

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Pod]:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        for (of, _), body in self.pod_bodies.items():
            if of == namespace:
                try:
                    pod = decode_pod(body)
                except InvalidWorkload:
                    continue  # told when it is that pod's turn
                if labels.items() <= pod.labels.items():
                    yield pod

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        body = self.pod_group_bodies.get((namespace, name))
        return None if body is None else _decode_pod_group(body)

    def pod_groups_named_after(self, namespace: str, uid: str) -> Iterable[PodGroup]:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        for (of, name), body in self.pod_group_bodies.items():
            if of == namespace and uid in name:
                yield _decode_pod_group(body)

    def has_priority_class(self, name: str) -> bool:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return ("scheduling.k8s.io", "PriorityClass", "", name) in self._objects

    def type_defaults(self) -> TypeDefaults:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return self._defaults

    def patch_pod(self, namespace: str, name: str, patch: Json) -> None:
        """Change a pod."""
        self.pod_bodies[namespace, name] = merged(self.pod_bodies[namespace, name], patch)

    def _add(self, body: Json) -> None:
        document, body = Document.of_body(body), without_nulls(body)
        namespace = ""
        if document.kind not in _CLUSTER_SCOPED:
            namespace = document.namespace or "default"
            if not document.namespace:
                body = merged(body, {"metadata": {"namespace": namespace}})
                document = Document.of_body(body)
        where = (namespace, document.name)
        key: Key = (document.group, document.kind, *where)
        if key in self._objects or (document.kind == "Pod" and where in self.pod_bodies):
            raise InvalidWorkload(f"{document.of} is in the file twice")
        if (document.group, document.kind) == ("scheduling.run.ai", "PodGroup"):
            _decode_pod_group(body)
            self.pod_group_bodies[where] = body
        elif (document.group, document.kind) == ("", "Pod"):
            self.pod_bodies[where] = body
        else:
            self._objects[key] = document

    def _keep_pod(self, body: Json) -> bool:
        """Keep a pod that is wrong but has a name: what is wrong is told when it is its turn."""
        metadata = body.get("metadata")
        if body.get("kind") != "Pod" or body.get("apiVersion") != "v1" or not isinstance(metadata, dict):
            return False
        namespace, name = metadata.get("namespace") or "default", metadata.get("name")
        if not (isinstance(namespace, str) and isinstance(name, str) and name):
            return False
        return self.pod_bodies.setdefault((namespace, name), body) is body

    def _read_defaults(self, wanted: str) -> TypeDefaults:
        for (group, kind, namespace, name), document in self._objects.items():
            if (group, kind) == ("", "ConfigMap") and wanted in ("", f"{namespace}/{name}"):
                try:
                    types = document.text("data", "types")
                    if types is not None:
                        found = type_defaults.parse(types)
                        self.notes += [f"{document.of}: data.{each}" for each in found.problems]
                        return found
                except (InvalidWorkload, ValueError) as error:
                    self.notes.append(f"{document.of}: data.types: {error}; ignored")
        return TypeDefaults()


def _decode_pod_group(body: Json) -> PodGroup:
    try:
        return msgspec.convert(body, PodGroup)
    except msgspec.ValidationError as error:
        raise InvalidWorkload(f"{Document.of_body(body).of}: {error}") from error
