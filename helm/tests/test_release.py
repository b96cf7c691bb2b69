"""The chart installed, upgraded and taken out again by the real helm, on an API server."""

import asyncio
from pathlib import Path

import pytest
import yaml

from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import CONFIGS, CRDS, NAMESPACES, QUEUES, SCHEDULING_SHARDS, Resource
from kai.model import names
from kai.operands import CONFIG_NAME, read_config, read_shard

pytestmark = pytest.mark.integration
#: Nobody runs Jobs here.
JOBLESS = {name: {"enabled": False} for name in ("crdupgrader", "topologyMigration", "postCleanup")}
CHART = Path(__file__).resolve().parents[1] / "kai-scheduler"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)


class Release:
    """The release ``kai``, and the cluster that it is in."""

    def __init__(self, helm_program, kubeconfig, client):
        self._helm = helm_program
        self._kubeconfig = kubeconfig
        self.client = client

    async def helm(self, *arguments, values=None):
        process = await asyncio.create_subprocess_exec(
            self._helm, *arguments, "--kubeconfig", str(self._kubeconfig), "--namespace", names.NAMESPACE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate(yaml.safe_dump(values or {}).encode())
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def install(self, **values):
        return await self.helm(
            "install", "kai", str(CHART), "--create-namespace", "--values", "-", values=JOBLESS | values
        )

    async def upgrade(self, *arguments, **values):
        await self.helm("upgrade", "kai", str(CHART), "--values", "-", *arguments, values=JOBLESS | values)

    async def config(self):
        return await self.client.get(CONFIGS, CONFIG_NAME)


@pytest.fixture
async def release(helm_program, tmp_path):
    with serving(tmp_path) as server:
        async with KubeClient.connect(str(server.kubeconfig), user_agent="test") as client:
            yield Release(helm_program, server.kubeconfig, client)


async def test_the_api_server_keeps_all_of_config_and_shard(release, helm):
    await release.install(scheduler={"placementStrategy": "spread"})
    rendered = helm.chart(values={"scheduler": {"placementStrategy": "spread"}})
    config, shard = await release.config(), await release.client.get(SCHEDULING_SHARDS, "default")
    assert config["spec"] == rendered.one("Config", CONFIG_NAME)["spec"]
    assert shard["spec"] == rendered.one("SchedulingShard", "default")["spec"]
    assert "gpuspread" in str(read_shard(shard, read_config(config)).file)


async def test_an_upgrade_and_a_rollback_change_config_and_shard_in_place(release):
    await release.install()
    before = await release.config()
    await release.upgrade(binder={"replicas": 3}, scheduler={"kValue": 2})
    changed = await release.config()
    assert changed["metadata"]["uid"] == before["metadata"]["uid"]
    assert changed["spec"]["binder"]["replicas"] == 3
    assert (await release.client.get(SCHEDULING_SHARDS, "default"))["spec"]["kValue"] == 2
    await release.upgrade("--reuse-values", "--set", "admission.replicas=2")
    assert (await release.config())["spec"]["binder"]["replicas"] == 3
    await release.helm("rollback", "kai", "1")
    assert (await release.config())["spec"] == before["spec"]


async def test_a_config_of_ones_own_is_left_alone(release):
    await release.install(kaiConfigDeployer={"enabled": False}, defaultShard={"enabled": False})
    for kind, name in ((CONFIGS, CONFIG_NAME), (SCHEDULING_SHARDS, "default")):
        with pytest.raises(NotFound):
            await release.client.get(kind, name)
    await release.client.create(CONFIGS, {"metadata": {"name": CONFIG_NAME}, "spec": {}})
    await release.upgrade(kaiConfigDeployer={"enabled": False}, defaultShard={"enabled": False})
    assert (await release.config())["spec"] == {}
    await release.helm("uninstall", "kai")
    assert await release.config()


async def test_what_users_have_made_of_the_default_queues_survives_an_upgrade(release):
    await release.install()
    limit = {"spec": {"resources": {"gpu": {"limit": 3}}}}
    await release.client.patch(QUEUES, "default-queue", limit)
    await release.upgrade()
    queue = await release.client.get(QUEUES, "default-queue")
    assert queue["spec"]["resources"]["gpu"]["limit"] == 3


async def test_taken_out_it_leaves_what_holds_the_users_work(release):
    await release.install()
    await release.helm("uninstall", "kai")
    assert await release.client.list(DEPLOYMENTS, namespace=names.NAMESPACE) == []
    assert await release.client.list(CONFIGS) == []
    assert await release.client.list(SCHEDULING_SHARDS) == []
    queues = {queue["metadata"]["name"] for queue in await release.client.list(QUEUES)}
    assert queues == {"default-parent-queue", "default-queue"}
    crds = {crd["metadata"]["name"] for crd in await release.client.list(CRDS)}
    assert "podgroups.scheduling.run.ai" in crds
    assert await release.client.get(NAMESPACES, names.RESERVATION_NAMESPACE)
