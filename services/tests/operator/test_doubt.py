"""What becomes of the volume of our Redis while it is not known of some shard what it is to be."""

import pytest

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.resources import CONFIG_MAPS, CONFIGS, CRDS, NAMESPACES, PVCS, SCHEDULING_SHARDS
from kai.model import names
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from services.tests.operator.serving import operator

pytestmark = pytest.mark.integration

HOME = names.NAMESPACE
MEMORY = "kai-operator-shard-default"
"""What the operator writes down of a shard, some time after it made what the shard asks for."""

IN_REDIS = {"usageDBConfig": {"clientType": "redis"}}


@pytest.fixture
async def kubeconfig(tmp_path):
    """Of an API server that keeps objects, with a Config that says nothing."""
    async with ApiServer() as server:
        path = str(server.write_kubeconfig(tmp_path / "config"))
        async with KubeClient.connect(path) as client:
            for definition in definitions():
                await client.create(CRDS, definition)
            await client.create(NAMESPACES, {"metadata": {"name": HOME}})
            await client.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {}})
        yield path


async def is_told(client, shard, status, reason):
    async def ready():
        conditions = (await client.get(SCHEDULING_SHARDS, shard)).get("status", {}).get("conditions", ())
        return {each["type"]: (each["status"], each["reason"]) for each in conditions}.get("Ready")

    await eventually(ready, lambda told: told == (status, reason), what=f"{shard} is {reason}")


async def claims(client):
    return [each["metadata"]["name"] for each in await client.list(PVCS, namespace=HOME)]


async def memories(client):
    return [each["metadata"]["name"] for each in await client.list(CONFIG_MAPS, namespace=HOME)]


async def test_a_shard_that_never_could_be_read_has_none_made(kubeconfig):
    async with KubeClient.connect(kubeconfig) as client, operator(kubeconfig):
        misspelt = {"metadata": {"name": "pool.a"}, "spec": IN_REDIS}
        await client.create(SCHEDULING_SHARDS, misspelt)
        await is_told(client, "pool.a", "False", "invalid_spec")
        assert await claims(client) == []


async def test_one_that_is_there_stays_though_nobody_knows_any_more_who_asked_for_it(kubeconfig):
    async with KubeClient.connect(kubeconfig) as client:
        async with operator(kubeconfig):
            await client.create(SCHEDULING_SHARDS, {"metadata": {"name": "default"}, "spec": IN_REDIS})
            await eventually(lambda: claims(client), lambda found: found == ["kai-redis"])
            await eventually(lambda: memories(client), lambda found: MEMORY in found)
        [before] = await client.list(PVCS, namespace=HOME)
        await client.delete(CONFIG_MAPS, MEMORY, namespace=HOME)
        await client.patch(SCHEDULING_SHARDS, "default", {"spec": {"args": {"schedule-period": "abc"}}})
        async with operator(kubeconfig):
            await is_told(client, "default", "False", "invalid_spec")
            [now] = await client.list(PVCS, namespace=HOME)
        assert now["metadata"]["uid"] == before["metadata"]["uid"]
        assert "deletionTimestamp" not in now["metadata"]
