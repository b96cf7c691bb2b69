"""Fairness over time, on a cluster: past use is recorded, and shares follow it."""

import time
import uuid
from contextlib import asynccontextmanager, contextmanager

import pytest
import yaml
from aiohttp import web

from deadlines import eventually
from e2e import prometheus
from e2e.harness import REAL, ROOT, chart_cluster, local_cluster
from e2e.installation import change, changed, leader, ready, soon, there, until_ready
from e2e.manifests import a_job, a_pod, as_yaml
from e2e.metrics import target, total
from kai.config.plugin_table import DEFAULT_PLUGINS, written_defaults
from kai.kube.resources import CONFIG_MAPS, CONFIGS, EVENTS, NODES, PVCS, SCHEDULING_SHARDS
from kai.model import names

GPUS = 4
#: What is used counts for an hour, and is looked at every second.
OFTEN = {"windowSize": "1h", "fetchInterval": "1s", "waitTimeout": "1s"}
#: Of what is scraped every second.
SCRAPED_OFTEN = {**OFTEN, "extraParams": {"queryResolution": "1s"}}
#: What an installation by the chart is told of Redis and of Prometheus is tried on every control plane.
_BY_OURSELVES = pytest.mark.skipif(REAL, reason="a cluster for each of two is enough, an embedded one")


def configuration(**usage):
    """That of the scheduler: the past counts strongly, and is read every second."""
    plugins = [{"name": each, "arguments": dict(written_defaults(each))} for each in DEFAULT_PLUGINS]
    for plugin in plugins:
        if plugin["name"] == "proportion":
            plugin["arguments"]["kValue"] = "4"
    return {"tiers": [{"plugins": plugins}], "usageDBConfig": usage}


@contextmanager
def remembering(folder, **usage):
    """Instead of the suite's cluster, a small one whose scheduler knows what was used."""
    name = f"usage-{uuid.uuid4().hex[:8]}"
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(configuration(**usage)))
    flags = (
        f"--flag=scheduler:scheduler-conf={folder / 'scheduler.yaml'}",
        "--flag=queue-controller:usage-interval=1s",
        "--nodes=1",
        f"--gpus-per-node={GPUS}",
    )
    with local_cluster(name, folder / "kubeconfig", *flags):
        yield name, folder / "kubeconfig"


