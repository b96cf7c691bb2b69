"""A shard is made, changed or deleted: in seconds decisions follow it, and no work is lost."""

import time
import uuid

import pytest

from e2e import healing
from e2e.installation import HOME, an_installation, change, soon, there, until_ready
from e2e.manifests import a_job, a_pod, as_yaml
from kai.kube.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, PODS, SCHEDULING_SHARDS, SERVICES
from kai.model import names
from kai.model.rules.gpu_groups import gpu_groups
from kai_local.kubelet.nodes import NodeShape

GPUS = 3
#: What a job borrows it keeps for so long.
KEPT = {"minRuntime": {"reclaimMinRuntime": "1h"}}
PROTECTED = "MinRuntimeNotElapsed"


@pytest.fixture(scope="module")
def embedded(request):
    """Instead of the suite's cluster, one in which the chart is installed."""
    with an_installation(request, "shards") as made:
        yield made


class Pool:
    """Nodes, queues and pods that nobody schedules until there is a shard for them."""

    def __init__(self, cluster, namespace):
        self.name = f"pool-{uuid.uuid4().hex[:8]}"
        self.labels = {names.NODE_POOL_LABEL: self.name}
        self.cluster, self.namespace = cluster, namespace

    async def make(self, **spec):
        """Its shard; nothing is waited for."""
        spec = {"partitionLabelValue": self.name, **spec}
        body = {"metadata": {"name": self.name}, "spec": spec}
        await self.cluster.client.create(SCHEDULING_SHARDS, body)

    async def made(self, **spec):
        """Its shard, in force."""
        await self.make(**spec)
        await until_ready(self.cluster, SCHEDULING_SHARDS, self.name)

    async def change(self, **spec):
        await change(self.cluster, SCHEDULING_SHARDS, self.name, **spec)

    async def delete(self):
        await self.cluster.delete("kai.scheduler/v1", "SchedulingShard", self.name)

    def pod(self, name, queue, **template):
        return a_pod(name, self.namespace, queue, labels=self.labels, **template)

    def job(self, name, queue, **template):
        return a_job(name, self.namespace, queue, pods=1, labels=self.labels, **template)

    async def apply(self, *bodies):
        await self.cluster.apply(as_yaml(*bodies))

    async def running(self, prefix, *, count=1):
        return await self.cluster.running(self.namespace, prefix, count=count)

    async def soon_running(self, prefix, *, since):
        async def look():
            pods = await self.cluster.pods(self.namespace, prefix)
            return [pod for pod in pods if pod.status.phase == "Running"]

        await soon(self.cluster, look, bool, since=since, what=f"the pod {prefix} runs")


@pytest.fixture
async def pool(cluster, namespace):
    found = Pool(cluster, namespace)
    yield found
    await found.delete()


def as_they_ran(pods):
    """Who they are, where they are, and whether anything ended meanwhile."""
    return {
        (pod.metadata.uid, pod.spec.node_name, pod.status.phase, pod.metadata.deletion_timestamp)
        for pod in pods
    }


async def test_a_shard_that_is_made_takes_over_what_waits_for_it(queue, node, pool):
    where = await node(NodeShape(gpus=GPUS, labels=pool.labels))
    await pool.apply(pool.pod("waiting", await queue(labels=pool.labels), gpus=1))
    began = time.monotonic()
    await pool.make()
    await pool.soon_running("waiting", since=began)
    [pod] = await pool.running("waiting")
    assert pod.spec.node_name == where


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"actions": {"reclaim": {"enabled": False}}}, {"actions": {"reclaim": {"enabled": True}}}, ""),
        (KEPT, {"plugins": {"minruntime": {"enabled": False}}}, PROTECTED),
        (
            {"plugins": {"minruntime": {"arguments": {"defaultReclaimMinRuntime": "1h"}}}},
            {"plugins": {"minruntime": {"arguments": {"defaultReclaimMinRuntime": "0s"}}}},
            PROTECTED,
        ),
        (KEPT, {"minRuntime": {"reclaimMinRuntime": "0s"}}, PROTECTED),
    ],
    ids=["an action", "a plugin", "an argument", "minimum runtime"],
)
async def test_what_a_shard_says_of_giving_back_holds_for_who_waits(queue, node, pool, before, after, why):
    await node(NodeShape(gpus=GPUS, labels=pool.labels))
    lender, borrower = await queue(labels=pool.labels, gpus=2), await queue(labels=pool.labels, gpus=0)
    await pool.made(**before)
    await pool.apply(pool.pod("own", lender, gpus=1))
    await pool.running("own")
    await pool.apply(*(pool.job(f"lent-{number}", borrower, gpus=1) for number in range(GPUS - 1)))
    running = [*await pool.running("own"), *await pool.running("lent", count=GPUS - 1)]
    await pool.apply(pool.pod("due", lender, gpus=1))
    await pool.cluster.waits(pool.namespace, "due", reason=why)

    began = time.monotonic()
    await pool.change(**after)
    await pool.apply(pool.pod("meanwhile", lender))
    await pool.soon_running("due", since=began)
    await pool.running("meanwhile")
    left = [*await pool.running("own"), *await pool.running("lent", count=1)]
    assert as_they_ran(left) < as_they_ran(running)


