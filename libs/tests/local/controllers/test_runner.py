"""The controllers of an embedded cluster, against its API server, with a simulated node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai.kube.resources import JOBS, PDBS, PODS
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
