"""Fairness over time by a real Prometheus: it scrapes the queue-controller, and the scheduler asks it."""

import uuid

import pytest
import yaml
from aiohttp import web

from deadlines import eventually
from e2e import prometheus
from e2e.harness import ROOT, local_cluster
from e2e.manifests import a_job, a_pod, a_queue, as_yaml
from e2e.metrics import total
from kai.engine.config.plugin_table import DEFAULT_PLUGINS, written_defaults
from kai.kube.resources import NODES
from kai.model import names

GPUS = 4


def configuration(url):
    """That of the scheduler: the past counts strongly, and is read every second."""
    plugins = [{"name": each, "arguments": dict(written_defaults(each))} for each in DEFAULT_PLUGINS]
    for plugin in plugins:
        if plugin["name"] == "proportion":
            plugin["arguments"]["kValue"] = "4"
    usage = {
        "clientType": "prometheus",
        "connectionString": url,
        "usageParams": {
            "windowSize": "1h",
            "fetchInterval": "1s",
            "waitTimeout": "1s",
            "extraParams": {"queryResolution": "1s"},
        },
    }
    return {"tiers": [{"plugins": plugins}], "usageDBConfig": usage}


@pytest.fixture(scope="module")
def scraping(prometheus_program, tmp_path_factory):
    with prometheus.running(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture(scope="module")
def embedded(scraping, tmp_path_factory):
    """Instead of the suite's cluster, a small one whose scheduler asks Prometheus."""
    folder, name = tmp_path_factory.mktemp("usage"), f"usage-{uuid.uuid4().hex[:8]}"
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(configuration(scraping.url)))
    flags = (
        f"--flag=scheduler:scheduler-conf={folder / 'scheduler.yaml'}",
        "--nodes=1",
        f"--gpus-per-node={GPUS}",
    )
    with local_cluster(name, folder / "kubeconfig", *flags):
        yield name, folder / "kubeconfig"


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


async def test_the_manifests_of_the_page_are_taken(cluster):
    made = await cluster.apply((ROOT / "docs/examples/time-based-fairness.yaml").read_text())
    assert made[0]["spec"]["usageDBConfig"]["usageParams"]["windowSize"] == "2w"
    for queue in reversed(made[1:]):
        await cluster.delete(queue["apiVersion"], queue["kind"], queue["metadata"]["name"])
    await cluster.delete(made[0]["apiVersion"], made[0]["kind"], made[0]["metadata"]["name"])


async def test_who_used_much_gets_less_and_all_goes_on_when_prometheus_is_gone(
    cluster, scraping, capacity, namespace
):
    queue_controller = [
        one["address"].removeprefix("http://")
        for one in cluster.status()["processes"]
        if one["name"] == "queue-controller"
    ]
    scraping.scrape({"queue-controller": queue_controller, "kube-state-metrics": [capacity]})
    await eventually(scraping.ready)
    await cluster.apply(
        as_yaml(
            a_queue("both", gpus=0), *(a_queue(each, parent="both", gpus=0) for each in ("early", "late"))
        )
    )
    await cluster.apply(
        as_yaml(*(a_job(f"early-{n}", namespace, "early", pods=1, gpus=1) for n in range(GPUS)))
    )
    await cluster.running(namespace, "early", count=GPUS)

    async def usage_of_early():
        return await total(addresses(cluster), "kai_queue_gpu_usage", queue_metadata_name="early")

    await cluster.eventually(usage_of_early, lambda found: found > 0.5, what="use is read from Prometheus")
    recorded = await scraping.query('max by (queue_name) (kai_queue_allocated_gpus{queue_name="early"})')
    assert [sample.value for sample in recorded] == [GPUS]

    await cluster.apply(
        as_yaml(*(a_job(f"late-{n}", namespace, "late", pods=1, gpus=1) for n in range(GPUS)))
    )

    async def running_of_late():
        return [pod for pod in await cluster.pods(namespace, "late") if pod.status.phase == "Running"]

    # Of equal queues each would have half, had it not been for the past.
    await cluster.eventually(
        running_of_late, lambda pods: len(pods) > GPUS // 2, what="who came late gets more than half"
    )

    scraping.kill()

    async def failures():
        return await total(addresses(cluster), "kai_usage_read_failures_total")

    await cluster.eventually(failures, lambda found: found > 0, what="the scheduler says that nobody answers")
    await cluster.apply(as_yaml(a_pod("meanwhile", namespace, "early")))
    await cluster.running(namespace, "meanwhile", count=1)
