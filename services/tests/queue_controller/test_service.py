"""The service against an API server that keeps objects and calls webhooks."""

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import CRDS, NAMESPACES, POD_GROUPS, QUEUES, VALIDATING_WEBHOOKS
from kai.model import names
from kai.runtime import Host
from kai.validation.registration import QUEUE_CONTROLLER, webhook_configurations
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_queue_controller.service import QueueControllerService
from kai_queue_controller.settings import QueueControllerSettings

pytestmark = pytest.mark.integration

#: How often a status may be written.
INTERVAL_SECONDS = 0.3
AMOUNT = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
RESOURCES = {"gpu": AMOUNT, "cpu": AMOUNT, "memory": AMOUNT}


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def admin(api, tmp_path):
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as client:
        for definition in definitions(POD_GROUPS, QUEUES):
            await client.create(CRDS, definition)
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        yield client


@asynccontextmanager
async def controller(kubeconfig, *arguments):
    settings = QueueControllerSettings.parse(
        ["--enable-webhook=false", f"--status-interval={1000 * INTERVAL_SECONDS:g}ms", *arguments]
    )
    service = QueueControllerService(settings)
    host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
    agent = "controller-under-test"
    async with (
        KubeClient.connect(kubeconfig, user_agent=agent, registry=host.metrics) as host.client,
        asyncio.TaskGroup() as host.tasks,
    ):
        work = host.tasks.create_task(service.run(host))
        await eventually(
            host.health.ask, lambda checks: not checks.get("synced", "no check yet") and host.health.ready
        )
        yield host
        host.stopping.set()
        await asyncio.wait([work])
        host.stop_background()


def writes(api):
    return {
        (entry["verb"], entry["resource"]): entry["count"]
        for entry in api.counts.report()
        if entry["userAgent"] == "controller-under-test" and entry["verb"] not in ("watch", "list", "get")
    }


async def make_queues(client, *chain):
    for name, parent in zip(chain, ["", *chain], strict=False):
        spec = {"parentQueue": parent, "resources": RESOURCES}
        await client.create(QUEUES, {"metadata": {"name": name}, "spec": spec})


async def make_group(client, name, queue, cpu):
    await client.create(POD_GROUPS, {"metadata": {"name": name}, "spec": {"queue": queue}}, namespace="team")
    amounts = {"requested": {"cpu": cpu}, "allocated": {"cpu": cpu}}
    patch = {"status": {"resourcesStatus": amounts}}
    await client.patch(POD_GROUPS, name, patch, namespace="team", subresource="status")


async def until_status(client, name, condition):
    async def status():
        return (await client.get(QUEUES, name)).get("status") or {}

    return await eventually(status, condition, what=f"the status of {name} is as wanted")


async def test_status_and_metrics_follow_the_groups_up_the_tree(admin, tmp_path):
    await make_queues(admin, "root", "department", "team")
    async with controller(str(tmp_path / "config")) as host:
        await make_group(admin, "a", "team", "1500m")
        await make_group(admin, "b", "team", "1")
        status = await until_status(admin, "root", lambda status: status.get("allocated") == {"cpu": "2500m"})
        assert status["childQueues"] == ["department"]
        labels = {"queue_name": "root", "queue_metadata_name": "root", "queue_display_name": ""}
        assert host.metrics.get_sample_value("kai_queue_allocated_cpu_cores", labels) == 2.5
        await admin.delete(POD_GROUPS, "a", namespace="team")
        await until_status(admin, "root", lambda status: status["allocated"] == {"cpu": "1"})


async def test_a_restart_writes_nothing_and_leaves_no_metrics_behind(api, admin, tmp_path):
    await make_queues(admin, "root", "team")
    async with controller(str(tmp_path / "config")) as host:
        await make_group(admin, "a", "team", "1")
        for name in ("root", "team"):
            await until_status(admin, name, lambda status: status.get("allocated") == {"cpu": "1"})
    assert b"kai_queue_info" not in repr(list(host.metrics.collect())).encode()
    api.counts.reset()
    async with controller(str(tmp_path / "config")):
        await asyncio.sleep(1.0)
    assert writes(api) == {}


async def test_who_has_read_no_queue_keeps_the_lease_from_nobody(api, admin, tmp_path, monkeypatch):
    await admin.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
    asked = []
    elector = Host.elector
    monkeypatch.setattr(Host, "elector", lambda *args, **more: asked.append(args) or elector(*args, **more))
    api.faults.rules.append(Rule(user_agent="controller-under-test", resource="queues", hang=True))

    async def let_go():
        await eventually(lambda: api.faults.held)
        assert not asked
        api.faults.release()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(let_go())
        async with controller(str(tmp_path / "config"), "--leader-elect"):
            assert asked


async def test_many_groups_cost_few_writes(api, admin, tmp_path):
    clock = asyncio.get_running_loop().time
    await make_queues(admin, "root", "team")
    async with controller(str(tmp_path / "config")):
        began = clock()
        await asyncio.gather(*(make_group(admin, f"g{number}", "team", "1") for number in range(60)))
        await until_status(admin, "root", lambda status: status.get("allocated") == {"cpu": "60"})
        intervals = (clock() - began) / INTERVAL_SECONDS
    assert writes(api)["patch", "queues/status"] <= 2 * (intervals + 2)  # of each of two queues one at a time


async def test_a_webhook_refuses_what_breaks_the_tree(api, admin, tmp_path):
    pair = api.authority.server(["127.0.0.1"])
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    port = await free_port()
    arguments = [
        "--enable-webhook",
        "--refuse-queue-deletion",
        f"--webhook-listen=127.0.0.1:{port}",
        f"--cert-dir={tmp_path}",
    ]
    bundle = base64.b64encode(api.authority.certificate).decode()
    async with controller(str(tmp_path / "config"), *arguments):
        for configuration in webhook_configurations(
            lambda service, path: {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
        ):
            if QUEUE_CONTROLLER.split("-")[0] in configuration["metadata"]["name"]:
                await admin.create(VALIDATING_WEBHOOKS, configuration)
        with pytest.raises(errors.ApiError, match=r"spec\.resources is missing"):
            await admin.create(QUEUES, {"metadata": {"name": "bare"}, "spec": {}})
        await make_queues(admin, "root", "team")
        await until_status(admin, "root", lambda status: status.get("childQueues") == ["team"])
        with pytest.raises(errors.ApiError, match="circle"):
            await admin.patch(QUEUES, "root", {"spec": {"parentQueue": "team"}})
        with pytest.raises(errors.ApiError, match="it is the parent of team"):
            await admin.delete(QUEUES, "root")
        await admin.delete(QUEUES, "team")
        await admin.delete(QUEUES, "root")


async def free_port():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port
