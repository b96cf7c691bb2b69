"""The chart's roles, in force: they allow all that the services ask for, and are what allows it.

Helm installs the chart into an embedded cluster. Each service runs with the arguments and the environment of
its Deployment and with the token of its service account, and whatever an account has no right to is refused.
"""

from collections import Counter

import pytest

from e2e.harness import REAL, chart_cluster
from e2e.manifests import a_deployment, a_job, a_pod, as_yaml
from kai.kube.resources import Resource
from kai.model import names

BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
#: What was asked for, beside much else: else a refusal might be missing for want of a request.
ASKED = {
    ("kai-scheduler", "watch", "pods"),
    ("kai-scheduler", "delete", "pods"),
    ("kai-podgroup-controller", "patch", "pods/status"),
    ("kai-scheduler", "create", "leases"),
    ("kai-binder", "create", "pods"),
    ("kai-binder", "create", "pods/binding"),
    ("kai-binder", "patch", "persistentvolumeclaims"),
    ("kai-binder", "create", "events"),
    ("kai-pod-grouper", "create", "podgroups"),
    ("kai-pod-grouper", "patch", "pods"),
    ("kai-podgroup-controller", "patch", "podgroups/status"),
    ("kai-queue-controller", "patch", "queues/status"),
}


@pytest.fixture(scope="module")
def embedded(helm_program, tmp_path_factory):
    """Instead of the suite's cluster, one in which the chart is installed."""
    if REAL:
        pytest.skip("on a real control plane the whole suite runs with the chart's roles")
    with chart_cluster("roles", tmp_path_factory.mktemp("roles"), helm_program, "--binders=2") as made:
        yield made


async def requests(cluster, number: str) -> Counter:
    """Requests of our services by (service, verb, resource); the ``number`` is ``count`` or ``forbidden``."""
    found: Counter = Counter()
    for entry in (await cluster.client.raw("/kai.local/requests"))["requests"]:
        service = entry["userAgent"].partition("/")[0]
        if service.startswith("kai-") and not service.startswith("kai-local"):
            found[service, entry["verb"], entry["resource"]] += entry[number]
    return +found


async def unasked(cluster) -> set:
    return ASKED - (await requests(cluster, "count")).keys()


def with_volume(pod: dict, claim: str) -> dict:
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return pod


def with_claim(pod: dict, claim: str) -> dict:
    pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": claim}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "device"}]
    return pod


async def add_devices(cluster, namespace: str) -> None:
    """A claim for a volume, and a device on a node with a claim for it."""
    [node, *_] = await cluster.worker_nodes()
    volume = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    devices = {
        "driver": "nic.example.com",
        "nodeName": node,
        "pool": {"name": "nics", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "nic-0"}],
    }
    wanted = {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": "nics"}}]}}
    await cluster.apply(
        as_yaml(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": namespace},
                "spec": volume,
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "nics"},
                "spec": {"selectors": [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]},
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": "nics"},
                "spec": devices,
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "nic", "namespace": namespace},
                "spec": wanted,
            },
        )
    )


async def test_the_roles_allow_all_that_the_services_ask_for(cluster, queue, namespace):
    free, full = await queue(), await queue(gpus=1, limit=1)
    await add_devices(cluster, namespace)
    await cluster.apply(
        as_yaml(
            a_pod("cpu", namespace, free),
            a_pod("whole", namespace, free, gpus=1),
            a_deployment("large-part", namespace, free, annotations={"gpu-fraction": "0.7"}),
            a_deployment("small-part", namespace, free, annotations={"gpu-fraction": "0.2"}),
            a_job("gang", namespace, free, pods=3, gang=3, gpus=2),
            a_job("too-large", namespace, free, pods=3, gang=3, gpus=8),
            with_volume(a_pod("volume", namespace, free), "data"),
            with_claim(a_pod("device", namespace, free), "nic"),
            a_pod("victim", namespace, full, gpus=1, labels={"priorityClassName": "train"}),
        )
    )
    expected = {"cpu": 1, "whole": 1, "gang": 3, "volume": 1, "device": 1, "victim": 1}
    for prefix, count in expected.items():
        await cluster.running(namespace, prefix, count=count)
    [large] = await cluster.running(namespace, "large-part", count=1)
    [small] = await cluster.running(namespace, "small-part", count=1)
    assert large.labels[names.GPU_GROUP_LABEL] == small.labels[names.GPU_GROUP_LABEL]
    await cluster.waits(namespace, "too-large")

    await cluster.apply(
        as_yaml(a_pod("urgent", namespace, full, gpus=1, labels={"priorityClassName": "inference"}))
    )
    await cluster.running(namespace, "urgent", count=1)
    assert not await cluster.pods(namespace, "victim")

    await cluster.eventually(lambda: unasked(cluster), lambda rest: not rest, what="these were requested")
    assert not await requests(cluster, "forbidden")


async def test_a_service_without_its_role_is_refused_and_goes_on_when_it_has_it_back(
    cluster, queue, namespace
):
    """Or the test above would show nothing."""
    free, refused = await queue(), ("kai-binder", "create", "pods/binding")
    binding = await cluster.client.get(BINDINGS, "kai-binder")
    await cluster.client.delete(BINDINGS, "kai-binder")
    await cluster.apply(as_yaml(a_pod("bound-late", namespace, free)))
    await cluster.eventually(
        lambda: requests(cluster, "forbidden"), lambda seen: refused in seen, what="a binding is refused"
    )
    binding["metadata"] = {"name": "kai-binder"}
    await cluster.client.create(BINDINGS, binding)
    await cluster.running(namespace, "bound-late", count=1)
