"""Pods of the reservation namespace: who may write what of them."""

import pytest

from e2e.accounts.acting import acting_as, refusal
from e2e.accounts.attacks import ROLES
from e2e.accounts.world import RESERVATION, TENANT
from e2e.manifests import as_yaml
from kai.kube.errors import Forbidden
from kai.kube.resources import PODS, Resource
from kai.model import names

ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


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
            answers = [await refusal(client, request, reader=cluster.client) for request, _ in tried]
        assert [words in answer for (_, words), answer in zip(tried, answers, strict=True)] == [True] * len(
            tried
        ), answers
    finally:
        await cluster.client.delete(PODS, unlabelled["metadata"]["name"], grace_seconds=0, **at)
        await cluster.client.delete(ROLE_BINDINGS, namespace, **at)
        await cluster.client.delete(ROLES, namespace, **at)
