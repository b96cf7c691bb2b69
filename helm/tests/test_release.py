"""The chart installed, upgraded and taken out again by the real helm, on an API server."""

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
import yaml

from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    CRDS,
    JOBS,
    NAMESPACES,
    PODS,
    QUEUES,
    SCHEDULING_SHARDS,
    Resource,
)
from kai.model import names
from kai.operands import CONFIG_NAME, read_config, read_shard
from kai_hooks.edits import overwrite_edits

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
        """Jobs after it are played."""
        await self._with_jobs(
            "upgrade", "kai", str(CHART), "--values", "-", *arguments, values=JOBLESS | values
        )

    async def rollback(self, revision):
        await self._with_jobs("rollback", "kai", str(revision))

    async def _with_jobs(self, *arguments, values=None):
        async with asyncio.TaskGroup() as tasks:
            playing = tasks.create_task(self._play_jobs())
            await self.helm(*arguments, values=values)
            playing.cancel()

    async def _play_jobs(self):
        """Do what the Job that helm waits for says, in its place."""
        done = set()
        while True:
            for job in await self.client.list(JOBS, namespace=names.NAMESPACE):
                if job["metadata"]["uid"] not in done:
                    done.add(job["metadata"]["uid"])
                    await self._play(job)
            await asyncio.sleep(0.05)

    async def _play(self, job):
        name = job["metadata"]["name"]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container["args"][:2] == ["edits", "--folder=/manifests"]
        files = await self.client.get(CONFIG_MAPS, name, namespace=names.NAMESPACE)
        with tempfile.TemporaryDirectory() as folder:
            for file, content in files["data"].items():
                (Path(folder) / file).write_text(content)
            await overwrite_edits(self.client, Path(folder), lambda line: None)
        complete = {"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}
        await self.client.patch(JOBS, name, complete, namespace=names.NAMESPACE, subresource="status")

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
    await release.rollback(1)
    assert (await release.config())["spec"] == before["spec"]


async def test_what_values_say_is_in_force_after_an_upgrade_whatever_was_edited_by_hand(release):
    """And what they do not say stays as somebody has made it."""
    values = {"global": {"gpuSharing": True}, "scheduler": {"placementStrategy": "spread"}}
    await release.install(**values)
    by_hand = {
        "global": {"jsonLog": True},
        "admission": {"gpuSharing": False},
        "binder": {"volumeBindingTimeoutSeconds": 77},
    }
    await release.client.patch(CONFIGS, CONFIG_NAME, {"spec": by_hand})
    shard = {"placementStrategy": {"gpu": "binpack"}, "minRuntime": {"preemptMinRuntime": "5m"}}
    await release.client.patch(SCHEDULING_SHARDS, "default", {"spec": shard})
    await release.upgrade(**values)
    config, shard = await release.config(), await release.client.get(SCHEDULING_SHARDS, "default")
    assert config["spec"]["admission"]["gpuSharing"] is True
    assert config["spec"]["global"]["jsonLog"] is False
    assert config["spec"]["binder"]["volumeBindingTimeoutSeconds"] == 77
    assert shard["spec"]["placementStrategy"] == {"gpu": "spread", "cpu": "spread"}
    assert shard["spec"]["minRuntime"] == {"preemptMinRuntime": "5m"}


async def test_a_value_that_is_not_given_any_more_is_not_in_force_any_more(release):
    await release.install(scheduler={"kValue": 2})
    await release.upgrade(scheduler={"kValue": 3, "minRuntime": {"preemptMinRuntime": "5m"}})
    await release.upgrade()
    shard = await release.client.get(SCHEDULING_SHARDS, "default")
    assert "kValue" not in shard["spec"]
    assert "minRuntime" not in shard["spec"]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"global": {"clusterAutoscaling": True}}, None),
        ({"global": {"clusterAutoscaling": False}}, names.SCALE_ADJUST_NAMESPACE),
        (
            {"global": {"clusterAutoscaling": True}, "nodescaleadjuster": {"scalingPodNamespace": "scale"}},
            names.SCALE_ADJUST_NAMESPACE,
        ),
    ],
    ids=["goes on", "switched off", "moved"],
)
async def test_an_upgrade_after_which_nobody_makes_scaling_pods_any_more_deletes_them(release, values, place):
    await release.install(**{"global": {"clusterAutoscaling": True}})
    assert await cleaned_up_after(release, values) == ({place} if place else set())


@pytest.mark.parametrize(("app", "cleaned_up"), [("scaling-pod", True), ("somebody", False)])
async def test_an_upgrade_deletes_scaling_pods_that_nobody_deleted_when_they_were_switched_off(
    release, app, cleaned_up
):
    """An upgrade before it failed, or Config was edited or rolled back: it does not tell of them any more."""
    await release.install()
    place = names.SCALE_ADJUST_NAMESPACE
    await release.client.create(NAMESPACES, {"metadata": {"name": place}})
    pod = {
        "metadata": {"name": "default-half", "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await release.client.create(PODS, pod, namespace=place)
    off = {"global": {"clusterAutoscaling": False}}
    assert await cleaned_up_after(release, off) == ({place} if cleaned_up else set())


async def cleaned_up_after(release, values):
    """The namespaces whose scaling pods an upgrade with these values deletes: its hooks say so."""
    await release.helm("upgrade", "kai", str(CHART), "--no-hooks", "--values", "-", values=values)
    hooks = await release.helm("get", "hooks", "kai")
    found = re.findall(r"name: kai-post-upgrade-scaling-cleanup\n  namespace: (\S+)", hooks)
    return {each for each in found if each != names.NAMESPACE}


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


async def test_a_config_that_becomes_ones_own_is_not_deleted_with_all_that_is_made_of_it(release):
    await release.install()
    own = {"kaiConfigDeployer": {"enabled": False}}
    with pytest.raises(AssertionError, match="kubectl annotate config kai-config"):
        await release.helm("upgrade", "kai", str(CHART), "--values", "-", values=JOBLESS | own)
    before = await release.config()
    keep = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}
    await release.client.patch(CONFIGS, CONFIG_NAME, keep)
    for _ in range(2):
        await release.upgrade(**own)
        assert (await release.config())["metadata"]["uid"] == before["metadata"]["uid"]


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
