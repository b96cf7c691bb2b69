"""The columns of the built-in kinds, as ``kubectl get`` shows them."""

from collections.abc import Callable
from typing import Any, Final

from kai_local.apiserver.clock import seconds_of
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds.catalogue import dig
from kai_local.apiserver.reading.pod_printer import pod_cells, selector_text

Cells = Callable[[Obj, float], list[Any]]
NONE: Final = "<none>"
UNSET: Final = "<unset>"


def column(name: str, kind: str = "string", priority: int = 0) -> Obj:
    """A column definition."""
    return {"name": name, "type": kind, "format": "", "description": "", "priority": priority}


NAME: Final = {**column("Name"), "format": "name"}
AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def duration(seconds: float) -> str:
    """``45s``, ``3m12s``, ``5h``, ``2d``: ages as kubectl writes them."""
    total = int(seconds)
    if total < 0:
        return "<invalid>" if total < -1 else "0s"
    if total < 120:
        return f"{total}s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    return f"{years}y{days % 365}d" if years < 8 and days % 365 else f"{years}y"


def age(obj: Obj, now: float) -> str:
    """Time since creation."""
    stamp = obj["metadata"].get("creationTimestamp")
    return duration(now - seconds_of(stamp)) if stamp else "<unknown>"


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _number(obj: Obj, *path: str) -> int:
    return dig(obj, *path) or 0


def _containers(obj: Obj) -> tuple[str, str]:
    containers = dig(obj, "spec", "template", "spec", "containers") or []
    return ",".join(c["name"] for c in containers), ",".join(c.get("image", "") for c in containers)


def _node(obj: Obj, now: float) -> list[Any]:
    status = obj.get("status", {})
    ready = next((c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"), None)
    state = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    if obj.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels", {})
    roles = ",".join(
        sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix)
    )
    addresses = {item["type"]: item["address"] for item in status.get("addresses", ())}
    info = status.get("nodeInfo", {})
    unknown = "<unknown>"
    return [
        _name(obj), state, roles or NONE, age(obj, now), info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE), addresses.get("ExternalIP", NONE), info.get("osImage") or unknown,
        info.get("kernelVersion") or unknown, info.get("containerRuntimeVersion") or unknown,
    ]  # fmt: skip


def _deployment(obj: Obj, now: float) -> list[Any]:
    names, images = _containers(obj)
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    updated, available = (
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
    )
    selector = selector_text(dig(obj, "spec", "selector"))
    return [_name(obj), ready, updated, available, age(obj, now), names, images, selector]


def _replica_set(obj: Obj, now: float) -> list[Any]:
    names, images = _containers(obj)
    counts = [
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
    ]
    return [_name(obj), *counts, age(obj, now), names, images, selector_text(dig(obj, "spec", "selector"))]


def _stateful_set(obj: Obj, now: float) -> list[Any]:
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    return [_name(obj), ready, age(obj, now), *_containers(obj)]


def _daemon_set(obj: Obj, now: float) -> list[Any]:
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [_number(obj, "status", field) for field in fields]
    selector = selector_text({"matchLabels": dig(obj, "spec", "template", "spec", "nodeSelector")})
    return [
        _name(obj),
        *counts,
        selector,
        age(obj, now),
        *_containers(obj),
        selector_text(dig(obj, "spec", "selector")),
    ]


