"""GPUs of resource claims, as far as the API server serves them and one may read them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kai.kube.client import KubeClient
from kai.kube.forms import served
from kai.kube.resources import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kai.model.objects import Pod
from kai_cli.claims import read_claims, read_devices
from kai_local.apiserver.serving.server import ApiServer
from services.tests.insight.town import Town, rules

pytestmark = pytest.mark.integration
DRIVER = "gpu.example.com"
A_SLICE = {
    "driver": DRIVER,
    "nodeName": "n",
    "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
    "devices": [{"name": f"gpu-{number}"} for number in range(4)],
}
A_CLAIM = {"devices": {"requests": [{"name": "two", "exactly": {"deviceClassName": DRIVER, "count": 2}}]}}
ONLY_OLDER = "resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true"
NOWHERE = "resource.k8s.io/v1=false"


@pytest.fixture
def runtime_config():
    return ""


@pytest.fixture
async def town(tmp_path, runtime_config):
    """A node that offers four GPUs to claims, of which a pod claims two."""
    async with ApiServer(rbac=True, runtime_config=runtime_config) as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient.connect(str(kubeconfig), user_agent="test") as admin:
            for namespace in ("team", "people"):
                await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
            await fill(admin)
            found = Town(api, admin, tmp_path)
            found.kubeconfig = kubeconfig
            yield found


async def fill(client):
    await client.create(NODES, {"metadata": {"name": "n"}})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(NODES, "n", ready, subresource="status")
    await create(client, RESOURCE_SLICES, "n", A_SLICE)
    await create(client, RESOURCE_CLAIMS, "two-gpus", A_CLAIM)
    spec = {
        "schedulerName": "kai-scheduler",
        "nodeName": "n",
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpus", "resourceClaimName": "two-gpus"}],
    }
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace="team")


async def create(client, resource, name, spec):
    """An object, given as one of v1, in the version that is served, if there is one."""
    if form := await served(client, resource):
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        namespace = "team" if resource.namespaced else ""
        await client.create(form.resource, form.write(body) if form.write else body, namespace=namespace)


async def kai(kubeconfig: Path, *arguments: str):
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "kai_cli", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("runtime_config", ["", ONLY_OLDER], ids=["v1", "v1beta1"])
async def test_devices_that_are_claimed_are_shown_on_their_node_and_by_their_pod(town):
    [node] = await kai(town.kubeconfig, "get", "nodes", "-o", "json")
    assert (node["gpus"], node["used"], node["free"]) == (4, 2, 2)
    assert node["claimed"] == [{"claim": "team/two-gpus", "count": 2, "pods": ["team/p"]}]
    [pod] = await kai(town.kubeconfig, "get", "pods", "-n", "team", "-o", "json")
    assert pod["gpus"] == 2


@pytest.mark.parametrize("runtime_config", [NOWHERE])
async def test_where_no_claims_are_served_there_are_none(town):
    found = await read_devices(town.admin, await town.admin.list(PODS, type=Pod))
    assert (found.of_claims, found.of_nodes, found.lacks) == ({}, {}, "")


@pytest.mark.parametrize(
    ("granted", "missing"), [((), "resourceclaims"), (("resourceclaims",), "resourceslices")]
)
async def test_what_one_may_not_read_is_told_and_nothing_is_counted_by_halves(
    town, tmp_path, granted, missing
):
    config = yaml.safe_load(town.api.kubeconfig())
    config["users"][0]["user"] = {"token": await town.person("ann")}
    own = tmp_path / "ann.kubeconfig"
    own.write_text(json.dumps(config))
    if granted:
        await town.allow("ann", rules("resource.k8s.io", *granted))
    pods = await town.admin.list(PODS, type=Pod)
    async with KubeClient.connect(str(own), user_agent="test") as ann:
        found = await read_devices(ann, pods)
        assert (await read_claims(ann, [])).lacks == ""
    assert (found.of_claims, found.of_nodes) == ({}, {})
    assert found.lacks == (
        f"you may not list {missing}.resource.k8s.io: GPUs of resource claims are not counted"
    )
