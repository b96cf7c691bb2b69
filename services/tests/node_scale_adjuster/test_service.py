"""The service against an API server that keeps objects and can be told to fail."""

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

import kai_node_scale_adjuster.adjuster
from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.resources import EVENTS, LEASES, NAMESPACES, PODS, SERVICE_ACCOUNTS
from kai.model import names
from kai.runtime import Host, SettingsError
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_node_scale_adjuster.service import LEASE, NodeScaleAdjusterService
from kai_node_scale_adjuster.settings import NodeScaleAdjusterSettings

from .conftest import pod_json

AGENT = "adjuster-under-test"
SCALING = names.SCALE_ADJUST_NAMESPACE


# --- what it is told ---------------------------------------------------------------------------
def test_flags_of_the_original_are_understood():
    settings = NodeScaleAdjusterSettings.parse([
        "--scaling-pod-image=example.com/scalingpod:v1",
        "--scaling-pod-image-pull-policy=Always",
        "--scale-adjust-namespace=scale",
        "--scheduler-name=kai-scheduler",
        "--scaling-pod-app-label=scaling",
        "--scaling-pod-service-account=scaler",
        "--gpu-memory-to-fraction-ratio=0.250000",
        "--leader-elect=false",
        "--qps=50",
        "--burst=300",
    ])  # fmt: skip
    assert settings.scaling_pod_image == "example.com/scalingpod:v1"
    assert float(settings.gpu_memory_to_fraction_ratio) == 0.25
    assert settings.ignored == ()


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--gpu-memory-to-fraction-ratio=0", "greater than 0"),
        ("--gpu-memory-to-fraction-ratio=2", "less than or equal to 1"),
        ("--gpu-memory-to-fraction-ratio=x", "decimal"),
        ("--scale-adjust-namespace=", "at least 1 character"),
        ("--scaling-pod-image-pull-policy=Sometimes", "Always"),
        ("--cool-down=-1s", "greater than or equal to 0"),
    ],
)
def test_what_is_wrong_is_named(argument, said):
    with pytest.raises(SettingsError, match=said):
        NodeScaleAdjusterSettings.parse([argument])


def test_the_program_of_a_scaling_pod_ends_at_once_and_well():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-m", "kai_scaling_pod"], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# --- what it does ------------------------------------------------------------------------------
@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def admin(api, tmp_path):
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as client:
        for name in ("team", SCALING):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "scaling-pod"}}, namespace=SCALING)
        yield client


@asynccontextmanager
async def adjuster(kubeconfig, *arguments, ready=True):
    settings = NodeScaleAdjusterSettings.parse(["--cool-down=0s", *arguments])
    service = NodeScaleAdjusterService(settings)
    host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
    async with (
        KubeClient.connect(kubeconfig, user_agent=AGENT, registry=host.metrics) as host.client,
        asyncio.TaskGroup() as host.tasks,
    ):
        work = host.tasks.create_task(service.run(host))
        if ready:
            await eventually(lambda: host.health.ask().get("synced") == "")
        yield host
        host.stopping.set()
        await asyncio.wait([work])
        host.stop_background()


async def wait_for_gpu(client, name, **options):
    """A pod that asks for a part of a GPU, and that no node can take."""
    body = pod_json(name, **options)
    made = {
        "metadata": {key: body["metadata"][key] for key in ("name", "annotations")},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "main", "image": "x"}]},
    }
    await client.create(PODS, made, namespace="team")
    await client.patch(PODS, name, {"status": body["status"]}, namespace="team", subresource="status")


async def bind(client, name, *, namespace="team"):
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await client.create_subresource(PODS, name, "binding", binding, namespace=namespace)


async def until_scaling(client, *expected):
    async def look():
        found = await client.list(PODS, namespace=SCALING)
        return sorted(pod["metadata"]["name"] for pod in found)

    what = f"scaling pods are {expected}"
    return await eventually(look, lambda found: found == sorted(expected), what=what)


async def until_marked(client, *expected):
    async def look():
        pods = await client.list(PODS, namespace=SCALING)
        return {pod["metadata"]["name"]: conditions(pod) for pod in pods}

    def conditions(pod):
        return [(c["type"], c["status"], c["reason"]) for c in pod["status"].get("conditions") or ()]

    marked = {name: [("PodScheduled", "False", "Unschedulable")] for name in expected}
    await eventually(look, lambda found: found == marked)


def requests(api, *verbs):
    return {
        (entry["verb"], entry["resource"]): entry["count"]
        for entry in api.counts.report()
        if entry["userAgent"] == AGENT and entry["verb"] in verbs
    }