def _job(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    conditions = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
    known = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    state = next((name for name in known if name in conditions), "Running")
    if "deletionTimestamp" in obj["metadata"] and state == "Running":
        state = "Terminating"
    wanted = spec.get("completions")
    total = wanted if wanted is not None else f"1 of {spec.get('parallelism', 1)}"
    took = ""
    if "startTime" in status:
        end = seconds_of(status["completionTime"]) if "completionTime" in status else now
        took = duration(end - seconds_of(status["startTime"]))
    completions = f"{status.get('succeeded', 0)}/{total}"
    return [
        _name(obj),
        state,
        completions,
        took,
        age(obj, now),
        *_containers(obj),
        selector_text(spec.get("selector")),
    ]


def _cron_job(obj: Obj, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    last = duration(now - seconds_of(status["lastScheduleTime"])) if "lastScheduleTime" in status else NONE
    containers = dig(spec, "jobTemplate", "spec", "template", "spec", "containers") or []
    return [
        _name(obj), spec.get("schedule", ""), spec.get("timeZone", NONE), str(bool(spec.get("suspend"))),
        len(status.get("active", ())), last, age(obj, now), ",".join(c["name"] for c in containers),
        ",".join(c.get("image", "") for c in containers),
        selector_text(dig(spec, "jobTemplate", "spec", "selector")),
    ]  # fmt: skip


def _service(obj: Obj, now: float) -> list[Any]:
    spec = obj.get("spec", {})
    ports = ",".join(
        f"{p['port']}:{p['nodePort']}/{p.get('protocol', 'TCP')}"
        if p.get("nodePort")
        else f"{p['port']}/{p.get('protocol', 'TCP')}"
        for p in spec.get("ports", ())
    )
    external = ",".join(spec.get("externalIPs", ())) or (
        "<pending>" if spec.get("type") == "LoadBalancer" else NONE
    )
    selector = selector_text({"matchLabels": spec.get("selector")})
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        external,
        ports or NONE,
        age(obj, now),
        selector,
    ]


def _event(obj: Obj, now: float) -> list[Any]:
    regarding = obj.get("involvedObject", {})
    series = obj.get("series", {})
    stamp = (
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("eventTime")
        or obj["metadata"].get("creationTimestamp")
    )
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    source = obj.get("source", {})
    component = source.get("component") or obj.get("reportingComponent", "")
    count = series.get("count") or obj.get("count") or 1
    name = f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}"
    return [
        duration(now - seconds_of(stamp)) if stamp else "<unknown>", obj.get("type", ""), obj.get("reason",
        ""), name, regarding.get("fieldPath", ""), ", ".join(filter(None, (component, source.get("host")))),
        obj.get("message", "").strip(), duration(now - seconds_of(first)) if first else "<unknown>", count,
        _name(obj), ]  # fmt: skip


def _claim(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    return [
        _name(obj), phase, spec.get("volumeName", ""), dig(status, "capacity", "storage") or "",
        _modes(status.get("accessModes", ())), spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age(obj, now), spec.get("volumeMode", ""),
    ]  # fmt: skip


def _modes(modes: Any) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in modes)


def _persistent_volume(obj: Obj, now: float) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    claim = spec.get("claimRef")
    bound = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    return [
        _name(obj), dig(spec, "capacity", "storage") or "", _modes(spec.get("accessModes", ())),
        spec.get("persistentVolumeReclaimPolicy", ""), status.get("phase", ""), bound,
        spec.get("storageClassName", ""), spec.get("volumeAttributesClassName", UNSET), status.get("reason",
        ""), age(obj, now), spec.get("volumeMode", ""), ]  # fmt: skip


def _storage_class(obj: Obj, now: float) -> list[Any]:
    default = dig(obj, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true"
    return [
        _name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""), obj.get("reclaimPolicy", ""),
        obj.get("volumeBindingMode", ""), bool(obj.get("allowVolumeExpansion")), age(obj, now),
    ]  # fmt: skip


def _resource_claim(obj: Obj, now: float) -> list[Any]:
    status = obj.get("status", {})
    states = [] if "allocation" not in status else ["allocated"]
    if status.get("reservedFor"):
        states.append("reserved")
    if "deletionTimestamp" in obj["metadata"]:
        states.insert(0, "deleted")
    return [_name(obj), ",".join(states) or "pending", age(obj, now)]


