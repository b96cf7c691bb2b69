"""Work for each scheduler that there is, against an API server that keeps objects."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.resources import CRDS, SCHEDULING_SHARDS
from kai.wire.shards import Shard, ShardFollower, shard_of
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions

pytestmark = pytest.mark.integration

(A_DEFINITION,) = definitions(SCHEDULING_SHARDS)
DEFAULT = shard_of("kai-scheduler", "")


class Work:
    """Notes who is worked for, and who is gone."""

    def __init__(self):
        self.running = []
        self.gone = []

    async def do(self, shard):
        self.running.append(shard.lease)
        try:
            await asyncio.Event().wait()
        finally:
            self.running.remove(shard.lease)


@pytest.fixture
async def client(tmp_path):
    async with (
        ApiServer() as server,
        KubeClient.connect(str(server.write_kubeconfig(tmp_path / "config"))) as client,
    ):
        yield client


@asynccontextmanager
async def following(client, *told, linger=0.2):
    work = Work()
    follower = ShardFollower(client, scheduler_name="kai-scheduler", told=told, linger=linger)
    task = asyncio.create_task(follower.run(work.do, gone=lambda shard: work.gone.append(shard.lease)))
    try:
        yield work
    finally:
        task.cancel()
        await asyncio.wait([task])


async def make(client, name, value):
    await client.create(
        SCHEDULING_SHARDS, {"metadata": {"name": name}, "spec": {"partitionLabelValue": value}}
    )


@pytest.mark.parametrize(
    ("partition", "name", "lease"),
    [("", "default", "kai-scheduler"), ("blue", "blue", "kai-scheduler-blue")],
)
def test_a_shard_leads_by_the_lease_of_its_node_pool(partition, name, lease):
    shard = shard_of("kai-scheduler", partition)
    assert (shard.name, shard.lease) == (name, lease)


async def test_without_the_kind_there_are_those_that_were_told(client):
    async with following(client, DEFAULT, shard_of("kai-scheduler", "green")) as work:
        await eventually(lambda: sorted(work.running) == ["kai-scheduler", "kai-scheduler-green"])


async def test_work_follows_the_shards(client):
    await client.create(CRDS, A_DEFINITION)
    await make(client, "default", "")
    async with following(client, DEFAULT) as work:
        await eventually(lambda: work.running == ["kai-scheduler"])
        await make(client, "reds", "red")
        await eventually(lambda: work.running == ["kai-scheduler", "kai-scheduler-red"])
        await client.patch(SCHEDULING_SHARDS, "reds", {"spec": {"partitionLabelValue": "blue"}})
        await eventually(lambda: work.running == ["kai-scheduler", "kai-scheduler-blue"])
        await eventually(lambda: work.gone == ["kai-scheduler-red"])
        await client.delete(SCHEDULING_SHARDS, "reds")
        await eventually(lambda: work.running == ["kai-scheduler"])
        await client.delete(SCHEDULING_SHARDS, "default")
        assert work.gone == ["kai-scheduler-red", "kai-scheduler-blue"]
        assert work.running == ["kai-scheduler"]  # it was told


async def test_a_shard_that_comes_back_in_time_was_never_gone(client):
    await client.create(CRDS, A_DEFINITION)
    await make(client, "reds", "red")
    async with following(client, linger=60.0) as work:
        await eventually(lambda: work.running == ["kai-scheduler-red"])
        await client.delete(SCHEDULING_SHARDS, "reds")
        await make(client, "others", "red")
        await make(client, "blues", "blue")
        await eventually(lambda: work.running == ["kai-scheduler-red", "kai-scheduler-blue"])
        assert not work.gone


async def test_a_lease_that_was_told_and_declared_is_worked_for_once(client):
    await client.create(CRDS, A_DEFINITION)
    await make(client, "reds", "red")
    await make(client, "blues", "blue")
    async with following(client, Shard("kai-scheduler-red", "anything")) as work:
        await eventually(lambda: "kai-scheduler-blue" in work.running)
        assert sorted(work.running) == ["kai-scheduler-blue", "kai-scheduler-red"]