@pytest.mark.integration
async def test_a_scaling_pod_is_made_marked_and_told_of(admin, tmp_path):
    flags = ["--scaling-pod-image=example.com/pod:v1", "--scaling-pod-image-pull-policy=Never"]
    async with adjuster(str(tmp_path / "config"), *flags) as host:
        await wait_for_gpu(admin, "half")
        await until_scaling(admin, "team-half")
        made = await admin.get(PODS, "team-half", namespace=SCALING)
        (container,) = made["spec"]["containers"]
        assert (container["image"], container["imagePullPolicy"]) == ("example.com/pod:v1", "Never")
        await until_marked(admin, "team-half")
        events = await eventually(lambda: admin.list(EVENTS, namespace="team"))
        assert [(e["reason"], e["regarding"]["name"]) for e in events] == [("ScaleUpRequested", "half")]
        assert "kai-scale-adjust/team-half" in events[0]["note"]
        assert host.metrics.get_sample_value("kai_scale_adjuster_scaling_devices") == 1


@pytest.mark.integration
@pytest.mark.parametrize("end", ["bound", "deleted"])
async def test_it_goes_with_its_cause(admin, tmp_path, end):
    async with adjuster(str(tmp_path / "config")):
        await wait_for_gpu(admin, "half")
        await until_scaling(admin, "team-half")
        if end == "bound":
            await bind(admin, "half")
        else:
            await admin.delete(PODS, "half", namespace="team", grace_seconds=0)
        await until_scaling(admin)


@pytest.mark.integration
async def test_one_that_has_done_its_work_is_removed_and_made_anew_only_after_the_pause(admin, tmp_path):
    async with adjuster(str(tmp_path / "config"), "--cool-down=1h"):
        await wait_for_gpu(admin, "half")
        await until_scaling(admin, "team-half")
        await bind(admin, "team-half", namespace=SCALING)
        ended = {"status": {"phase": "Succeeded"}}
        await admin.patch(PODS, "team-half", ended, namespace=SCALING, subresource="status")
        await until_scaling(admin)
        await wait_for_gpu(admin, "other", fraction="0.9")
        await asyncio.sleep(1)
        await until_scaling(admin)


