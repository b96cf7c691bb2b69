"""What is tried with each account: requests, each with words of the refusal."""

from e2e.accounts.acting import LEASES_OF, Request
from e2e.accounts.world import RESERVATION, a_lease, binding
from e2e.manifests import a_group, a_pod
from kai.kube.client import PatchKind
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    PVCS,
    PVS,
    QUEUES,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kai.model import names

POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")


def as_anybody(w):
    """Of all: what no process of ours does. The operator alone reads Secrets, those of its namespace."""
    yield Request(verb="list", resource=SECRETS), "cannot list resource"
    yield (
        Request(verb="get", resource=SECRETS, namespace=names.NAMESPACE, name="kai-grpc-tls-secret"),
        "cannot get resource|not found",
    )
    yield Request(verb="get", resource=SECRETS, namespace=w.namespace, name="theirs"), "cannot get resource"
    yield w.create(NAMESPACES, {"metadata": {"name": "mine"}}), "cannot create resource"
    yield w.create(PODS, a_pod("x", w.namespace, w.queue)), "cannot create resource"
    yield w.create(PODS, a_pod("x", "kube-system", w.queue), namespace="kube-system"), "cannot create"
    yield w.image("kai", namespace="kube-system"), "cannot patch|not found"
    yield w.patch(VALIDATING_WEBHOOKS, "kai-queue-validation-v2", {"webhooks": []}), "cannot patch resource"
    yield w.delete(POLICIES, "kai-accounts-pods-update"), "cannot delete resource"
    yield w.patch(DEPLOYMENTS, "binder", {"spec": {"replicas": 9}}, namespace=names.NAMESPACE), "cannot patch"
    yield w.patch(QUEUES, w.queue, {"spec": {"priority": 999}}), "cannot patch resource"
    yield w.create(ROLES, {"metadata": {"name": "all"}, "rules": []}), "cannot create resource"


def as_pod_grouper(w):
    yield w.image("own"), "may not change fields: spec"
    yield w.marked(PODS, "own", labels={"runai-gpu-group": "x"}), "labels:? runai-gpu-group"
    yield w.marked(PODS, "own", labels={"app": "other"}), "may not change labels: app"
    yield (
        w.marked(PODS, "own", annotations={"received-resource-type": "Fraction"}),
        "annotations:? received-resource-type",
    )
    yield w.patch(PODS, "own", {"metadata": {"finalizers": ["a.b/c"]}}), "metadata: finalizers"
    yield w.marked(PODS, "foreign", annotations={"pod-group-name": "x"}), "whose schedulerName is kai"
    yield w.patch(POD_GROUPS, w.group, {"spec": {"queue": "other"}}), "may not change the queue"
    yield w.patch(POD_GROUPS, w.group, {"metadata": {"finalizers": ["a.b/c"]}}), "may not add finalizers"
    yield (
        w.marked(POD_GROUPS, w.group, annotations={names.LAST_START_TIMESTAMP: "2030-01-01T00:00:00Z"}),
        "only podgroup-controller may write",
    )
    yield w.status(POD_GROUPS, w.group, {"phase": "x"}), "cannot patch resource"
    yield w.delete(POD_GROUPS, w.group), "cannot delete resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield w.event("kubelet"), "only what its own process saw"


def as_podgroup_controller(w):
    yield w.status(PODS, "own", {"phase": "Failed"}), "may not change status: phase"
    yield w.marked(PODS, "own", labels={"app": "other"}, subresource="status"), "labels: app"
    yield from conditions(w, "PodScheduled")
    scheduled = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    yield (
        w.status(PODS, "waits", scheduled, kind=PatchKind.STRATEGIC),
        "may say only that a pod is not scheduled",
    )
    yield w.patch(POD_GROUPS, w.group, {"spec": {"queue": "other"}}), "may not change fields: spec"
    yield w.marked(POD_GROUPS, w.group, labels={"a": "b"}), "may not change labels: a"
    yield w.image("own"), "cannot patch resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield w.event("kubelet"), "only what its own process saw"


def as_queue_controller(w):
    yield w.patch(QUEUES, w.queue, {"spec": {"parentQueue": "x"}}), "cannot patch resource"
    yield w.image("own"), "cannot patch resource"
    yield w.status(POD_GROUPS, w.group, {"phase": "x"}), "cannot patch resource"


