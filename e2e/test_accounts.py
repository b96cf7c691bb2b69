"""With the credentials of each of our processes: what it needs not do is refused, and the reason said.

Roles refuse most of it, admission policies of the chart the rest: they hold what an account may write to what
its process writes. What only our accounts may write is refused to tenants; administrators can repair it.
"""

import asyncio
import contextlib
import re
from dataclasses import replace

import pytest

from e2e.accounts import OURS, Request, acting_as
from e2e.harness import REAL
from e2e.manifests import a_claim, a_deployment, a_group, a_pod, as_yaml
from helm.tests import rights
from helm.tests.rights import Right
from kai.kube.client import PatchKind
from kai.kube.errors import Forbidden
from kai.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PVCS,
    PVS,
    QUEUES,
    RESOURCE_CLAIMS,
    SECRETS,
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
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
TENANT = "tenant"
RESERVATION = names.RESERVATION_NAMESPACE


@pytest.fixture(autouse=True, scope="module")
def policies(embedded):
    """Accounts and policies are those of the chart."""
    if not REAL:
        pytest.skip("needs a control plane on which the chart is installed")


@pytest.fixture
async def world(cluster, queue, namespace):
    """A pod of ours, one of another scheduler, two that share a GPU, and a tenant who may do all in here."""
    own = await queue()
    await cluster.apply(
        as_yaml(
            a_pod("own", namespace, own),
            a_pod("waits", namespace, own, spec={"nodeSelector": {"nowhere": "yes"}}),
            foreign(namespace),
            a_deployment("shares", namespace, own, annotations={"gpu-fraction": "0.4"}),
            a_claim("data", namespace, storage_class="none"),
            a_volume(f"volume-{namespace}"),
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": TENANT, "namespace": namespace},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": TENANT, "namespace": namespace},
                "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": TENANT, "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TENANT},
                "subjects": [{"kind": "ServiceAccount", "name": TENANT, "namespace": namespace}],
            },
        )
    )
    await cluster.running(namespace, "own", count=1)
    [shares] = await cluster.running(namespace, "shares", count=1)
    await cluster.waits(namespace, "waits")
    reservations = await cluster.pods(RESERVATION)
    group = shares.labels[names.GPU_GROUP_LABEL]
    [reservation] = [pod for pod in reservations if pod.labels[names.GPU_GROUP_LABEL] == group]
    groups = await cluster.client.list(POD_GROUPS, namespace=namespace)
    body = await cluster.client.get(PODS, reservation.metadata.name, namespace=RESERVATION)
    image = body["spec"]["containers"][0]["image"]
    yield World(namespace, own, shares, reservation, groups[0]["metadata"]["name"], image)
    await cluster.delete("v1", "PersistentVolume", f"volume-{namespace}")


class World:
    """Where the attacks are played; requests for them, in short."""

    def __init__(self, namespace, queue, shares, reservation, group, image):
        self.namespace, self.queue, self.group = namespace, queue, group
        self.shares, self.reservation = shares.metadata.name, reservation.metadata.name
        self.config_map = f"{shares.annotations[names.SHARED_GPU_CONFIGMAP]}-0"
        self.reservation_image = image

    def patch(self, resource, name, body, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="patch", resource=resource, name=name, body=body, **{"namespace": place} | more)

    def status(self, resource, name, body, **more):
        return self.patch(resource, name, {"status": body}, subresource="status", **more)

    def marked(self, resource, name, *, labels=None, annotations=None, **more):
        return self.patch(
            resource, name, {"metadata": {"labels": labels or {}, "annotations": annotations or {}}}, **more
        )

    def image(self, name, *, container="main", **more):
        spec = {"containers": [{"name": container, "image": "evil"}]}
        return self.patch(PODS, name, {"spec": spec}, kind=PatchKind.STRATEGIC, **more)

    def create(self, resource, body, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="create", resource=resource, body=body, **{"namespace": place} | more)

    def delete(self, resource, name, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="delete", resource=resource, name=name, **{"namespace": place} | more)

    def event(self, controller):
        body = {
            "metadata": {"name": "told", "namespace": self.namespace},
            "eventTime": "2030-01-01T00:00:00.000000Z",
            "reportingController": controller,
            "reportingInstance": "x",
            "action": "Killing",
            "reason": "Killing",
            "type": "Normal",
            "regarding": {"kind": "Pod", "namespace": self.namespace, "name": "own"},
        }
        return self.create(EVENTS, body)

    def reserving(self, *, container=None, spec=None, metadata=None, namespace=RESERVATION):
        """A reservation pod as the binder makes it, but for what is said."""
        body = {
            "metadata": {
                "name": "gpu-reservation-evil",
                "labels": {"app": names.RESERVATION_APP},
                **(metadata or {}),
            },
            "spec": {
                "serviceAccountName": names.RESERVATION_SERVICE_ACCOUNT,
                "containers": [
                    {"name": "resource-reservation", "image": self.reservation_image, **(container or {})}
                ],
                **(spec or {}),
            },
        }
        return self.create(PODS, body, namespace=namespace)