@pytest.mark.integration
async def test_a_pod_of_another_scheduler_or_with_a_node_is_nothing_to_it(api, admin, tmp_path):
    await wait_for_gpu(admin, "bound")
    await bind(admin, "bound")
    foreign = {"metadata": {"name": "foreign"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    await admin.create(PODS, foreign, namespace=SCALING)
    api.counts.reset()
    async with adjuster(str(tmp_path / "config")):
        await asyncio.sleep(1)
    assert requests(api, "create", "patch", "delete") == {}
    await until_scaling(admin, "foreign")


@pytest.mark.integration
async def test_one_for_a_thousand_devices_is_made_once(api, admin, tmp_path):
    """However unlikely the node: an API server writes the amount as ``1k``."""
    async with adjuster(str(tmp_path / "config")):
        await wait_for_gpu(admin, "typo", devices=1000)
        await until_marked(admin, "team-typo")
        await admin.delete(PODS, "typo", namespace="team", grace_seconds=0)
        await until_scaling(admin)
    assert requests(api, "create", "delete")["create", "pods"] == 1


@pytest.mark.integration
async def test_a_restart_writes_nothing(api, admin, tmp_path):
    async with adjuster(str(tmp_path / "config")):
        await wait_for_gpu(admin, "half")
        await until_marked(admin, "team-half")
    api.counts.reset()
    async with adjuster(str(tmp_path / "config")):
        await asyncio.sleep(1)
    assert requests(api, "create", "patch", "delete") == {}


# --- trouble -----------------------------------------------------------------------------------
@pytest.mark.integration
@pytest.mark.parametrize(
    "rule",
    [
        Rule(verb="create", resource="pods", user_agent=AGENT, status=503, count=2),
        Rule(verb="create", resource="pods", user_agent=AGENT, drop=True, after=True),
        Rule(verb="patch", resource="pods", subresource="status", user_agent=AGENT, status=409),
    ],
    ids=["busy", "answer lost", "conflict on the mark"],
)
async def test_an_api_server_in_trouble_gets_one_scaling_pod_all_the_same(api, admin, tmp_path, rule):
    api.faults.rules.append(rule)
    async with adjuster(str(tmp_path / "config")):
        await wait_for_gpu(admin, "half")
        await until_scaling(admin, "team-half")
        await asyncio.sleep(0.5)
        await until_scaling(admin, "team-half")


@pytest.mark.integration
@pytest.mark.parametrize("trouble", [{"status": 409}, {"status": 422}, {"drop": True}], ids=str)
async def test_scaling_pods_whose_mark_failed_are_marked_later(api, admin, tmp_path, monkeypatch, trouble):
    """And hold up no other: a cluster autoscaler sees those alone that are marked."""
    monkeypatch.setattr(kai_node_scale_adjuster.adjuster, "RETRY_SECONDS", 0.1)
    fault = Rule(verb="patch", resource="pods", subresource="status", user_agent=AGENT, count=-1, **trouble)
    api.faults.rules.append(fault)
    async with adjuster(str(tmp_path / "config")):
        for name in ("first", "second"):
            await wait_for_gpu(admin, name, fraction="0.9")
        await until_scaling(admin, "team-first", "team-second")
        api.faults.rules.remove(fault)
        await until_marked(admin, "team-first", "team-second")


@pytest.mark.integration
async def test_a_mark_that_is_refused_is_told_of(api, admin, tmp_path):
    refused = Rule(
        verb="patch", resource="pods", subresource="status", user_agent=AGENT, status=403, count=-1
    )
    api.faults.rules.append(refused)
    async with adjuster(str(tmp_path / "config")) as host:
        await wait_for_gpu(admin, "half")
        told = await eventually(host.health.notes)
        assert f"no autoscaler sees {SCALING}/team-half yet" in str(told)
        assert host.health.ready


@pytest.mark.integration
async def test_a_scaling_pod_that_was_left_without_its_mark_is_marked(api, admin, tmp_path):
    config = str(tmp_path / "config")
    async with adjuster(config):
        await wait_for_gpu(admin, "half")
        await until_marked(admin, "team-half")
    unmarked = {"status": {"conditions": []}}
    await admin.patch(PODS, "team-half", unmarked, namespace=SCALING, subresource="status")
    async with adjuster(config):
        await until_marked(admin, "team-half")


@pytest.mark.integration
async def test_a_deletion_that_failed_is_repeated(api, admin, tmp_path):
    async with adjuster(str(tmp_path / "config")):
        await wait_for_gpu(admin, "half")
        await until_scaling(admin, "team-half")
        api.faults.rules.append(Rule(verb="delete", resource="pods", user_agent=AGENT, status=503, count=2))
        await admin.delete(PODS, "half", namespace="team", grace_seconds=0)
        await until_scaling(admin)


#: A policy, and a webhook that has to be asked and is down.
REFUSALS = pytest.mark.parametrize("status", [403, 500])


@pytest.mark.integration
@REFUSALS
async def test_one_that_is_refused_holds_up_no_other_and_is_told_of(api, admin, tmp_path, status):
    api.faults.rules.append(Rule(verb="create", resource="pods", user_agent=AGENT, status=status))
    async with adjuster(str(tmp_path / "config")) as host:
        for name in ("first", "second"):
            await wait_for_gpu(admin, name, fraction="0.9")
        await eventually(host.health.notes)
        await eventually(lambda: admin.list(PODS, namespace=SCALING), lambda pods: len(pods) == 1)

        async def reasons():
            return {event["reason"] for event in await admin.list(EVENTS, namespace="team")}

        await eventually(reasons, lambda found: "ScaleUpRefused" in found)
        assert host.health.ready


@pytest.mark.integration
@REFUSALS
async def test_one_that_cannot_be_deleted_keeps_no_other_from_being_made(
    api, admin, tmp_path, monkeypatch, status
):
    """As where a policy protects the pods of a namespace: that one is tried again, and told of."""
    monkeypatch.setattr(kai_node_scale_adjuster.adjuster, "RETRY_SECONDS", 0.1)
    async with adjuster(str(tmp_path / "config"), "--cool-down=1h") as host:
        await wait_for_gpu(admin, "first")
        await until_scaling(admin, "team-first")
        api.faults.rules.append(
            Rule(verb="delete", resource="pods", user_agent=AGENT, status=status, count=-1)
        )
        await admin.delete(PODS, "first", namespace="team", grace_seconds=0)
        assert "team-first" in str(await eventually(host.health.notes))
        await wait_for_gpu(admin, "second")
        await until_scaling(admin, "team-first", "team-second")


@pytest.mark.integration
async def test_who_works_no_more_counts_no_pods(admin, tmp_path):
    """Who leads next counts them, and sums over replicas would count them twice."""
    async with adjuster(str(tmp_path / "config")) as host:
        await wait_for_gpu(admin, "half")
        await eventually(lambda: set(counted(host).values()) == {1})
    assert set(counted(host).values()) == {0}


def counted(host):
    return {
        name: host.metrics.get_sample_value(f"kai_scale_adjuster_{name}")
        for name in ("waiting_pods", "scaling_pods", "scaling_devices")
    }


@pytest.mark.integration
async def test_one_of_two_works(api, admin, tmp_path):
    await admin.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
    config, elect = str(tmp_path / "config"), "--leader-elect"
    async with adjuster(config, elect), adjuster(config, elect, ready=False) as standby:
        await wait_for_gpu(admin, "half")
        await until_scaling(admin, "team-half")
        lease = await admin.get(LEASES, LEASE, namespace=names.NAMESPACE)
        assert lease["spec"]["holderIdentity"]
        assert "synced" not in standby.health.ask()
    await until_scaling(admin, "team-half")
