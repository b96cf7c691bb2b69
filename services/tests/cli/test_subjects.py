"""Whose pods are whose, and what it takes to find that out."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden
from kai.kube.resources import CRON_JOBS, JOBS, NAMESPACES, PODS
from kai_cli.subjects import found_subject

pytestmark = pytest.mark.integration

#: Jobs of a namespace, each with a pod; those of a CronJob are the even ones.
MANY = 30
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as server:
        asyncio.run(fill(server.kubeconfig))
        yield str(server.kubeconfig)


def owned_by(owner, kind):
    reference = {
        "apiVersion": "batch/v1",
        "kind": kind,
        **{key: owner["metadata"][key] for key in ("name", "uid")},
    }
    return {"ownerReferences": [reference]}


async def fill(path):
    async with KubeClient.connect(str(path), user_agent="test") as client:
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        job = {"jobTemplate": {"spec": {"template": TEMPLATE}}, "schedule": "0 0 1 1 *"}
        nightly = {"metadata": {"name": "nightly"}, "spec": job}
        nightly = await client.create(CRON_JOBS, nightly, namespace="team")
        for n in range(MANY):
            meta = {"name": f"j{n}", **(owned_by(nightly, "CronJob") if n % 2 == 0 else {})}
            body = {"metadata": meta, "spec": {"template": TEMPLATE}}
            made = await client.create(JOBS, body, namespace="team")
            pod = {"metadata": {"name": f"p{n}", **owned_by(made, "Job")}, "spec": TEMPLATE["spec"]}
            await client.create(PODS, pod, namespace="team")


@asynccontextmanager
async def counted(kubeconfig):
    """A client, and what it has asked so far."""
    async with KubeClient.connect(kubeconfig, user_agent="test") as client:
        asked, call = [], client._exchange.call

        async def counting(request, **more):
            asked.append(str(request))
            return await call(request, **more)

        client._exchange.call = counting
        yield client, asked


def pods_of(subject):
    return sorted(pod.metadata.name for pod in subject.pods)


@pytest.mark.parametrize(
    ("words", "pods"),
    [
        (["job/j7"], ["p7"]),
        (["j7"], ["p7"]),
        (["cronjob/nightly"], sorted(f"p{n}" for n in range(0, MANY, 2))),
    ],
)
async def test_pods_are_found_with_few_requests_however_many_jobs_there_are(kubeconfig, words, pods):
    async with counted(kubeconfig) as (client, asked):
        found = await found_subject(client, words, namespace="team")
    assert pods_of(found) == pods
    assert len(asked) < MANY, asked
    assert len([each for each in asked if each.startswith("list jobs")]) <= 1


async def test_who_may_get_jobs_and_not_list_them_is_answered_too(kubeconfig, monkeypatch):
    async with counted(kubeconfig) as (client, _):
        pages = client.pages

        def refusing(res, **more):
            if res.plural == JOBS.plural:
                raise Forbidden("you may not list jobs", status=403)
            return pages(res, **more)

        monkeypatch.setattr(client, "pages", refusing)
        found = await found_subject(client, ["cronjob/nightly"], namespace="team")
    assert len(pods_of(found)) == MANY // 2
