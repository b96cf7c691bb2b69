"""Pods as somebody writes them who asks the API server to take them."""

from typing import Any

Json = dict[str, Any]


def a_pod(
    *containers: Json,
    name: str = "demo",
    annotations: dict[str, str] | None = None,
    metadata: Json | None = None,
    init: list[Json] | None = None,
    **spec: Any,
) -> Json:
    """A pod of ours in namespace ``team`` with one container, if nothing is said of them."""
    body = {"schedulerName": "kai-scheduler", "containers": list(containers) or [{"name": "main"}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            **({"annotations": annotations} if annotations else {}),
            **(metadata or {}),
        },
        "spec": {**body, **({"initContainers": init} if init else {})},
    }


def a_pod_of(
    queue: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    metadata: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod that names its queue, and nothing that runs."""
    found = {"kai.scheduler/queue": queue, **(labels or {})}
    return {
        "metadata": {"name": "p", "labels": found, "annotations": annotations or {}, **(metadata or {})},
        "spec": {"schedulerName": "kai-scheduler", "containers": [], **spec},
    }
