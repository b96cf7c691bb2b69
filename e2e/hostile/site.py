"""The cluster that two teams share: nodes, queues, and what the hostile one may do."""

from __future__ import annotations

from typing import Any, Final

from e2e.manifests import a_queue
from e2e.soak.site import PROBE_NAMESPACE, PROBE_QUEUE
from kai.kube import resources
from kai_local.kubelet.nodes import NodeShape, node_manifest, slice_manifest

Json = dict[str, Any]

#: The other team is the one that a soak's probes are of.
TEAM_NAMESPACE, TEAM_QUEUE = PROBE_NAMESPACE, PROBE_QUEUE
DEPARTMENT, TENANT_QUEUE = "hostile-department", "hostile-tenant"
TENANT, TENANT_NAMESPACES = "tenant", ("hostile-0", "hostile-1", "hostile-2")
DRIVER = DEVICE_CLASS = "gpu.hostile.example.com"
NODES: Final = tuple(f"hostile-gpu-{number}" for number in range(4))
_CLAIMS_NODE = "hostile-claims-0"
#: What his queue may hold, so that there is always room for the others.
_TENANT_GPUS, _TENANT_CPUS = 8, 24_000
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
#: What he may make, as it is deleted in the end: first what makes other objects.
KINDS: Final = (
    resources.DEPLOYMENTS,
    resources.JOBS,
    resources.REPLICA_SETS,
    resources.PODS,
    resources.POD_GROUPS,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.RESOURCE_CLAIMS,
    resources.PDBS,
    resources.CONFIG_MAPS,
    resources.PVCS,
)


def nodes() -> list[Json]:
    """Nodes with room for both teams, and one with devices for claims."""
    shape = NodeShape(gpus=8, cpus=64, memory="512Gi")
    found = [node_manifest(name, shape) for name in NODES]
    found.append(node_manifest(_CLAIMS_NODE, NodeShape(gpus=0, cpus=64, memory="512Gi")))
    devices = slice_manifest(_CLAIMS_NODE, DRIVER, 16)
    for number, device in enumerate(devices["spec"]["devices"]):
        device["attributes"] = {"index": {"int": number % 6}}
    return [*found, devices]


def furniture() -> list[Json]:
    """Queues, namespaces and rights, in the order in which they have to be made."""
    tenant = a_queue(TENANT_QUEUE, parent=DEPARTMENT, gpus=4, limit=_TENANT_GPUS)
    tenant["spec"]["resources"]["cpu"] = {"quota": _TENANT_CPUS, "limit": _TENANT_CPUS, "overQuotaWeight": 1}
    team = a_queue(TEAM_QUEUE, parent=DEPARTMENT, gpus=16)
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DEVICE_CLASS},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
    }
    spaces = [_namespace(name) for name in (TEAM_NAMESPACE, *TENANT_NAMESPACES)]
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": TENANT, "namespace": TENANT_NAMESPACES[0]},
    }
    rights = [body for namespace in TENANT_NAMESPACES for body in _rights(namespace)]
    return [device_class, a_queue(DEPARTMENT), team, tenant, *spaces, account, *rights]


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _rights(namespace: str) -> list[Json]:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [kind.group], "resources": [kind.plural], "verbs": list(_VERBS)} for kind in KINDS]
    meta = {"name": TENANT, "namespace": namespace}
    subject = {"kind": "ServiceAccount", "name": TENANT, "namespace": TENANT_NAMESPACES[0]}
    return [
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": TENANT},
            "subjects": [subject],
        },
    ]
