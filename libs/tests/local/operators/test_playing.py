"""Operators, played against the API server of a cluster in a box."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deadlines import eventually
from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.resources import DEPLOYMENTS, EVENTS, JOBS, PODS, Resource
from kai.model.objects import Json
from kai_local.operators.playing import Operators
from kai_local.operators.projects import PROJECTS, UnknownProject, kinds_of, named
from kai_local.parts.watches import Watches

pytestmark = pytest.mark.integration

TEMPLATE = {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "busybox"}]}}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server.kubeconfig


@asynccontextmanager
async def playing(kubeconfig: Path, *projects: str) -> AsyncIterator[KubeClient]:
    """The operators of some projects, until the body ends."""
    async with KubeClient.connect(str(kubeconfig), user_agent="test") as client, asyncio.TaskGroup() as tasks:
        watches = Watches(client)
        operators = Operators(client, watches, kinds_of(projects))
        running = [tasks.create_task(part.run()) for part in (watches, operators)]
        await operators.ready.wait()
        yield client
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        await eventually(lambda: client.list(PODS, namespace="default"), lambda found: found is not None)


def resource_of(kind: str) -> Resource:
    return next(each.resource for each in kinds_of(PROJECTS) if each.kind == kind)


async def submit(client: KubeClient, kind: str, name: str, spec: Json) -> None:
    await client.create(resource_of(kind), {"metadata": {"name": name}, "spec": spec}, namespace="default")


async def names_of(client: KubeClient, resource: Resource, beginning: str) -> list[str]:
    found = [body["metadata"]["name"] for body in await client.list(resource, namespace="default")]
    return sorted(name for name in found if name.startswith(beginning))


def a_pytorch_job(workers: int) -> Json:
    return {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": TEMPLATE}}}


async def test_pods_come_again_where_they_go_and_no_more_than_are_asked_for(kubeconfig: Path) -> None:
    async with playing(kubeconfig, "kubeflow") as client:
        await submit(client, "PyTorchJob", "ddp", a_pytorch_job(3))
        three = [f"ddp-worker-{number}" for number in range(3)]
        await eventually(lambda: names_of(client, PODS, "ddp-"), lambda found: found == three)
        before = await client.get(PODS, "ddp-worker-1", namespace="default")
        await client.delete(PODS, "ddp-worker-1", namespace="default", grace_seconds=0)

        async def is_new() -> bool:
            found = await names_of(client, PODS, "ddp-")
            if found != three:
                return False
            pod = await client.get(PODS, "ddp-worker-1", namespace="default")
            return bool(pod["metadata"]["uid"] != before["metadata"]["uid"])

        await eventually(is_new)
        patch = {"spec": a_pytorch_job(1)}
        await client.patch(resource_of("PyTorchJob"), "ddp", patch, namespace="default")
        await eventually(lambda: names_of(client, PODS, "ddp-"), lambda found: found == three[:1])


async def test_who_begins_anew_makes_nothing_twice(kubeconfig: Path) -> None:
    async with playing(kubeconfig, "kubeflow") as client:
        await submit(client, "PyTorchJob", "again", a_pytorch_job(2))
        await eventually(lambda: names_of(client, PODS, "again-"), lambda found: len(found) == 2)
        before = {pod["metadata"]["uid"] for pod in await client.list(PODS, namespace="default")}
    async with playing(kubeconfig, "kubeflow") as client:
        await submit(client, "PyTorchJob", "later", a_pytorch_job(1))
        await eventually(lambda: names_of(client, PODS, "later-"), lambda found: len(found) == 1)
        after = {pod["metadata"]["uid"] for pod in await client.list(PODS, namespace="default")}
    assert before < after
    assert len(after - before) == 1


async def test_a_ray_job_has_a_cluster_made_that_its_status_names(kubeconfig: Path) -> None:
    async with playing(kubeconfig, "ray") as client:
        await submit(client, "RayJob", "tune", {"rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}})
        await eventually(lambda: names_of(client, PODS, "tune-"), lambda found: found == ["tune-new-head"])
        job = await client.get(resource_of("RayJob"), "tune", namespace="default")
    assert job["status"]["rayClusterName"] == "tune-new"


async def test_what_others_control_is_left_to_them(kubeconfig: Path) -> None:
    part = {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}}
    service = {"template": {"spec": {"containers": TEMPLATE["spec"]["containers"]}}}
    async with playing(kubeconfig, "jobset", "knative") as client:
        await submit(client, "JobSet", "set", {"replicatedJobs": [part]})
        await submit(client, "Service", "hello", service)
        await eventually(
            lambda: names_of(client, JOBS, "set-"),
            lambda found: found == ["set-workers-0", "set-workers-1"],
        )
        await eventually(
            lambda: names_of(client, DEPLOYMENTS, "hello-"),
            lambda found: found == ["hello-00001-deployment"],
        )
        assert await names_of(client, PODS, "set-") == []


async def test_who_asks_for_more_than_can_be_is_told_and_others_are_served(kubeconfig: Path) -> None:
    async with playing(kubeconfig, "kubeflow") as client:
        await submit(client, "PyTorchJob", "huge", a_pytorch_job(10**9))
        await submit(client, "PyTorchJob", "modest", a_pytorch_job(1))

        async def told() -> list[Any]:
            events = await client.list(EVENTS, namespace="default")
            return [event for event in events if event.get("reason") == "TooManyPods"]

        [event, *_] = await eventually(told)
        await eventually(lambda: names_of(client, PODS, "modest-"))
        assert await names_of(client, PODS, "huge-") == []
    assert "huge" in (event.get("note") or event.get("message"))


def test_an_unknown_project_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UnknownProject, match="did you mean 'kubeflow'"):
        named(["kubflow"])
    assert named(["ray", " jobset", "ray", ""]) == ("jobset", "ray")
