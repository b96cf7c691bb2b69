"""The Node objects of an embedded cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from kai.model import names
from kai.snapshot.times import rfc3339

#: Nodes and their devices have the same names in every run.
_NAMESPACE = UUID("6f0cbb0e-52c5-4f0e-9d3b-3a2c7a8f7a11")
_PODS_PER_NODE = "110"
NODE_LEASE_NAMESPACE = "kube-node-lease"
HOSTNAME_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What each node has. ``memory`` is a quantity, ``gpu_memory_mib`` is per device."""

    gpus: int = 8
    cpus: int = 64
    memory: str = "512Gi"
    gpu_memory_mib: int = 81559
    gpu_product: str = "NVIDIA-H100-80GB-HBM3"


def node_name(index: int) -> str:
    """The name of the n-th node."""
    return f"node-{index}"


def device_id(node: str, resource: str, index: int) -> str:
    """The id of a node's n-th device, as a device plugin would report it."""
    prefix = "GPU" if resource == names.NVIDIA_GPU else "MIG" if names.MIG_PREFIX in resource else "DEV"
    return f"{prefix}-{uuid5(_NAMESPACE, f'{node}/{resource}/{index}')}"


def node_manifest(name: str, shape: NodeShape) -> dict[str, Any]:
    """The object that a kubelet would register."""
    labels = {
        HOSTNAME_LABEL: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"kai-local-{shape.gpus}gpu",
    }
    if shape.gpus:
        labels |= {
            "nvidia.com/gpu.present": "true",
            names.GPU_COUNT_LABEL: str(shape.gpus),
            names.GPU_MEMORY_LABEL: str(shape.gpu_memory_mib),
            "nvidia.com/gpu.product": shape.gpu_product,
        }
    resources = {"cpu": str(shape.cpus), "memory": shape.memory, "pods": _PODS_PER_NODE}
    if shape.gpus:
        resources[names.NVIDIA_GPU] = str(shape.gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": "10.244.0.0/16"},
        "status": {"capacity": resources, "allocatable": resources},
    }


def node_status(name: str, address: str, now: float) -> dict[str, Any]:
    """The part of a node's status that its kubelet vouches for."""
    at = rfc3339(now)
    healthy = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "the simulated kubelet is ready"),
    }
    return {
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": message,
             "lastHeartbeatTime": at, "lastTransitionTime": at}
            for kind, (status, reason, message) in healthy.items()
        ],
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {
            "machineID": uuid5(_NAMESPACE, name).hex,
            "systemUUID": str(uuid5(_NAMESPACE, f"{name}/system")),
            "bootID": str(uuid5(_NAMESPACE, f"{name}/boot")),
            "kernelVersion": "simulated",
            "osImage": "KAI embedded cluster",
            "containerRuntimeVersion": "simulated://1",
            "kubeletVersion": "v1.34.0",
            "kubeProxyVersion": "v1.34.0",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }  # fmt: skip


def lease_manifest(name: str, node_uid: str, now: str, seconds: int) -> dict[str, Any]:
    """The heartbeat of a node. ``now`` is RFC 3339 with microseconds."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now},
    }
