"""When all work is gone, nothing of ours is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from e2e.soak.frame import Breach, called
from kai.model import names

Json = dict[str, Any]


def nothing_is_left(objects: Mapping[str, Iterable[Json]], *, prefixes: tuple[str, ...]) -> Iterator[Breach]:
    """Of the objects by kind, none belongs to what has been deleted.

    ``prefixes`` are those of the namespaces in which life was.
    """
    for kind, found in objects.items():
        for body in found:
            meta = body["metadata"]
            namespace = meta.get("namespace", "")
            key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
            if reason := _why_left(kind, body, namespace, prefixes):
                yield Breach("left behind", called(kind, key), reason)


def _why_left(kind: str, body: Json, namespace: str, prefixes: tuple[str, ...]) -> str:
    meta = body["metadata"]
    if namespace == names.RESERVATION_NAMESPACE and kind == "Pod":
        return "holds a device for nobody"
    if namespace == names.SCALE_ADJUST_NAMESPACE and kind == "Pod":
        return "asks for a node for nobody"
    if (
        namespace == names.RESERVATION_NAMESPACE
        and kind == "ConfigMap"
        and meta["name"] != "kube-root-ca.crt"
    ):
        return "belongs to a pod that is gone"
    if kind == "Namespace" and meta["name"].startswith(prefixes):
        return f"does not end: {(body.get('status') or {}).get('conditions') or 'it says not why'}"
    if namespace.startswith(prefixes) and kind != "Namespace":
        finalizers = meta.get("finalizers")
        return f"held by {finalizers}" if finalizers else "its namespace is to be gone"
    return ""
