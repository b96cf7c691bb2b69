"""Manifests as users write them, with the parts that tests vary as parameters."""

from __future__ import annotations

from typing import Any

import yaml

from kai.model import names


def as_yaml(*bodies: dict[str, Any]) -> str:
    """A YAML stream."""
    return yaml.safe_dump_all(bodies, sort_keys=False)


def a_queue(
    name: str,
    *,
    parent: str = "",
    gpus: float = -1,
    limit: float = -1,
    weight: float = 1,
    cpu: dict[str, float] | None = None,
    memory: dict[str, float] | None = None,
    priority: int = 100,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A queue; ``spec`` is added to the queue's.

    CPU (in millicores) and memory (in 10^6 bytes) are unlimited but for the ``quota`` and ``limit`` given.
    """
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name} | ({"labels": labels} if labels else {}),
        "spec": {
            **({"parentQueue": parent} if parent else {}),
            "priority": priority,
            "resources": {
                "cpu": unlimited | (cpu or {}),
                "memory": unlimited | (memory or {}),
                "gpu": {"quota": gpus, "limit": limit, "overQuotaWeight": weight},
            },
            **spec,
        },
    }


def a_template(
    queue: str,
    *,
    gpus: int = 0,
    requests: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod template for our scheduler; ``spec`` is added to the pod's, ``requests`` to a bit of CPU."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {
            "labels": {"kai.scheduler/queue": queue} | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "nvidia/cuda",
                    "command": ["sleep", "infinity"],
                    "resources": {"limits": limits, "requests": {"cpu": "100m"} | (requests or {})},
                }
            ],
            **(spec or {}),
        },
    }


def a_pod(name: str, namespace: str, queue: str, **template: Any) -> dict[str, Any]:
    """A pod without owner."""
    body = a_template(queue, **template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace} | body["metadata"],
        "spec": body["spec"],
    }


def a_job(
    name: str, namespace: str, queue: str, *, pods: int, gang: int = 0, priority: str = "", **template: Any
) -> dict[str, Any]:
    """A Job; with ``gang`` that many of its pods start together or not at all."""
    body = a_template(queue, **template)
    body["spec"]["restartPolicy"] = "Never"
    labels = {"kai.scheduler/queue": queue} | ({"priorityClassName": priority} if priority else {})
    annotations = {"kai.scheduler/batch-min-member": str(gang)} if gang else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 100, "template": body},
    }


def a_deployment(name: str, namespace: str, queue: str, **template: Any) -> dict[str, Any]:
    """A Deployment of one replica."""
    body = a_template(queue, **template)
    body["metadata"]["labels"]["app"] = name
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": body}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def sized(gpus: float) -> dict[str, Any]:
    """How a pod or job asks for so many GPUs, or for a part of one."""
    return {"annotations": {"gpu-fraction": str(gpus)}} if 0 < gpus < 1 else {"gpus": int(gpus)}


def on(node: str) -> dict[str, Any]:
    """Spec of a pod that goes to this node only."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def a_group(name: str, namespace: str, queue: str, **spec: Any) -> dict[str, Any]:
    """A pod group that its user makes, of pods that name it."""
    return {
        "apiVersion": names.POD_GROUP_API_VERSION,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": queue, **spec},
    }


def members(
    group: str, namespace: str, queue: str, part: str, count: int, **template: Any
) -> list[dict[str, Any]]:
    """So many pods ``<part>-<number>`` of a part of such a group, or of the group itself without one."""
    labels = template.pop("labels", {}) | ({names.SUBGROUP_LABEL: part} if part else {})
    annotations = template.pop("annotations", {}) | {names.POD_GROUP_ANNOTATION: group}
    return [
        a_pod(
            f"{part or group}-{number}", namespace, queue, labels=labels, annotations=annotations, **template
        )
        for number in range(count)
    ]


def a_claim(
    name: str, namespace: str, *, storage_class: str, volume: str = "", size: str = "1Gi"
) -> dict[str, Any]:
    """A claim for a volume of this class, or for the one that it names."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | ({"volumeName": volume} if volume else {}),
    }


def a_volume(
    name: str, *, node: str, storage_class: str, size: str = "1Gi", source: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A volume that can be reached from one node only; ``source`` is what it is, else a folder there."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            **(source or {"local": {"path": "/data"}}),
        },
    }


def with_volume(pod: dict[str, Any], claim: str) -> dict[str, Any]:
    """The pod, with the volume of this claim."""
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod
