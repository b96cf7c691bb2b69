"""The controllers of an embedded cluster, against its API server, with a simulated node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai.kube.resources import DEPLOYMENTS, JOBS, NODES, PDBS, PODS, STATEFUL_SETS, Resource
from kai.model.objects import Json
from kai_local.apiserver.serving.server import ApiServer
from kai_local.controllers.runner import Controllers
from kai_local.kubelet.kubelet import Kubelets
from kai_local.kubelet.nodes import NodeShape
from kai_local.parts.watches import Watches


@asynccontextmanager
async def machinery(client: KubeClient) -> AsyncIterator[None]:
    """One node and the controllers, until the body ends."""
    watches = Watches(client)
    parts = [watches, Kubelets(client, watches, count=1, shape=NodeShape()), Controllers(client, watches)]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        async with within("nodes are up and controllers run"):
            for part in parts:
                await part.ready.wait()
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of a cluster."""
    async with ApiServer() as server:
        kubeconfig = str(server.write_kubeconfig(tmp_path / "config"))
        async with KubeClient.connect(kubeconfig) as client, machinery(client):
            yield client


def a_template(restart_policy: str = "Always") -> Json:
    containers = [{"name": "c", "image": "i"}]
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": restart_policy, "containers": containers},
    }


async def pods_of(client: KubeClient, phase: str = "") -> list[Json]:
    """The pods, or those in this phase."""
    pods = await client.list(PODS, namespace="default")
    return [pod for pod in pods if phase in ("", pod.get("status", {}).get("phase"))]


async def finalizers(client: KubeClient) -> list[list[str]]:
    return [pod["metadata"].get("finalizers") or [] for pod in await pods_of(client)]


async def is_gone(client: KubeClient, resource: Resource, name: str) -> bool:
    listed = await client.list(resource, namespace="default")
    return all(body["metadata"]["name"] != name for body in listed)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_the_pods_of_a_job_that_is_deleted_go(cluster: KubeClient, propagation: str) -> None:
    spec = {"completions": 2, "parallelism": 2, "template": a_template("Never")}
    await cluster.create(JOBS, {"metadata": {"name": "job"}, "spec": spec}, namespace="default")
    await eventually(lambda: pods_of(cluster, "Running"), lambda pods: len(pods) == 2)
    await cluster.delete(JOBS, "job", namespace="default", propagation=propagation)
    await eventually(lambda: pods_of(cluster), lambda pods: not pods)


async def test_the_pods_of_a_job_that_is_orphaned_are_held_by_nothing(cluster: KubeClient) -> None:
    await cluster.create(
        JOBS, {"metadata": {"name": "job"}, "spec": {"template": a_template("Never")}}, namespace="default"
    )
    await eventually(lambda: pods_of(cluster, "Running"))
    await cluster.delete(JOBS, "job", namespace="default", propagation="Orphan")
    await eventually(lambda: finalizers(cluster), lambda found: found == [[]])


async def test_a_budget_says_how_many_may_be_evicted_and_counts_who_is(cluster: KubeClient) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await cluster.create(PDBS, {"metadata": {"name": "b"}, "spec": spec}, namespace="default")
    for name in ("a", "b"):
        template = a_template()
        pod = {**template, "metadata": {**template["metadata"], "name": name}}
        await cluster.create(PODS, pod, namespace="default")

    async def allowed() -> int | None:
        budget = await cluster.get(PDBS, "b", namespace="default")
        found: int | None = budget.get("status", {}).get("disruptionsAllowed")
        return found

    await eventually(allowed, lambda found: found == 1)
    await cluster.create_subresource(PODS, "a", "eviction", {"metadata": {"name": "a"}}, namespace="default")
    await eventually(lambda: pods_of(cluster), lambda pods: len(pods) == 1)
    await eventually(allowed, lambda found: found == 0)


