"""What a fresh cluster holds before anybody creates anything."""

import uuid
from collections.abc import Callable
from typing import Final

from kai_local.apiserver.admission.builtin import NAMESPACES, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from kai_local.apiserver.clock import Clock
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds import builtins
from kai_local.apiserver.rules import defaults
from kai_local.apiserver.store.storage import Change, Store

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_RBAC: Final = "rbac.authorization.k8s.io"
#: Who plays kubelets and controllers. No administrator: what policies leave to those is not theirs.
MACHINERY: Final = "system:kai-local-machinery"
_EVERYTHING: Final[list[Obj]] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


def create_base_objects(store: Store, clock: Clock) -> None:
    """Namespaces with their default service accounts, priority classes and the roles of who runs it.

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
    _grant(put, "cluster-admin", _EVERYTHING, {"kind": "Group", "name": "system:masters"})
    machinery = [{"apiGroups": builtins.groups(), "resources": ["*"], "verbs": ["*"]}]
    _grant(put, MACHINERY, machinery, {"kind": "User", "name": MACHINERY})


def _grant(put: Callable[[tuple[str, str], Obj], None], name: str, rules: list[Obj], subject: Obj) -> None:
    """A role, and its binding to one subject, both of this name."""
    api_version = f"{_RBAC}/v1"
    role = {"kind": "ClusterRole", "apiVersion": api_version, "metadata": {"name": name}, "rules": rules}
    put((_RBAC, "clusterroles"), role)
    binding = {
        "kind": "ClusterRoleBinding",
        "apiVersion": api_version,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{**subject, "apiGroup": _RBAC}],
    }
    put((_RBAC, "clusterrolebindings"), binding)