def foreign(namespace):
    pod = a_pod("foreign", namespace, "none")
    pod["spec"]["schedulerName"] = "default-scheduler"
    return pod


def a_volume(name):
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "other",
        "hostPath": {"path": "/data"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def a_lease(name):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 3600}}


# --- what is tried -----------------------------------------------------------------------------
def as_anybody(w):
    """Of all: what no process of ours does."""
    yield Request(verb="list", resource=SECRETS), "cannot list resource"
    yield (
        Request(verb="get", resource=SECRETS, namespace=names.NAMESPACE, name="kai-grpc-tls-secret"),
        "cannot get resource",
    )
    yield w.create(NAMESPACES, {"metadata": {"name": "mine"}}), "cannot create resource"
    yield w.create(PODS, a_pod("x", w.namespace, w.queue)), "cannot create resource"
    yield w.create(PODS, a_pod("x", "kube-system", w.queue), namespace="kube-system"), "cannot create"
    yield w.image("kai", namespace="kube-system"), "cannot patch|not found"
    yield w.patch(VALIDATING_WEBHOOKS, "kai-queue-validation-v2", {"webhooks": []}), "cannot patch resource"
    yield w.delete(POLICIES, "kai-binder-pods"), "cannot delete resource"
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
    yield from leases(w, "54dff599.kai.scheduler")


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
    yield from leases(w, "kai-podgroup-controller")


def as_queue_controller(w):
    yield w.patch(QUEUES, w.queue, {"spec": {"parentQueue": "x"}}), "cannot patch resource"
    yield w.image("own"), "cannot patch resource"
    yield w.status(POD_GROUPS, w.group, {"phase": "x"}), "cannot patch resource"
    yield from leases(w, "kai-queue-controller")


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
    yield from leases(w, "kai-scheduler")


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
        "only the annotations that tell what was granted",
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
    yield w.delete(CONFIG_MAPS, "kube-root-ca.crt"), "that belong to one pod"
    yield w.patch(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"ca.crt": "x"}}), "that belong to one pod"
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
    yield w.create(RESOURCE_CLAIMS, {"metadata": {"name": "mine"}, "spec": {}}), "extended resources of a pod"
    yield from leases(w, None)


def as_admission(w):
    yield w.image("own"), "cannot patch resource"
    yield w.delete(PODS, "own"), "cannot delete resource"
    yield Request(verb="list", resource=PODS), "cannot list resource"
    yield Request(verb="list", resource=CONFIG_MAPS), "cannot list resource"
    yield from leases(w, None)


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


def leases(w, own):
    """Taking over what others lead by, and making it first."""
    at = {"namespace": names.NAMESPACE}
    known = {"kai-scheduler", "kai-podgroup-controller", "kai-queue-controller", "54dff599.kai.scheduler"}
    for name in sorted(known - {own}):
        body = a_lease(name)
        yield w.patch(LEASES, name, body, **at), "cannot patch resource"
        yield w.delete(LEASES, name, **at), "cannot delete resource"
    refused = "only the Lease of its own" if own else "cannot create resource"
    yield w.create(LEASES, a_lease("kai-scheduler-other"), **at), refused
    yield w.create(LEASES, a_lease("x"), namespace="kube-system"), "cannot create resource"


def binding(w, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "waits", "namespace": w.namespace, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }


ATTACKS = {
    "admission": as_admission,
    "binder": as_binder,
    "pod-grouper": as_pod_grouper,
    "podgroup-controller": as_podgroup_controller,
    "queue-controller": as_queue_controller,
    "scheduler": as_scheduler,
    names.RESERVATION_SERVICE_ACCOUNT: as_reservation,
}


# --- tests -------------------------------------------------------------------------------------
async def test_whoever_has_the_token_of_a_process_gets_nothing_that_it_does_not_need(
    cluster, world, tmp_path
):
    got = []
    for account, attacks in ATTACKS.items():
        async with acting_as(cluster, tmp_path, account) as client:
            tried = [*as_anybody(world), *attacks(world)]
            answers = await asyncio.gather(*(refusal(client, request) for request, _ in tried))
        for (request, words), answer in zip(tried, answers, strict=True):
            if not re.search(words, answer):
                got.append(f"{account}: {describe(request)}: {answer}, instead of {words!r}")
    assert not got, "\n".join(got)
    assert ATTACKS.keys() == OURS.keys()


