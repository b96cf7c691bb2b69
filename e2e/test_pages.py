"""Manifests that stand on a page are applied as they are, and become what the page says."""

import pytest

from e2e.page import Page
from kai.kube.resources import CONFIG_MAPS, QUEUES
from kai.model import names
from kai.model.objects import Queue
from kai_local.kubelet.nodes import NodeShape


@pytest.fixture
async def page(cluster, namespace):
    found = Page(cluster, namespace)
    yield found
    await found.clear()


async def test_queues(page):
    await page.apply("queues.md")
    pods = await page.running("page-training", 2)
    assert (await page.group_of(pods[0])).spec.queue == "page-vision"

    async def charged():
        queue = await page.cluster.client.get(QUEUES, "page-research", type=Queue)
        return (queue.status.allocated or {}).get(names.NVIDIA_GPU) if queue.status else None

    await page.cluster.eventually(charged, lambda gpus: gpus == "2", what="the department is charged")


async def test_minimum_runtime(page):
    def is_urgent(body):
        return body["metadata"]["name"] == "page-urgent"

    await page.apply("minimum-runtime.md", of=lambda body: not is_urgent(body))
    runs = await page.running("page-experiment", 2)
    assert (await page.group_of(runs[0])).spec.queue == "page-pictures"
    await page.apply("minimum-runtime.md", of=is_urgent)
    told = await page.cluster.waits(page.namespace, "page-urgent", reason="MinRuntimeNotElapsed")
    assert f"protected by minimum runtime: {page.namespace}/pg-page-experiment" in told
    await page.running("page-experiment", 2)


async def test_queue_access(page):
    await page.apply("queue-access.md")
    queue = await page.cluster.client.get(QUEUES, "page-arms", type=Queue)
    assert queue.spec.access is not None
    assert queue.spec.access.groups == ["system:serviceaccounts:robotics-legs"]


async def test_job_order(page):
    await page.apply("job-order.md")
    [urgent] = await page.running("page-urgent")
    assert (await page.group_of(urgent)).spec.priority_class_name == "build-preemptible"
    patient = await page.running("page-patient", 2)
    spec = (await page.group_of(patient[0])).spec
    assert (spec.preemption_delay, spec.staleness_grace_period, spec.min_member) == ("5m0s", "10m0s", 2)


async def test_batch(page):
    await page.apply("batch.md")
    sweep, gang = await page.running("page-sweep", 3), await page.running("page-gang", 4)
    assert (await page.group_of(sweep[0])).spec.min_member == 1
    assert (await page.group_of(gang[0])).spec.min_member == 4
    for pod in await page.running("page-pair", 2):
        assert (await page.group_of(pod)).metadata.name == "page-pair"


async def test_gpu_sharing(page):
    await page.apply("gpu-sharing.md")
    pods = {pod.metadata.name: pod for pod in await page.running("page-", 5)}
    maps = await page.cluster.client.list(CONFIG_MAPS, namespace=page.namespace)
    told = {each["metadata"]["name"]: each.get("data") or {} for each in maps}

    def seen(name, container=0):
        prefix = pods[name].annotations[names.SHARED_GPU_CONFIGMAP]
        return told[f"{prefix}-{container}"]

    assert seen("page-half")[names.GPU_PORTION] == "0.50"
    assert seen("page-mps")[names.GPU_PORTION] == "0.25"
    two = seen("page-two-halves", container=1)
    assert (two[names.GPU_PORTION], len(two[names.NVIDIA_VISIBLE_DEVICES].split(","))) == ("0.50", 2)


async def test_mig(page, node):
    await node(NodeShape(gpus=0, mig={"1g.10gb": 1}))
    await page.apply("mig.md")
    [pod] = await page.running("page-slice")
    assert pod.annotations[names.RECEIVED_RESOURCE_TYPE] == "MigInstance"


async def test_topology(page, node):
    places = {}
    for zone in ("a", "b"):
        for rack in ("1", "2"):
            labels = {"page.example.com/zone": zone, "page.example.com/rack": rack}
            places[await node(NodeShape(gpus=4, labels=labels))] = (zone, rack)
    await page.apply("topology.md", of=lambda body: body["metadata"]["name"] in ("page-site", "page-close"))
    assert len({places[pod.spec.node_name] for pod in await page.running("page-close", 4)}) == 1
    await page.apply("topology.md", of=lambda body: body["metadata"]["name"].startswith("page-segments"))
    found = {pod.metadata.name: places[pod.spec.node_name] for pod in await page.running("page-segments", 4)}
    assert found["page-segments-0-0"] == found["page-segments-0-1"]
    assert found["page-segments-1-0"] == found["page-segments-1-1"]
    assert len({zone for zone, _ in found.values()}) == 1
