"""Which pods are there for the product's own sake, and no work of anybody's.

A label alone says nothing: whoever may create pods may label them. Their namespaces belong to us.
"""

from __future__ import annotations

from kai.model import names
from kai.model.objects import ObjectMeta


def holds_device(
    meta: ObjectMeta, *, app: str = names.RESERVATION_APP, namespace: str = names.RESERVATION_NAMESPACE
) -> bool:
    """Whether a pod reserves a device, of which others get parts. An empty ``namespace`` is not known."""
    labels = meta.labels
    return labels is not None and labels.get(names.APP_LABEL) == app and namespace in ("", meta.namespace)


def asks_for_nodes(meta: ObjectMeta, *, namespace: str = names.SCALE_ADJUST_NAMESPACE) -> bool:
    """Whether a pod is there to have a node added. An empty ``namespace`` is not known."""
    return holds_device(meta, app=names.SCALING_POD_APP, namespace=namespace)
