"""Built-in admission: what the server itself adds to new objects, or refuses."""

import ipaddress
from collections.abc import Sequence
from typing import Final

from kai_local.apiserver.calls.requests import Target
from kai_local.apiserver.errors import ApiFailure, Obj, forbidden, not_found
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.store.storage import Store

PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses")
RUNTIME_CLASSES: Final = ("node.k8s.io", "runtimeclasses")
STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
NAMESPACES: Final = ("", "namespaces")
SERVICE_ACCOUNTS: Final = ("", "serviceaccounts")
SERVICES: Final = ("", "services")
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FIRST_SERVICE_ADDRESS: Final = int(ipaddress.IPv4Address("10.96.0.2"))


class Admission:
    """The plug-ins that run before the webhooks, and again after webhooks that changed something."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next_address = _FIRST_SERVICE_ADDRESS

    def check_namespace(self, target: Target) -> None:
        """Refuse what is created in a namespace that is not there, or about to go."""
        if not target.resource.namespaced:
            return
        record = self._store.collection(NAMESPACES).get("", target.namespace)
        if record is None:
            raise not_found("namespaces", "", target.namespace)
        if "deletionTimestamp" in record.obj["metadata"]:
            failure = forbidden(
                target.resource.plural,
                target.resource.group,
                target.name,
                f"unable to create new content in namespace {target.namespace} because it is being "
                f"terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {target.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            failure.details = {**(failure.details or {}), "causes": [cause]}
            raise failure

    def mutate(self, resource: Resource, obj: Obj) -> None:
        """Add to a new object. It belongs to the caller and is changed in place.

        Raises:
            ApiFailure: (403) it refers to a class or a service account that does not exist.
        """
        match resource.group, resource.kind:
            case "", "Pod":
                self._account(obj)
                self._priority(obj)
                self._runtime_class(obj)
                _tolerations(obj["spec"])
            case "", "PersistentVolumeClaim":
                self._storage_class(obj)
            case "", "Service":
                self._address(obj["spec"])

    def mutate_again(self, resource: Resource, new: Obj, old: Obj) -> None:
        """Add to the new state of an object, which belongs to the caller and is changed in place."""
        if resource.key == ("", "pods") and new["spec"] is not old["spec"]:
            spec = new["spec"] = {**new["spec"]}
            for key in ("priority", "preemptionPolicy"):
                if key in old["spec"]:
                    spec.setdefault(key, old["spec"][key])
            _tolerations(spec)
        elif resource.key == SERVICES and new["spec"] is not old["spec"]:
            new["spec"] = _with_addresses(new["spec"], old["spec"])

    def _account(self, pod: Obj) -> None:
        """The default account is not asked for: a namespace has it, and gets it again when it is deleted."""
        namespace, name = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
        if name == "default" or self._store.collection(SERVICE_ACCOUNTS).get(namespace, name) is not None:
            return
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise _pod_forbidden(pod, why)

    def _priority(self, pod: Obj) -> None:
        spec = pod["spec"]
        classes = self._store.collection(PRIORITY_CLASSES)
        name = spec.get("priorityClassName")
        if name:
            record = classes.get("", name)
            if record is None:
                raise _pod_forbidden(pod, f"no PriorityClass with name {name} was found")
            chosen: Obj | None = record.obj
        else:
            candidates = [record.obj for record in classes.records() if record.obj.get("globalDefault")]
            chosen = min(candidates, key=lambda item: int(item["value"]), default=None)
            if chosen is not None:
                spec["priorityClassName"] = chosen["metadata"]["name"]
        value = chosen["value"] if chosen is not None else 0
        if spec.get("priority") not in (None, value):
            note = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise _pod_forbidden(pod, note)
        spec["priority"] = value
        if chosen is not None:
            spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")

    def _runtime_class(self, pod: Obj) -> None:
        name = pod["spec"].get("runtimeClassName")
        if not name:
            return
        record = self._store.collection(RUNTIME_CLASSES).get("", name)
        if record is None:
            raise _pod_forbidden(pod, f'pod rejected: RuntimeClass "{name}" not found')
        overhead = dig(record.obj, "overhead", "podFixed")
        if overhead:
            pod["spec"]["overhead"] = dict(overhead)
        scheduling = record.obj.get("scheduling", {})
        if scheduling.get("nodeSelector"):
            pod["spec"]["nodeSelector"] = {
                **pod["spec"].get("nodeSelector", {}),
                **scheduling["nodeSelector"],
            }
        missing = [
            t for t in scheduling.get("tolerations", ()) if t not in pod["spec"].get("tolerations", ())
        ]
        if missing:
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), *missing]

    def _storage_class(self, claim: Obj) -> None:
        if "storageClassName" in claim["spec"] or "dataSource" in claim["spec"]:
            return
        for record in self._store.collection(STORAGE_CLASSES).records():
            if dig(record.obj, "metadata", "annotations", _DEFAULT_CLASS) == "true":
                claim["spec"]["storageClassName"] = record.name
                return

    def _address(self, spec: Obj) -> None:
        if spec.get("type") == "ExternalName" or spec.get("clusterIP"):
            if spec.get("clusterIP"):
                spec.setdefault("clusterIPs", [spec["clusterIP"]])
            return
        # What is there may be of a server before this one, or have been asked for.
        taken = {
            dig(record.obj, "spec", "clusterIP") for record in self._store.collection(SERVICES).records()
        }
        while (address := str(ipaddress.IPv4Address(self._next_address))) in taken:
            self._next_address += 1
        spec["clusterIP"] = address
        spec["clusterIPs"] = [address]
        self._next_address += 1


def _with_addresses(spec: Obj, before: Obj) -> Obj:
    """The spec of a service with those addresses and node ports of the one before that it leaves open."""
    types = (spec.get("type"), before.get("type"))
    if "ExternalName" in types:
        return spec
    kept = {**spec}
    if (spec.get("clusterIP") or before.get("clusterIP")) == before.get("clusterIP"):
        for key in ("clusterIP", "clusterIPs"):
            if before.get(key) and not spec.get(key):
                kept[key] = before[key]
    if "ClusterIP" not in types:
        kept["ports"] = _with_node_ports(spec.get("ports", ()), before.get("ports", ()))
    return kept


def _with_node_ports(ports: Sequence[Obj], before: Sequence[Obj]) -> list[Obj]:
    """The ports of a service with the node ports of those of the same name, which no other port has now."""
    taken = {port.get("nodePort") for port in ports}
    known = {port.get("name"): port["nodePort"] for port in before if port.get("nodePort")}
    return [
        port if port.get("nodePort") or number is None or number in taken else {**port, "nodePort": number}
        for port in ports
        for number in [known.get(port.get("name"))]
    ]


def _tolerations(spec: Obj) -> None:
    tolerations = spec.get("tolerations", [])
    for key in _TOLERATED:
        if not any(
            t.get("key") in (key, None, "") and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        ):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations


def _pod_forbidden(pod: Obj, why: str) -> ApiFailure:
    metadata = pod["metadata"]
    return forbidden("pods", "", metadata.get("name") or metadata.get("generateName", ""), why)