def as_scheduler(w):
    yield w.delete(PODS, "foreign"), "whose schedulerName is kai-scheduler"
    yield w.delete(PODS, w.reservation, namespace=RESERVATION), "whose schedulerName is kai-scheduler"
    yield w.image("own"), "cannot patch resource"
    yield w.status(PODS, "own", {"phase": "Failed"}), "cannot patch resource"
    yield (
        w.create(PODS, {"metadata": {"name": "own"}}, name="own", subresource="eviction"),
        "cannot create resource",
    )
    yield w.create(PODS, binding(w), name="waits", subresource="binding"), "cannot create resource"
    yield w.patch(POD_GROUPS, w.group, {"spec": {"queue": "other"}}), "cannot patch resource"
    yield w.event("kai-scheduler"), "cannot create resource"


def as_binder(w):
    # Pods of users.
    yield w.image("own"), "may not change fields: spec"
    yield w.image("foreign"), "may not change fields: spec"
    yield w.marked(PODS, "own", labels={names.QUEUE_LABEL: "x"}), "may not change labels: kai.scheduler/queue"
    yield w.marked(PODS, "own", annotations={"gpu-fraction": "0.01"}), "annotations: gpu-fraction"
    yield w.marked(PODS, "foreign", labels={"runai-gpu-group": "x"}), "whose schedulerName is kai-scheduler"
    yield w.delete(PODS, "foreign"), "whose schedulerName is kai-scheduler"
    yield w.delete(PODS, "own"), "only pods that share a GPU"
    yield w.status(PODS, "own", {"phase": "Failed"}), "may not change status: phase"
    yield w.marked(PODS, "own", labels={"app": "other"}, subresource="status"), "labels: app"
    yield from conditions(w, "PodBound")
    yield (
        w.create(PODS, binding(w, annotations={"gpu-fraction": "1"}), name="waits", subresource="binding"),
        "only the annotations that tell the pod group and what was granted",
    )
    yield (
        w.create(PODS, binding(w, labels={"app": "other"}), name="waits", subresource="binding"),
        "no labels but those of the topology",
    )
    # Reservation pods.
    at = {"namespace": RESERVATION}
    yield w.image(w.reservation, container="resource-reservation", **at), "may not change fields: spec"
    yield w.marked(PODS, w.reservation, labels={"runai-gpu-group": "x"}, **at), "labels: runai-gpu-group"
    yield w.marked(PODS, w.reservation, annotations={names.RESERVED_GPU: "9"}, **at), "annotations: run.ai"
    yield w.reserving(container={"securityContext": {"privileged": True}}), "may not be privileged"
    yield (
        w.reserving(container={"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
        "nor have capabilities added",
    )
    yield w.reserving(container={"image": "evil"}), "may only have the images"
    yield w.reserving(container={"image": f"{w.reservation_image}/evil"}), "may only have the images"
    yield w.reserving(container={"command": ["sh"]}), "runs what its image is for"
    yield w.reserving(spec={"hostNetwork": True}), "network, processes or memory of its host"
    yield w.reserving(spec={"hostPID": True}), "network, processes or memory of its host"
    host = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    yield w.reserving(spec=host), "no volumes of the host"
    secret = {"name": "x", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    yield w.reserving(container={"env": [secret]}), "may read no secrets"
    yield w.reserving(spec={"serviceAccountName": "default"}), "runs as service account"
    yield w.reserving(metadata={"labels": {"app": "other"}}), "only pods with the label app="
    # What pods need.
    yield w.create(CONFIG_MAPS, {"metadata": {"name": "mine"}, "data": {}}), "that belong to one pod"
    yield w.delete(CONFIG_MAPS, "theirs"), "that belong to one pod"
    yield w.patch(CONFIG_MAPS, "theirs", {"data": {"ca.crt": "x"}}), "that belong to one pod"
    yield w.patch(CONFIG_MAPS, w.config_map, {"data": {"start.sh": "x"}}), "what a container learns"
    yield (
        w.patch(CONFIG_MAPS, "kai-scheduler-default", {"data": {}}, namespace=names.NAMESPACE),
        "that belong to one pod",
    )
    yield (
        w.patch(PVS, f"volume-{w.namespace}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        "only the claim",
    )
    yield w.marked(PVS, f"volume-{w.namespace}", labels={"a": "b"}), "may not change labels: a"
    yield w.patch(PVCS, "data", {"metadata": {"finalizers": []}}), "metadata: finalizers"
    yield w.marked(PVCS, "data", annotations={"a": "b"}), "may not change annotations: a"
    told = "only claims for the extended resources of a pod"
    yield w.create(RESOURCE_CLAIMS, {"metadata": {"name": "mine"}, "spec": {}}), told
    yield w.marked(RESOURCE_CLAIMS, "device", labels={names.QUEUE_LABEL: "other"}), told
    yield w.patch(RESOURCE_CLAIMS, "device", {"metadata": {"finalizers": ["a.b/c"]}}), told
    yield w.delete(RESOURCE_CLAIMS, "device"), told


def as_admission(w):
    yield w.image("own"), "cannot patch resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield Request(verb="list", resource=PODS), "cannot list resource"
    yield Request(verb="list", resource=CONFIG_MAPS), "cannot list resource"


def as_reservation(w):
    """Two policies refuse the same; either may answer."""
    at = {"namespace": RESERVATION}
    yield w.image(w.reservation, container="resource-reservation", **at), "may not change fields: spec"
    yield (
        w.marked(PODS, w.reservation, annotations={names.RESERVED_GPU: "9"}, **at),
        "only the device of its|is told once",
    )
    yield w.marked(PODS, w.reservation, labels={"runai-gpu-group": "x"}, **at), "labels|only the binder may"
    yield w.delete(PODS, w.reservation, **at), "cannot delete resource"
    yield w.image("own"), "cannot patch resource"


def as_tenant(w):
    told = "only the binder may write them"
    yield w.marked(PODS, w.shares, labels={"runai-gpu-group": "other"}), told
    yield w.patch(PODS, w.shares, {"metadata": {"labels": {"runai-gpu-group": None}}}), told
    yield w.marked(PODS, "own", labels={"runai-gpu-group/x": "x"}), told
    yield w.marked(PODS, "own", annotations={"received-resource-type": "Fraction"}), told
    yield w.marked(PODS, "own", annotations={names.NUMA_OBSERVED: "[]"}), told
    yield (
        w.create(PODS, a_pod("x", w.namespace, w.queue, annotations={names.NUMA_OBSERVED: "[]"})),
        told,
    )
    yield w.marked(PODS, "own", labels={"runai-gpu-group": "other"}, subresource="status"), told
    yield w.create(PODS, a_pod("x", w.namespace, w.queue, labels={"runai-gpu-group": "x"})), told
    yield (
        w.create(
            PODS,
            binding(w, annotations={"received-resource-type": "Regular"}),
            name="waits",
            subresource="binding",
        ),
        told,
    )
    yield w.status(POD_GROUPS, w.group, {"phase": "x"}), "only they may write it"
    yield (
        w.marked(POD_GROUPS, w.group, annotations={names.LAST_START_TIMESTAMP: "2030-01-01T00:00:00Z"}),
        "only podgroup-controller may write",
    )
    group = a_group("mine", w.namespace, w.queue)
    group["metadata"]["annotations"] = {names.LAST_START_TIMESTAMP: "2030-01-01T00:00:00Z"}
    yield w.create(POD_GROUPS, group), "only podgroup-controller may write"
    yield w.reserving(), "cannot create resource"


def conditions(w, own):
    """Another condition than one's own."""
    told = {"conditions": [{"type": "Ready", "status": "False"}]}
    yield w.status(PODS, "own", told, kind=PatchKind.STRATEGIC), f"only the condition {own}"


def on_leases(w, account):
    """Taking over what others lead by, and making it first; of all accounts."""
    at = {"namespace": names.NAMESPACE}
    own = LEASES_OF.get(account)
    schedulers = "only the Leases of schedulers"
    for name in sorted({*LEASES_OF.values()} - {own}):
        # A role cannot say how the Leases of schedulers are called: what it lets through a policy refuses.
        replaced = schedulers if account == "scheduler" else "cannot update resource"
        deleted = schedulers if account == "kai-operator" else "cannot delete resource"
        yield w.update(LEASES, name, a_lease(name), **at), replaced
        yield w.patch(LEASES, name, a_lease(name), **at), "cannot patch resource"
        yield w.delete(LEASES, name, **at), deleted
    if account == "scheduler":
        yield w.create(LEASES, a_lease("other"), **at), schedulers
    else:
        refused = "only the Lease of its own" if own else "cannot create resource"
        yield w.create(LEASES, a_lease("kai-scheduler-other"), **at), refused
    yield w.create(LEASES, a_lease("x"), namespace="kube-system"), "cannot create resource"


def as_adjuster(w):
    yield w.scaling(metadata={"labels": {"app": "other"}}), "only pods with the label app="
    yield w.scaling(container={"image": "evil"}), "may only have the images"
    yield w.scaling(container={"image": f"{w.reservation_image}/evil"}), "may only have the images"
    yield w.scaling(container={"args": ["sh"]}), "runs what its image is for"
    yield w.scaling(container={"securityContext": {"privileged": True}}), "may not be privileged"
    yield w.scaling(container={"env": [{"name": "a", "value": "b"}]}), "reads nothing"
    yield w.scaling(spec={"hostNetwork": True}), "network, processes or memory of its host"
    yield w.scaling(spec={"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}), "reads nothing"
    yield w.scaling(spec={"nodeName": "node-0"}), "a scaling pod has no node"
    yield w.scaling(spec={"schedulerName": "default-scheduler"}), "is for no scheduler to place"
    yield w.scaling(namespace=w.namespace), "cannot create resource"
    yield w.image("own"), "cannot patch resource"
    yield w.status(PODS, "own", {"phase": "Failed"}), "cannot patch resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield w.delete(PODS, w.reservation, namespace=RESERVATION), "cannot delete resource"
    yield w.event("kubelet"), "only what its own process saw"


def as_exporter(w):
    yield w.marked(PODS, "own", annotations={names.NUMA_OBSERVED: "[]"}), "of the pods of its own node"
    yield w.marked(PODS, "own", annotations={names.NUMA_PREDICTED: "[]"}), "annotations:|only the binder may"
    yield w.marked(PODS, "own", labels={"app": "other"}), "may not change labels: app"
    yield w.image("own"), "may not change fields: spec"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield Request(verb="list", resource=CONFIG_MAPS), "cannot list resource"


def as_insight(w):
    yield w.image("own"), "cannot patch resource"
    yield w.status(PODS, "own", {"phase": "Failed"}), "cannot patch resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield w.marked(POD_GROUPS, w.group, labels={"app": "other"}), "cannot patch resource"
    yield w.create(PODS, a_pod("x", w.namespace, w.queue)), "cannot create resource"
    yield Request(verb="list", resource=SECRETS, namespace=names.NAMESPACE), "cannot list resource"
    yield Request(verb="list", resource=CONFIG_MAPS), "cannot list resource"
    yield w.event("kubelet"), "cannot create resource"


def as_operator(w):
    home = {"namespace": names.NAMESPACE}
    yield Request(verb="list", resource=SECRETS, namespace=RESERVATION), "cannot list resource"
    yield w.create(DEPLOYMENTS, a_program({})), "cannot create resource"
    host = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    yield w.create(DEPLOYMENTS, a_program(host), **home), "no volumes of the host"
    yield w.create(DAEMON_SETS, a_program(host), **home), "no volumes of the host"
    yield w.create(DEPLOYMENTS, a_program({"hostNetwork": True}), **home), "network, processes or memory"
    privileged = {"securityContext": {"privileged": True}}
    yield w.create(DEPLOYMENTS, a_program({}, container=privileged), **home), "may not be privileged"
    for_hooks = {"serviceAccountName": "kai-crd-upgrader"}
    yield w.create(DEPLOYMENTS, a_program(for_hooks), **home), "accounts of an installation"
    yield w.create(DAEMON_SETS, a_program(for_hooks), **home), "accounts of an installation"
    yield w.create(SERVICE_ACCOUNTS, {"metadata": {"name": "x"}}), "cannot create resource"
    yield w.create(SECRETS, {"metadata": {"name": "x"}}, **home), "only the Secrets of an installation"
    told = {
        "name": "insight-grpc-tls-secret",
        "annotations": {"kubernetes.io/service-account.name": "binder"},
    }
    token = {"metadata": told, "type": "kubernetes.io/service-account-token"}
    yield w.create(SECRETS, token, **home), "no token of an account"
    yield w.patch(CRDS, "configs.kai.scheduler", {"spec": {"scope": "Namespaced"}}), "cannot patch resource"
    yield w.patch(CONFIGS, "kai-config", {"spec": {}}), "cannot patch resource"
    yield w.delete(VALIDATING_WEBHOOKS, "of-others"), "cannot delete resource"
    urgent = {"metadata": {"name": "urgent"}, "value": 1000}
    yield w.create(PRIORITY_CLASSES, urgent), "only the priority classes of an installation"
    yield w.delete(PRIORITY_CLASSES, "urgent"), "cannot delete resource"
    yield w.image("own"), "cannot patch resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield w.event("kubelet"), "only what its own process saw"


def a_program(spec, *, container=None):
    """A Deployment or DaemonSet that runs nothing."""
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "none", **(container or {})}], **spec},
    }
    return {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
    }


#: By account.
ATTACKS = {
    "kai-operator": as_operator,
    "admission": as_admission,
    "binder": as_binder,
    "insight": as_insight,
    "node-scale-adjuster": as_adjuster,
    "numa-placement-exporter": as_exporter,
    "pod-grouper": as_pod_grouper,
    "podgroup-controller": as_podgroup_controller,
    "queue-controller": as_queue_controller,
    "scheduler": as_scheduler,
    names.RESERVATION_SERVICE_ACCOUNT: as_reservation,
}