async def test_a_tenant_cannot_write_what_was_granted_nor_what_became_of_it(cluster, world, tmp_path):
    got = []
    async with acting_as(cluster, tmp_path, TENANT, namespace=world.namespace) as client:
        for request, words in as_tenant(world):
            answer = await refusal(client, request)
            if words not in answer:
                got.append(f"{describe(request)}: {answer}, instead of {words!r}")
    assert not got, "\n".join(got)


async def test_a_tenant_whose_job_asks_for_what_only_the_binder_grants_gets_no_pods(
    cluster, queue, namespace
):
    own = await queue()
    await cluster.apply(as_yaml(a_deployment("sly", namespace, own, labels={"runai-gpu-group": "x"})))

    async def told():
        events = await cluster.client.list(EVENTS, namespace=namespace)
        return [event["note"] for event in events if event["reason"] == "FailedCreate"]

    notes = await cluster.eventually(told, bool, what="the ReplicaSet is told")
    assert "only the binder may write them" in notes[0]


async def test_a_reservation_pod_tells_the_device_of_its_own_once(cluster, tmp_path):
    account = names.RESERVATION_SERVICE_ACCOUNT
    pods = [reservation(name) for name in ("told-by-itself", "told-by-another")]
    own, other = [await cluster.client.create(PODS, pod, namespace=RESERVATION) for pod in pods]
    told = {"metadata": {"annotations": {names.RESERVED_GPU: "GPU-1"}}}
    try:
        async with acting_as(cluster, tmp_path, account, pod=own) as client:
            with pytest.raises(Forbidden, match="may tell only the device of its own"):
                await client.patch(PODS, other["metadata"]["name"], told, namespace=RESERVATION)
            await client.patch(PODS, own["metadata"]["name"], told, namespace=RESERVATION)
            told["metadata"]["annotations"][names.RESERVED_GPU] = "GPU-2"
            with pytest.raises(Forbidden, match="is told once"):
                await client.patch(PODS, own["metadata"]["name"], told, namespace=RESERVATION)
    finally:
        for pod in (own, other):
            await cluster.client.delete(PODS, pod["metadata"]["name"], namespace=RESERVATION, grace_seconds=0)


def reservation(name):
    """A pod of that account which no node takes."""
    return {
        "metadata": {"name": name},
        "spec": {
            "serviceAccountName": names.RESERVATION_SERVICE_ACCOUNT,
            "schedulerName": "nobody",
            "containers": [{"name": "main", "image": "none"}],
        },
    }


async def test_networks_and_device_plugins_may_write_on_reservation_pods_what_is_theirs(
    cluster, world, namespace, tmp_path
):
    await cluster.apply(
        as_yaml(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": namespace, "namespace": RESERVATION},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": namespace, "namespace": RESERVATION},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": namespace},
                "subjects": [{"kind": "ServiceAccount", "name": TENANT, "namespace": namespace}],
            },
        )
    )
    at, ours = {"namespace": RESERVATION}, "only the binder may make them"
    unlabelled, named = reservation(f"{namespace}-other"), world.reservation
    tried = [
        (world.marked(PODS, named, annotations={"network.example.com/address": "10.0.0.1"}, **at), "done"),
        (world.create(PODS, unlabelled, **at), "done"),
        (
            world.marked(PODS, unlabelled["metadata"]["name"], annotations={names.RESERVED_GPU: "1"}, **at),
            "done",
        ),
        (
            world.marked(PODS, unlabelled["metadata"]["name"], annotations={names.RESERVED_GPU: "2"}, **at),
            "told once",
        ),
        (
            world.marked(PODS, unlabelled["metadata"]["name"], labels={"app": names.RESERVATION_APP}, **at),
            ours,
        ),
        (
            world.marked(
                PODS, named, annotations={f"{names.RESERVATION_CLAIM_PREFIX}me": "9 a/b 1x0.01"}, **at
            ),
            ours,
        ),
        (world.reserving(), ours),
    ]
    try:
        async with acting_as(cluster, tmp_path, TENANT, namespace=namespace) as client:
            answers = [await refusal(client, request) for request, _ in tried]
        assert [words in answer for (_, words), answer in zip(tried, answers, strict=True)] == [True] * len(
            tried
        ), answers
    finally:
        await cluster.client.delete(PODS, unlabelled["metadata"]["name"], grace_seconds=0, **at)
        await cluster.client.delete(ROLE_BINDINGS, namespace, **at)
        await cluster.client.delete(ROLES, namespace, **at)


async def test_an_administrator_can_repair_everything(cluster, world):
    repairs = [
        world.marked(PODS, "waits", labels={"runai-gpu-group": "repaired"}),
        world.status(POD_GROUPS, world.group, {"phase": "x"}),
        world.marked(
            POD_GROUPS, world.group, annotations={names.LAST_START_TIMESTAMP: "2020-01-01T00:00:00Z"}
        ),
        world.marked(PODS, world.reservation, annotations={"a": "b"}, namespace=RESERVATION),
    ]
    for request in repairs:
        await request.send(cluster.client)