@pytest.fixture(scope="module")
def scraping(prometheus_program, tmp_path_factory):
    with prometheus.running(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture(scope="module")
def embedded(request, tmp_path_factory):
    """Each of the two that keep the past: Redis, as where nothing is said, and Prometheus; or an installation
    by the chart, which remembers nothing until it is told to.
    """
    folder, usage = tmp_path_factory.mktemp("usage"), {"usageParams": OFTEN}
    if request.param == "chart":
        helm = request.getfixturevalue("helm_program")
        with chart_cluster("usage", folder, helm, "--nodes=1", f"--gpus-per-node={GPUS}") as cluster:
            yield cluster
        return
    if request.param == "prometheus":
        url = request.getfixturevalue("scraping").url
        usage = {"clientType": "prometheus", "connectionString": url, "usageParams": SCRAPED_OFTEN}
    with remembering(folder, **usage) as cluster:
        yield cluster


def addresses(cluster):
    return [one["address"] for one in cluster.status()["processes"] if one["address"]]


@pytest.fixture
async def capacity(cluster):
    """Tells what nodes offer as kube-state-metrics does; its address."""

    async def answer(request):
        lines = [
            f'kube_node_status_capacity{{node="{node["metadata"]["name"]}",resource="{resource}"}} {amount}'
            for node in await cluster.client.list(NODES)
            for resource, amount in (
                ("nvidia_com_gpu", node["status"]["capacity"].get(names.NVIDIA_GPU, "0")),
                ("cpu", node["status"]["capacity"]["cpu"]),
            )
        ]
        return web.Response(text="\n".join(lines) + "\n")

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"{host}:{port}"
    await runner.cleanup()


async def scrape(cluster, scraping, capacity):
    """Have a Prometheus look at who tells what queues have, and what there is."""
    (address,) = (
        one["address"] for one in cluster.status()["processes"] if one["name"] == "queue-controller"
    )
    scraping.scrape({"queue-controller": [await target(address)], "kube-state-metrics": [capacity]})
    await eventually(scraping.ready)


async def shares_follow_the_past(cluster, namespace, queue):
    """One team has had all GPUs for a while; another one comes, and at once gets more than half of them.

    The queue of the first one.
    """
    both = await queue(gpus=0)
    early, late = await queue(parent=both, gpus=0), await queue(parent=both, gpus=0)
    await cluster.apply(
        as_yaml(*(a_job(f"early-{n}", namespace, early, pods=1, gpus=1) for n in range(GPUS)))
    )
    await cluster.running(namespace, "early", count=GPUS)

    async def usage_of_early():
        return await total(addresses(cluster), "kai_queue_gpu_usage", queue_metadata_name=early)

    await cluster.eventually(usage_of_early, lambda found: found > 0.5, what="what was used is read")
    await cluster.apply(as_yaml(*(a_job(f"late-{n}", namespace, late, pods=1, gpus=1) for n in range(GPUS))))

    async def running_of_late():
        return [pod for pod in await cluster.pods(namespace, "late") if pod.status.phase == "Running"]

    # Of equal queues each would have half, had it not been for the past.
    await cluster.eventually(
        running_of_late, lambda pods: len(pods) > GPUS // 2, what="who came late gets more than half"
    )
    return early


@_BY_OURSELVES
@pytest.mark.parametrize("embedded", ["redis"], indirect=True)
async def test_who_used_much_gets_less_where_nothing_but_redis_is_there(cluster, queue, namespace):
    await shares_follow_the_past(cluster, namespace, queue)


@_BY_OURSELVES
@pytest.mark.parametrize("embedded", ["redis"], indirect=True)
async def test_the_manifests_of_the_page_are_taken(cluster):
    made = await cluster.apply((ROOT / "docs/examples/time-based-fairness.yaml").read_text())
    assert made[0]["spec"]["usageDBConfig"]["usageParams"]["windowSize"] == "2w"
    for queue in reversed(made[1:]):
        await cluster.delete(queue["apiVersion"], queue["kind"], queue["metadata"]["name"])
    await cluster.delete(made[0]["apiVersion"], made[0]["kind"], made[0]["metadata"]["name"])


@_BY_OURSELVES
@pytest.mark.parametrize("embedded", ["prometheus"], indirect=True)
async def test_who_used_much_gets_less_and_all_goes_on_when_prometheus_is_gone(
    cluster, scraping, capacity, queue, namespace
):
    await scrape(cluster, scraping, capacity)
    early = await shares_follow_the_past(cluster, namespace, queue)
    recorded = await scraping.query(f'max_over_time(kai_queue_allocated_gpus{{queue_name="{early}"}}[5m])')
    assert [sample.value for sample in recorded] == [GPUS]

    scraping.kill()

    async def failures():
        return await total(addresses(cluster), "kai_usage_read_failures_total")

    await cluster.eventually(failures, lambda found: found > 0, what="the scheduler says that nobody answers")
    await cluster.apply(as_yaml(a_pod("meanwhile", namespace, early)))
    await cluster.running(namespace, "meanwhile", count=1)


# --- by shard -------------------------------------------------------------------------------------
@asynccontextmanager
async def remembers(cluster, **usage):
    """The default shard is told where the past is; in force soon, and again as before afterwards."""
    await until_ready(cluster, SCHEDULING_SHARDS, "default")
    before = await leader(cluster)
    began = time.monotonic()
    await change(cluster, SCHEDULING_SHARDS, "default", usageDBConfig=usage, kValue=4)
    try:
        await soon(
            cluster,
            lambda: leader(cluster),
            lambda now: now != before,
            since=began,
            what="the new scheduler leads",
        )
        yield
    finally:
        await change(cluster, SCHEDULING_SHARDS, "default", usageDBConfig=None, kValue=None)
        await until_ready(cluster, SCHEDULING_SHARDS, "default")


@pytest.mark.parametrize("embedded", ["chart"], indirect=True)
async def test_a_shard_that_is_told_to_remember_goes_by_what_redis_keeps(cluster, queue, namespace):
    often, back = ({"service": {"extraArgs": args}} for args in ({"usage-interval": "1s"}, None))
    async with (
        changed(cluster, CONFIGS, "kai-config", back={"queueController": back}, queueController=often),
        remembers(cluster, usageParams=OFTEN),
    ):
        await shares_follow_the_past(cluster, namespace, queue)
        assert "kept in a Redis without a volume" not in await deployed(cluster)
        assert await there(cluster, PVCS, "kai-redis")
        await change(cluster, CONFIGS, "kai-config", redis={"persistence": {"enabled": False}})
        try:
            await cluster.eventually(
                lambda: deployed(cluster),
                lambda told: "kept in a Redis without a volume" in told,
                what="the shard is told that the past will be forgotten",
            )
        finally:
            await change(cluster, CONFIGS, "kai-config", redis={"persistence": {"enabled": None}})


async def deployed(cluster):
    """What the shard says of being deployed."""
    shard = await cluster.client.get(SCHEDULING_SHARDS, "default")
    (told,) = [one for one in shard["status"]["conditions"] if one["type"] == "Deployed"]
    return told["message"]


@pytest.mark.parametrize("embedded", ["chart"], indirect=True)
async def test_a_shard_asks_the_prometheus_that_config_names(
    cluster, prometheus_program, capacity, queue, namespace, tmp_path
):
    with prometheus.running(tmp_path) as running:
        await scrape(cluster, running, capacity)
        named, back = (
            {"enabled": enabled, "externalPrometheusUrl": url}
            for enabled, url in ((True, running.url), (None, None))
        )
        async with (
            changed(cluster, CONFIGS, "kai-config", back={"prometheus": back}, prometheus=named),
            remembers(cluster, clientType="prometheus", usageParams=SCRAPED_OFTEN),
        ):
            await shares_follow_the_past(cluster, namespace, queue)


@pytest.mark.parametrize("embedded", ["chart"], indirect=True)
@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ({"clientType": "prometheus"}, "spec.usageDBConfig.connectionString is missing"),
        (
            {"usageParams": {"windowSize": "soon"}},
            "spec.usageDBConfig.usageParams.windowSize is 'soon'; it must be a duration",
        ),
        (
            {"usageParams": {"windowType": "cron"}},
            "usageDBConfig.usageParams.cronString: must be set when windowType is cron",
        ),
    ],
    ids=["nobody to ask", "no duration", "half a window"],
)
async def test_a_shard_that_cannot_remember_so_says_which_field_is_wrong_and_goes_on_as_before(
    cluster, usage, said
):
    await until_ready(cluster, SCHEDULING_SHARDS, "default")
    before = await leader(cluster), await there(cluster, CONFIG_MAPS, "kai-scheduler-default")
    await change(cluster, SCHEDULING_SHARDS, "default", usageDBConfig=usage)
    try:
        told = await cluster.eventually(
            lambda: ready(cluster, SCHEDULING_SHARDS, "default"),
            lambda found: found is not None and found[:2] == ("False", "invalid_spec"),
            what="it is refused",
        )
        assert said in told[2]

        async def events():
            found = await cluster.client.list(EVENTS)
            return [one["note"] for one in found if one.get("reason") == "InvalidSpec"]

        await cluster.eventually(
            events, lambda notes: any(said in note for note in notes), what="an event says so"
        )
        after = await leader(cluster), await there(cluster, CONFIG_MAPS, "kai-scheduler-default")
        assert after == before
    finally:
        await change(cluster, SCHEDULING_SHARDS, "default", usageDBConfig=None)
    await until_ready(cluster, SCHEDULING_SHARDS, "default")