def _disruption_budget(obj: Obj, now: float) -> list[Any]:
    spec, missing = obj.get("spec", {}), "N/A"
    low, high = spec.get("minAvailable", missing), spec.get("maxUnavailable", missing)
    return [_name(obj), str(low), str(high), _number(obj, "status", "disruptionsAllowed"), age(obj, now)]


def _subjects(obj: Obj, now: float) -> list[Any]:
    role = obj.get("roleRef", {})
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects", ()):
        name = subject["name"]
        if subject["kind"] == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        by_kind.setdefault(subject["kind"], []).append(name)
    shown = [", ".join(names) for names in by_kind.values()]
    return [_name(obj), f"{role.get('kind')}/{role.get('name')}", age(obj, now), *shown[:3]]


def _endpoints(obj: Obj, now: float) -> list[Any]:
    pairs = [
        f"{address['ip']}:{port['port']}"
        for subset in obj.get("subsets", ())
        for port in subset.get("ports", ())
        for address in subset.get("addresses", ())
    ]
    shown = ",".join(pairs[:3]) + (f" + {len(pairs) - 3} more..." if len(pairs) > 3 else "")
    return [_name(obj), shown or NONE, age(obj, now)]


def _endpoint_slice(obj: Obj, now: float) -> list[Any]:
    ports = ",".join(str(port.get("port", "*")) for port in obj.get("ports") or ())
    hosts = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses", ())]
    return [_name(obj), obj.get("addressType", ""), ports or UNSET, ",".join(hosts) or UNSET, age(obj, now)]


def _row(*cells: Callable[[Obj], Any]) -> Cells:
    return lambda obj, now: [_name(obj), *(cell(obj) for cell in cells), age(obj, now)]


def _columns(text: str) -> list[Obj]:
    """``Ready Up-to-date:integer *Containers``: types after a colon, a star for those of ``-o wide``."""
    columns = []
    for word in text.split():
        name, _, kind = word.lstrip("*").partition(":")
        columns.append(column(name.replace("_", " "), kind or "string", int(word.startswith("*"))))
    return columns


def _own(text: str, cells: Cells) -> tuple[list[Obj], Cells]:
    return [NAME, *_columns(text)], cells