async def test_the_api_server_finds_nothing_wrong_with_the_policies(cluster):
    """Expressions are checked against the types of what they are about; no policy matches nothing."""
    policies = [
        policy
        for policy in await cluster.client.list(POLICIES)
        if policy["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == "kai-scheduler"
    ]
    assert policies
    for policy in policies:
        assert not policy["status"].get("typeChecking"), policy["metadata"]["name"]


async def refusal(client, request):
    """What the API server says against it; that it did not is said too."""
    with contextlib.suppress(Forbidden):
        try:
            await request.send(client)
        except Forbidden as refused:
            return str(refused)
        except Exception as other:  # noqa: BLE001 (is told as what it is)
            return f"{type(other).__name__}: {other}"
    return "done"


def describe(request):
    subresource = f"/{request.subresource}" if request.subresource else ""
    return f"{request.verb} {request.resource.plural}{subresource} {request.namespace}/{request.name}"


# --- the table of rights -----------------------------------------------------------------------
RULES = Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False)
ACCESS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
#: Asked of every resource; who may not create, change or delete may not do the rest either, but read.
VERBS = ("get", "list", "create", "patch", "update", "delete")


@pytest.fixture
def table():
    """The rights that are checked in; by account, those that hold in a namespace."""
    held = rights.checked_in()

    def rights_of(account, where):
        return held.get((account, rights.EVERYWHERE), set()) | held.get((account, where), set())

    return rights_of


async def rules_in(client, namespace):
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": RULES.kind,
        "spec": {"namespace": namespace},
    }
    status = (await client.create(RULES, body))["status"]
    assert not status.get("incomplete")
    return rights.of_rules(status["resourceRules"])


async def test_the_api_server_lists_for_each_account_what_the_table_says(cluster, namespace, table, tmp_path):
    """In our namespaces, a tenant's, and that of the system; what everybody may does not count."""
    async with acting_as(cluster, tmp_path, "default", namespace=namespace) as client:
        anybody = await rules_in(client, namespace)
    for account in OURS:
        async with acting_as(cluster, tmp_path, account) as client:
            for where in (names.NAMESPACE, RESERVATION, namespace, "kube-system"):
                found = await rules_in(client, where) - anybody
                assert found == table(account, where), f"{account} in {where}"


async def test_every_resource_that_is_served_is_refused_but_what_the_table_says(cluster, namespace, table):
    """Subresources too, and each Lease by its name. Everybody may ask what he may do himself."""
    served = await resources_of(cluster.client)
    assert {("", "pods/exec"), ("", "secrets"), ("coordination.k8s.io", "leases")} <= served
    leases = ("kai-scheduler", "kai-podgroup-controller", "kai-queue-controller", "54dff599.kai.scheduler")
    questions = [
        (account, where, Right(verb, group, resource))
        for account in OURS
        for group, resource in served
        for verb in VERBS
        for where in (namespace, names.NAMESPACE, RESERVATION)
        if verb in ("list", "patch") or where == namespace
    ]
    questions += [
        (account, names.NAMESPACE, Right(verb, "coordination.k8s.io", "leases", lease))
        for account in OURS
        for lease in leases
        for verb in ("update", "patch", "delete")
    ]
    at_once = asyncio.Semaphore(32)

    async def ask(account, where, right):
        async with at_once:
            return await allowed(cluster.client, account, where, right)

    answers = await asyncio.gather(*(ask(*question) for question in questions))
    wrong = [
        f"{account} {'may' if answer else 'may not'} {right.verb} {right.noun} in {where}"
        for (account, where, right), answer in zip(questions, answers, strict=True)
        if answer != bool({right, replace(right, name="")} & table(account, where))
    ]
    assert not wrong, "\n".join(wrong)
    assert any(answers)


async def resources_of(client):
    """All (group, resource) of the newest version of each group, subresources included."""
    groups = [("", "/api/v1")] + [
        (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
        for group in (await client.raw("/apis"))["groups"]
    ]
    found = await asyncio.gather(*(client.raw(path) for _, path in groups))
    return {
        (group, resource["name"])
        for (group, _), listed in zip(groups, found, strict=True)
        for resource in listed["resources"]
        if not resource["name"].startswith("selfsubject")
    }


async def allowed(client, account, where, right):
    resource, _, subresource = right.resource.partition("/")
    namespace = OURS[account]
    spec = {
        "user": f"system:serviceaccount:{namespace}:{account}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
        "resourceAttributes": {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": where,
            "name": right.name,
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": ACCESS.kind, "spec": spec}
    return (await client.create(ACCESS, body))["status"]["allowed"]
