"""The Node objects of an embedded cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from kai.model import names, quantity
from kai.model.rules.gpus import is_mig
from kai.snapshot.times import rfc3339

#: Nodes and their devices have the same names in every run.
_NAMESPACE = UUID("6f0cbb0e-52c5-4f0e-9d3b-3a2c7a8f7a11")
_PODS_PER_NODE = "110"
NODE_LEASE_NAMESPACE = "kube-node-lease"
HOSTNAME_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What each node has. ``memory`` is a quantity, ``gpu_memory_mib`` is per device.

    ``mig`` are devices by profile (``1g.10gb``), with ``mig_strategy`` ``mixed`` or ``single``. ``resources``
    is whatever else a node offers, ``labels`` what else it is labelled with, such as its zone and rack.
    """

    gpus: int = 8
    cpus: int = 64
    memory: str = "512Gi"
    gpu_memory_mib: int = 81559
    gpu_product: str = "NVIDIA-H100-80GB-HBM3"
    mig: Mapping[str, int] = field(default_factory=dict)
    mig_strategy: str = "mixed"
    resources: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumaShape:
    """How a node is cut into zones of equal size, and what its kubelet's topology manager does about it."""

    zones: int = 2
    policy: str = "single-numa-node"
    scope: str = "pod"


def node_name(index: int) -> str:
    """The name of the n-th node."""
    return f"node-{index}"


def device_id(node: str, resource: str, index: int) -> str:
    """The id of a node's n-th device, as a device plugin would report it."""
    prefix = "GPU" if resource == names.NVIDIA_GPU else "MIG" if is_mig(resource) else "DEV"
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
    if shape.mig:
        labels |= {names.MIG_WORKER_LABEL: "true", names.MIG_STRATEGY_LABEL: shape.mig_strategy}
    labels |= shape.labels
    resources = {"cpu": str(shape.cpus), "memory": shape.memory, "pods": _PODS_PER_NODE, **shape.resources}
    resources |= {f"{names.MIG_PREFIX}{profile}": str(count) for profile, count in shape.mig.items()}
    if shape.gpus:
        resources[names.NVIDIA_GPU] = str(shape.gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": "10.244.0.0/16"},
        "status": {"capacity": resources, "allocatable": resources},
    }


def numa_manifest(name: str, shape: NodeShape, numa: NumaShape) -> dict[str, Any]:
    """The NodeResourceTopology that an exporter would write for a node of which nothing is in use."""
    offered = {"cpu": str(shape.cpus), "memory": shape.memory}
    if shape.gpus:
        offered[names.NVIDIA_GPU] = str(shape.gpus)
    each = {resource: str(quantity.whole(amount) // numa.zones) for resource, amount in offered.items()}
    zone = [
        {"name": resource, "capacity": amount, "allocatable": amount, "available": amount}
        for resource, amount in each.items()
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": numa.policy},
            {"name": "topologyManagerScope", "value": numa.scope},
        ],
        "zones": [{"name": f"node-{i}", "type": "Node", "resources": zone} for i in range(numa.zones)],
    }


def slice_manifest(name: str, driver: str, devices: int, **attributes: str) -> dict[str, Any]:
    """The ResourceSlice that a DRA driver would publish for a node: so many devices with these attributes."""
    described = {key: {"string": value} for key, value in attributes.items()}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{i}", "attributes": described} for i in range(devices)],
        },
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
