"""What a fresh cluster holds before anybody creates anything."""

import uuid
from typing import Final

from kai_local.apiserver import defaults
from kai_local.apiserver.admission import NAMESPACES, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from kai_local.apiserver.clock import Clock
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.storage import Change, Store

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_RBAC: Final = "rbac.authorization.k8s.io"


def create_base_objects(store: Store, clock: Clock) -> None:
    """Namespaces with their default service accounts, priority classes and the administrator's role.

    What is there already stays as it is.
    """

    def put(key: tuple[str, str], obj: Obj) -> None:
        metadata = obj["metadata"]
        if store.collection(key).get(metadata.get("namespace", ""), metadata["name"]) is not None:
            return
        obj["metadata"] = {**obj["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": clock.stamp()}
        defaults.apply(key[0], obj["kind"], obj)
        store.collection(key).put(obj)

    def welcome(change: Change) -> None:
        if change.kind == "ADDED":
            metadata = {"name": "default", "namespace": change.record.name}
            put(SERVICE_ACCOUNTS, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata})

    store.collection(NAMESPACES).listeners.append(welcome)
    for name in _NAMESPACES:
        put(NAMESPACES, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
    for name, value in _PRIORITIES.items():
        api_version = f"{PRIORITY_CLASSES[0]}/v1"
        obj = {"kind": "PriorityClass", "apiVersion": api_version, "metadata": {"name": name}, "value": value}
        put(PRIORITY_CLASSES, obj)
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    role = {
        "kind": "ClusterRole",
        "apiVersion": f"{_RBAC}/v1",
        "metadata": {"name": "cluster-admin"},
        "rules": everything,
    }
    put((_RBAC, "clusterroles"), role)
    binding = {
        "kind": "ClusterRoleBinding",
        "apiVersion": f"{_RBAC}/v1",
        "metadata": {"name": "cluster-admin"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "name": "system:masters", "apiGroup": _RBAC}],
    }
    put((_RBAC, "clusterrolebindings"), binding)
