"""A cluster on which the chart is installed, and somebody in it to be robbed."""

import contextlib
import os

import pytest

from e2e.accounts.world import RESERVATION, TENANT, World, a_volume, foreign
from e2e.dra import Driver
from e2e.harness import chart_cluster
from e2e.manifests import a_claim, a_deployment, a_pod, as_yaml
from kai.kube.errors import AlreadyExists
from kai.kube.resources import LEASES, POD_GROUPS, PODS
from kai.model import names


@pytest.fixture(scope="session")
def embedded(request):
    """Instead of the suite's cluster, one with the chart, and with every account that there may be."""
    if os.environ.get("KAI_E2E_KUBECONFIG"):
        yield request.getfixturevalue("embedded")
        return
    helm = request.getfixturevalue("helm_program")
    folder = request.getfixturevalue("tmp_path_factory").mktemp("accounts")
    with chart_cluster("accounts", folder, helm, "--autoscaling", "--history") as made:
        yield made


@pytest.fixture
async def world(cluster, queue, namespace):
    """A pod of ours, one of another scheduler, two that share a GPU, and a tenant who may do all in here."""
    own = await queue()
    await cluster.apply(
        as_yaml(
            a_pod("own", namespace, own),
            a_pod("waits", namespace, own, spec={"nodeSelector": {"nowhere": "yes"}}),
            foreign(namespace),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": namespace}},
            a_deployment("shares", namespace, own, annotations={"gpu-fraction": "0.4"}),
            a_claim("data", namespace, storage_class="none"),
            Driver("gpu.example.com", {}).a_claim("device", namespace, own),
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
    for name in names.LEASES.values():  # who does not run has none, and what is not there is not refused
        with contextlib.suppress(AlreadyExists):
            await cluster.client.create(LEASES, {"metadata": {"name": name}}, namespace=names.NAMESPACE)
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