_TABLES: Final[dict[tuple[str, str], tuple[list[Obj], Cells]]] = {
    ("", "Pod"): _own(
        "Ready Status Restarts Age *IP *Node *Nominated_Node *Readiness_Gates",
        lambda obj, now: pod_cells(obj, now, duration, age),
    ),
    ("", "Node"): _own(
        "Status Roles Age Version *Internal-IP *External-IP *OS-Image *Kernel-Version *Container-Runtime",
        _node,
    ),
    ("", "Namespace"): _own("Status Age", _row(lambda o: dig(o, "status", "phase") or "")),
    ("", "ConfigMap"): _own(
        "Data Age", _row(lambda o: len(o.get("data", ())) + len(o.get("binaryData", ())))
    ),
    ("", "Secret"): _own(
        "Type Data Age", _row(lambda o: o.get("type", ""), lambda o: len(o.get("data", ())))
    ),
    ("", "ServiceAccount"): _own("Age", _row()),
    ("", "Service"): _own("Type Cluster-IP External-IP Port(s) Age *Selector", _service),
    ("", "Endpoints"): _own("Endpoints Age", _endpoints),
    ("", "Event"): (
        _columns("Last_Seen Type Reason Object *Subobject *Source Message *First_Seen *Count:integer *Name"),
        _event,
    ),
    ("events.k8s.io", "Event"): (
        _columns("Last_Seen Type Reason Object *Subobject *Source Message *First_Seen *Count:integer *Name"),
        _event,
    ),
    ("", "PersistentVolumeClaim"): _own(
        "Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age *VolumeMode", _claim
    ),
    ("", "PersistentVolume"): _own(
        "Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason "
        "Age *VolumeMode",
        _persistent_volume,
    ),
    ("apps", "Deployment"): _own("Ready Up-to-date Available Age *Containers *Images *Selector", _deployment),
    ("apps", "ReplicaSet"): _own(
        "Desired:integer Current:integer Ready:integer Age *Containers *Images *Selector", _replica_set
    ),
    ("apps", "StatefulSet"): _own("Ready Age *Containers *Images", _stateful_set),
    ("apps", "DaemonSet"): _own(
        "Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer "
        "Node_Selector Age "
        "*Containers *Images *Selector",
        _daemon_set,
    ),
    ("batch", "Job"): _own("Status Completions Duration Age *Containers *Images *Selector", _job),
    ("batch", "CronJob"): _own(
        "Schedule Timezone Suspend Active:integer Last_Schedule Age *Containers *Images *Selector", _cron_job
    ),
    ("scheduling.k8s.io", "PriorityClass"): _own(
        "Value:integer Global-Default:boolean Age PreemptionPolicy",
        lambda o, now: [
            _name(o),
            o.get("value", 0),
            bool(o.get("globalDefault")),
            age(o, now),
            o.get("preemptionPolicy", ""),
        ],
    ),
    ("coordination.k8s.io", "Lease"): _own(
        "Holder Age", _row(lambda o: dig(o, "spec", "holderIdentity") or "")
    ),
    ("storage.k8s.io", "StorageClass"): _own(
        "Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion:boolean Age", _storage_class
    ),
    ("storage.k8s.io", "CSINode"): _own(
        "Drivers:integer Age", _row(lambda o: len(dig(o, "spec", "drivers") or ()))
    ),
    ("storage.k8s.io", "CSIDriver"): _own(
        "AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean Modes Age",
        _row(
            lambda o: bool(dig(o, "spec", "attachRequired")),
            lambda o: bool(dig(o, "spec", "podInfoOnMount")),
            lambda o: bool(dig(o, "spec", "storageCapacity")),
            lambda o: ",".join(dig(o, "spec", "volumeLifecycleModes") or ()),
        ),
    ),
    ("resource.k8s.io", "ResourceClaim"): _own("State Age", _resource_claim),
    ("resource.k8s.io", "ResourceSlice"): _own(
        "Node Driver Pool Age",
        _row(
            lambda o: dig(o, "spec", "nodeName") or "",
            lambda o: dig(o, "spec", "driver") or "",
            lambda o: dig(o, "spec", "pool", "name") or "",
        ),
    ),
    ("policy", "PodDisruptionBudget"): _own(
        "Min_Available Max_Unavailable Allowed_Disruptions:integer Age", _disruption_budget
    ),
    ("node.k8s.io", "RuntimeClass"): _own("Handler Age", _row(lambda o: o.get("handler", ""))),
    ("rbac.authorization.k8s.io", "Role"): _own(
        "Created_At", lambda o, _now: [_name(o), o["metadata"].get("creationTimestamp", "")]
    ),
    ("rbac.authorization.k8s.io", "ClusterRole"): _own(
        "Created_At", lambda o, _now: [_name(o), o["metadata"].get("creationTimestamp", "")]
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _own("Role Age *Users *Groups *ServiceAccounts", _subjects),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _own(
        "Role Age *Users *Groups *ServiceAccounts", _subjects
    ),
    ("discovery.k8s.io", "EndpointSlice"): _own("AddressType Ports Endpoints Age", _endpoint_slice),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _own(
        "Created_At", lambda o, _now: [_name(o), o["metadata"].get("creationTimestamp", "")]
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _own(
        "Webhooks:integer Age", _row(lambda o: len(o.get("webhooks", ())))
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _own(
        "Webhooks:integer Age", _row(lambda o: len(o.get("webhooks", ())))
    ),
}
_PLAIN: Final = _own("Age", _row())


def columns_of(group: str, kind: str) -> tuple[list[Obj], Cells]:
    """Column definitions of a built-in kind, and the function from an object (and the time) to its cells."""
    return _TABLES.get((group, kind), _PLAIN)
