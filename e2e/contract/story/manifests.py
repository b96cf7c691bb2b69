"""Where things are, and the least that makes one."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

NAMESPACE = "contract"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NODES = "/api/v1/nodes"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
GROUPS = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def a_pod(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "contract"}},
        "spec": {"containers": [container], "schedulerName": "nobody"} | spec,
    }


def a_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def a_queue(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def a_group(name: str, **spec: Any) -> Json:
    meta = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": 1, "queue": "contract-queue"} | spec,
    }
