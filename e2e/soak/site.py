"""The cluster in which a soak lives: nodes of all kinds, and what workloads need to exist."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from e2e.manifests import a_queue, a_volume
from kai.model import names
from kai_local.kubelet.nodes import NodeShape, NumaShape, node_manifest, numa_manifest, slice_manifest
from kai_local.operators.definitions import a_definition

Json = dict[str, Any]

ZONE, RACK, POOL = "soak.example.com/zone", "soak.example.com/rack", "soak.example.com/pool"
PLACES = (ZONE, RACK)
TOPOLOGY = "soak-fabric"
DRIVER = "gpu.soak.example.com"
#: By which its devices are to be had without a claim of the user's.
DEVICE = "soak.example.com/device"
STORAGE_CLASS = "soak-local"
NUMA_GROUP = "topology.node.k8s.io"
#: Where nothing but probes goes, so that they can always be placed.
PROBE_POOL, PROBE_QUEUE, PROBE_NAMESPACE = "probe", "soak-probe", "soak-probe"
MIG_PROFILES = {"1g.10gb": 4, "3g.40gb": 2}
_KARTA_GROUP, _FLOW = "soak.example.com", "Flow"
FLOW_API_VERSION = f"{_KARTA_GROUP}/v1"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node to register, with what stands beside it."""

    name: str
    shape: NodeShape
    numa: NumaShape | None = None
    devices: int = 0
    taints: tuple[Json, ...] = field(default=())

    @property
    def manifests(self) -> list[Json]:
        """The node, and the objects in which others describe it."""
        node = node_manifest(self.name, self.shape)
        node["spec"]["taints"] = list(self.taints)
        found = [node]
        if self.numa is not None:
            found.append(numa_manifest(self.name, self.shape, self.numa))
        if self.devices:
            found.append(slice_manifest(self.name, DRIVER, self.devices))
        return found


def labels(*, zone: int, rack: int, pool: str) -> dict[str, str]:
    """Where a node stands, and for what it is."""
    return {ZONE: f"z{zone}", RACK: f"r{rack}", POOL: pool}


def lasting_nodes() -> list[NodePlan]:
    """Nodes that are cordoned, drained and lost, and come back."""
    found = [
        NodePlan(f"soak-gpu-{n}", NodeShape(gpus=8, labels=labels(zone=n // 2, rack=n, pool="gpu")))
        for n in range(4)
    ]
    shape = NodeShape(gpus=2, gpu_memory_mib=40000, labels=labels(zone=0, rack=0, pool="gpu"))
    found.append(NodePlan("soak-small-0", shape))
    found.append(
        NodePlan("soak-mig-0", NodeShape(gpus=0, mig=MIG_PROFILES, labels=labels(zone=0, rack=1, pool="mig")))
    )
    numa = NodeShape(gpus=8, cpus=16, memory="64Gi", labels=labels(zone=1, rack=2, pool="numa"))
    found.append(NodePlan("soak-numa-0", numa, numa=NumaShape()))
    found += [
        NodePlan(
            f"soak-claims-{n}", NodeShape(gpus=0, labels=labels(zone=n, rack=3, pool="claims")), devices=4
        )
        for n in range(2)
    ]
    found.append(
        NodePlan(
            "soak-cpu-0", NodeShape(gpus=0, cpus=16, memory="64Gi", labels=labels(zone=1, rack=3, pool="cpu"))
        )
    )
    return found


def zones() -> dict[str, dict[str, float]]:
    """GPUs by NUMA zone, of nodes that are cut so."""
    return {
        node.name: {f"node-{n}": node.shape.gpus / node.numa.zones for n in range(node.numa.zones)}
        for node in lasting_nodes()
        if node.numa is not None
    }


def probe_node() -> NodePlan:
    """The node of the probes; nothing is done to it."""
    taint = {"key": POOL, "value": PROBE_POOL, "effect": "NoSchedule"}
    shape = NodeShape(gpus=4, cpus=16, memory="64Gi", labels={POOL: PROBE_POOL})
    return NodePlan("soak-probe-0", shape, taints=(taint,))


def definitions() -> list[Json]:
    """Kinds that exporters and operators would bring."""
    return [
        a_definition(
            NUMA_GROUP, "NodeResourceTopology", ["v1alpha2"], plural="noderesourcetopologies", scope="Cluster"
        ),
        a_definition("run.ai", "Karta", ["v1alpha1"]),
        a_definition(_KARTA_GROUP, _FLOW, ["v1"]),
    ]


def furniture() -> list[Json]:
    """Everything else that has to be there before life begins."""
    topology = {
        "apiVersion": names.TOPOLOGY_API_VERSION,
        "kind": "Topology",
        "metadata": {"name": TOPOLOGY},
        "spec": {
            "levels": [{"nodeLabel": ZONE}, {"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
        },
    }
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {
            "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
            "extendedResourceName": DEVICE,
        },
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [
        a_volume(f"soak-volume-{n}", node=f"soak-gpu-{n % 4}", storage_class=STORAGE_CLASS) for n in range(24)
    ]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE_NAMESPACE}}
    return [topology, device_class, storage, *volumes, _karta(), namespace, a_queue(PROBE_QUEUE)]


def _karta() -> Json:
    """A definition by which a Flow is a gang of a master and workers."""

    def child(name: str) -> Json:
        return {
            "name": name,
            "ownerRef": "flow",
            "specDefinition": {"podTemplateSpecPath": f".spec.{name}.template"},
            "scaleDefinition": {"replicasPath": f".spec.{name}.replicas"},
            "podSelector": {"componentTypeSelector": {"keyPath": ".metadata.labels.role", "value": name}},
        }

    root = {
        "name": "flow",
        "kind": {"group": _KARTA_GROUP, "version": "v1", "kind": _FLOW},
        "statusDefinition": {"statusMappings": {}},
    }
    parts = [{"componentName": "master"}, {"componentName": "worker"}]
    return {
        "apiVersion": "run.ai/v1alpha1",
        "kind": "Karta",
        "metadata": {
            "name": "soak-flow",
            "namespace": "default",
            "labels": {
                "run.ai/karta-group": _KARTA_GROUP,
                "run.ai/karta-version": "v1",
                "run.ai/karta-kind": _FLOW,
            },
        },
        "spec": {
            "structureDefinition": {
                "rootComponent": root,
                "childComponents": [child("master"), child("worker")],
            },
            "optimizationInstructions": {
                "gangScheduling": {"podGroup": {"name": "training", "subGroups": parts}}
            },
        },
    }