@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS])
async def test_who_is_made_again_takes_over_what_was_left_behind(
    cluster: KubeClient, resource: Resource
) -> None:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": a_template()}
    body = {"metadata": {"name": "web"}, "spec": spec}

    async def ready() -> int | None:
        found: int | None = (
            (await cluster.get(resource, "web", namespace="default")).get("status", {}).get("readyReplicas")
        )
        return found

    await cluster.create(resource, body, namespace="default")
    await eventually(ready, lambda found: found == 2)
    before = {pod["metadata"]["uid"] for pod in await pods_of(cluster)}
    await cluster.delete(resource, "web", namespace="default", propagation="Orphan")
    await eventually(lambda: is_gone(cluster, resource, "web"))
    await cluster.create(resource, body, namespace="default")
    await eventually(ready, lambda found: found == 2)
    assert {pod["metadata"]["uid"] for pod in await pods_of(cluster)} == before


async def test_a_pod_that_is_taken_from_its_controller_is_replaced_and_not_taken_back(
    cluster: KubeClient,
) -> None:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": a_template()}
    await cluster.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")
    [pod] = await eventually(lambda: pods_of(cluster, "Running"))
    bare = {"metadata": {"labels": {"app": "mine"}, "ownerReferences": None}}
    await cluster.patch(PODS, pod["metadata"]["name"], bare, namespace="default")
    pods = await eventually(lambda: pods_of(cluster, "Running"), lambda pods: len(pods) == 2)
    assert sorted(len(pod["metadata"].get("ownerReferences") or ()) for pod in pods) == [0, 1]


@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS])
async def test_a_pod_that_gets_other_labels_is_its_controllers_no_longer(
    cluster: KubeClient, resource: Resource
) -> None:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": a_template()}
    await cluster.create(resource, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")
    [pod] = await eventually(lambda: pods_of(cluster, "Running"))
    name, mine = pod["metadata"]["name"], {"metadata": {"labels": {"app": "mine"}}}
    await cluster.patch(PODS, name, mine, namespace="default")

    async def owners() -> int:
        found = await cluster.get(PODS, name, namespace="default")
        return len(found["metadata"].get("ownerReferences") or ())

    await eventually(owners, lambda found: found == 0)
    if resource == STATEFUL_SETS:  # which needs the name
        await cluster.delete(PODS, name, namespace="default")

    async def replaced() -> bool:
        return any(pod["metadata"]["labels"]["app"] == "web" for pod in await pods_of(cluster, "Running"))

    await eventually(replaced)


async def test_a_pod_leaves_a_node_that_gets_a_taint_it_does_not_tolerate(cluster: KubeClient) -> None:
    toleration = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    tolerations = {"stays": [toleration], "waits": [{**toleration, "tolerationSeconds": 3600}], "leaves": []}
    for name, tolerated in tolerations.items():
        template = a_template()
        pod = {"metadata": {"name": name}, "spec": {**template["spec"], "tolerations": tolerated}}
        await cluster.create(PODS, pod, namespace="default")
    await eventually(lambda: pods_of(cluster, "Running"), lambda pods: len(pods) == 3)
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
    await cluster.patch(NODES, "node-0", taint)
    pods = await eventually(lambda: pods_of(cluster), lambda pods: len(pods) < 3)
    assert {pod["metadata"]["name"] for pod in pods} == {"stays", "waits"}


async def test_a_pod_that_leaves_for_a_taint_says_so(cluster: KubeClient) -> None:
    template = a_template()
    held = {"name": "p", "finalizers": ["example.com/look"]}
    await cluster.create(PODS, {**template, "metadata": held}, namespace="default")
    await eventually(lambda: pods_of(cluster, "Running"))
    await cluster.patch(NODES, "node-0", {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
    [pod] = await eventually(lambda: pods_of(cluster, "Failed"))
    told = {one["type"]: one for one in pod["status"]["conditions"]}
    assert told["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
    assert told["Ready"]["status"] == "False"