class Probes:
    """Pods, one after the other, until one goes where it is to go."""

    def __init__(self, pool, queue, **template):
        self._pool, self._queue, self._template = pool, queue, template
        self._number = 0

    async def next(self):
        """Where the next one goes, once it runs; the one before makes room for it."""
        cluster, namespace = self._pool.cluster, self._pool.namespace
        for before in await cluster.pods(namespace, "probe-"):
            await cluster.delete("v1", "Pod", before.metadata.name, namespace=namespace)
        await cluster.eventually(
            lambda: cluster.pods(namespace, "probe-"), lambda left: not left, what="there is room again"
        )
        self._number += 1
        await self._pool.apply(self._pool.pod(f"probe-{self._number}", self._queue, **self._template))
        [pod] = await self._pool.running("probe-")
        return pod


async def test_a_strategy_decides_where_the_next_pod_goes(queue, node, pool):
    nodes = [await node(NodeShape(gpus=GPUS, labels=pool.labels)) for _ in range(2)]
    own = await queue(labels=pool.labels)
    await pool.made()
    await pool.apply(pool.pod("first", own, gpus=1))
    running = await pool.running("first")
    full = running[0].spec.node_name
    probes = Probes(pool, own, gpus=1)
    assert (await probes.next()).spec.node_name == full
    began = time.monotonic()
    await pool.change(placementStrategy={"gpu": "spread", "cpu": "spread"})
    pod = await soon(
        pool.cluster,
        probes.next,
        lambda pod: pod.spec.node_name != full,
        since=began,
        what="a pod keeps off the first one",
    )
    assert pod.spec.node_name in nodes
    assert as_they_ran(await pool.running("first")) == as_they_ran(running)


async def test_a_plugin_decides_which_device_is_shared(queue, node, pool):
    await node(NodeShape(gpus=2, labels=pool.labels))
    own, part = await queue(labels=pool.labels), {"annotations": {names.GPU_FRACTION: "0.3"}}
    await pool.made()
    await pool.apply(pool.pod("first", own, **part))
    running = await pool.running("first")
    probes = Probes(pool, own, **part)
    taken = gpu_groups(running[0].labels)
    assert gpu_groups((await probes.next()).labels) == taken
    began = time.monotonic()
    await pool.change(
        plugins={plugin: {"enabled": plugin == "gpuspread"} for plugin in ("gpupack", "gpuspread")}
    )
    await soon(
        pool.cluster,
        probes.next,
        lambda pod: gpu_groups(pod.labels) != taken,
        since=began,
        what="a pod keeps off the first one's device",
    )
    assert as_they_ran(await pool.running("first")) == as_they_ran(running)


async def test_a_shard_that_is_deleted_leaves_what_runs_and_nothing_else(queue, node, pool):
    await node(NodeShape(gpus=GPUS, labels=pool.labels))
    own, name = await queue(labels=pool.labels), f"{names.SCHEDULER_NAME}-{pool.name}"
    await pool.made()
    await pool.apply(*(pool.job(f"before-{number}", own, gpus=1) for number in range(2)))
    running = await pool.running("before", count=2)
    policies = await healing.resource_of(pool.cluster, "networking.k8s.io/v1", "NetworkPolicy")
    kinds = (DEPLOYMENTS, SERVICES, CONFIG_MAPS, LEASES, policies)
    assert all([await there(pool.cluster, resource, name) for resource in kinds])

    async def left():
        pods = await pool.cluster.client.list(PODS, namespace=HOME)
        found = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(name)]
        return [*found, *[each.kind for each in kinds if await there(pool.cluster, each, name)]]

    began = time.monotonic()
    await pool.delete()
    await soon(pool.cluster, left, lambda found: not found, since=began, what="nothing is left of the shard")
    await pool.apply(pool.pod("after", own, gpus=1))
    await pool.make()
    await pool.running("after")
    assert as_they_ran(await pool.running("before", count=2)) == as_they_ran(running)
