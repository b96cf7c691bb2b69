"""The service between a kubelet's socket and an API server."""

import asyncio
import json
from contextlib import asynccontextmanager

import grpc
import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from e2e.podresources import a_kubelet, a_sysfs, container, devices, given
from kai.kube.client import KubeClient
from kai.kube.resources import NAMESPACES, PODS, VALIDATING_WEBHOOKS
from kai.model import names
from kai.runtime import FatalError, Host, SettingsError
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_numa_placement_exporter.kubelet import OPTIONS
from kai_numa_placement_exporter.service import NumaPlacementExporterService
from kai_numa_placement_exporter.settings import NumaPlacementExporterSettings

AGENT = "exporter-under-test"
GPU = "nvidia.com/gpu"
SEEN = [{"zone": "node-0", "amount": {GPU: "2"}}]


# --- what it is told ---------------------------------------------------------------------------
def test_flags_of_the_original_are_understood():
    settings = NumaPlacementExporterSettings.parse([
        "--node-name=n1",
        "--podresources-socket=/run/kubelet.sock",
        "--sysfs-root=/host/sys",
        "--poll-interval=2s",
        "--drift-resync-interval=5m",
        "--qps=50",
        "--burst=100",
    ])  # fmt: skip
    assert (settings.node_name, settings.pod_resources_socket) == ("n1", "/run/kubelet.sock")
    assert (settings.poll_interval, settings.drift_resync_interval) == (2, 300)


def test_the_node_may_come_from_the_downward_api(monkeypatch):
    monkeypatch.setenv("NODE_NAME", "n7")
    assert NumaPlacementExporterSettings.parse([]).node_name == "n7"


def test_without_a_node_it_refuses_to_run(monkeypatch):
    monkeypatch.delenv("NODE_NAME", raising=False)
    with pytest.raises(SettingsError, match="--node-name is not set"):
        NumaPlacementExporterSettings.parse([]).check()


@pytest.mark.parametrize(
    ("argument", "said"),
    [("--poll-interval=0s", "greater than 0"), ("--drift-resync-interval=-1s", "greater than or equal to 0")],
)
def test_what_is_wrong_is_named(argument, said):
    with pytest.raises(SettingsError, match=said):
        NumaPlacementExporterSettings.parse([argument])


# --- what it does ------------------------------------------------------------------------------
@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def admin(api, tmp_path):
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        yield client


@pytest.fixture
async def kubelet(tmp_path):
    async with a_kubelet(tmp_path / "kubelet.sock") as found:
        yield found


@pytest.fixture
def exporter(api, admin, tmp_path):
    """Runs the service: ``async with exporter("--drift-resync-interval=1s") as host``."""
    root = a_sysfs(tmp_path, "0-3", "4-7")

    @asynccontextmanager
    async def run(*arguments, ready=True):
        settings = NumaPlacementExporterSettings.parse([
            "--node-name=n1", f"--podresources-socket={tmp_path / 'kubelet.sock'}", f"--sysfs-root={root}",
            "--poll-interval=50ms", *arguments,
        ])  # fmt: skip
        service = NumaPlacementExporterService(settings)
        host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
        async with (
            KubeClient.connect(str(tmp_path / "config"), user_agent=AGENT) as host.client,
            asyncio.TaskGroup() as host.tasks,
        ):
            work = host.tasks.create_task(service.run(host))
            if ready:
                await eventually(lambda: host.health.ask().get("kubelet") == "")
            yield host
            host.stopping.set()
            await asyncio.wait([work])

    return run


async def a_pod(client, name, *, node="n1", observed="", labels=None):
    annotations = {names.NUMA_OBSERVED: observed} if observed else {}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
    body = {"metadata": {"name": name, "annotations": annotations, "labels": labels or {}}, "spec": spec}
    await client.create(PODS, body, namespace="team")


async def says(client, name, expected):
    async def look():
        found = await client.get(PODS, name, namespace="team")
        text = (found["metadata"].get("annotations") or {}).get(names.NUMA_OBSERVED)
        return None if text is None else json.loads(text)

    return await eventually(look, lambda found: found == expected, what=f"{name} says {expected}")


def patches(api):
    return sum(
        entry["count"]
        for entry in api.counts.report()
        if (entry["userAgent"], entry["verb"]) == (AGENT, "patch")
    )


@pytest.mark.integration
async def test_where_pods_are_is_written_on_them_when_it_changes_and_not_again(api, admin, kubelet, exporter):
    await a_pod(admin, "p")
    async with exporter() as host:
        kubelet.pods = [given("p", container(devices(GPU, "a", "b")))]
        await says(admin, "p", SEEN)
        kubelet.pods = [given("p", container(devices(GPU, "a"), devices(GPU, "b", zones=(1,)), cpus=[4]))]
        both = [
            {"zone": "node-0", "amount": {GPU: "1"}},
            {"zone": "node-1", "amount": {"cpu": "1", GPU: "1"}},
        ]
        await says(admin, "p", both)
        asked = kubelet.asked
        await eventually(lambda: kubelet.asked > asked + 5)
        assert patches(api) == 2
        assert host.metrics.get_sample_value("kai_numa_exporter_placed_pods") == 1


@pytest.mark.integration
async def test_a_restart_writes_nothing(api, admin, kubelet, exporter):
    await a_pod(admin, "p")
    kubelet.pods = [given("p", container(devices(GPU, "a", "b")))]
    async with exporter():
        await says(admin, "p", SEEN)
    async with exporter():
        asked = kubelet.asked
        await eventually(lambda: kubelet.asked > asked + 5)
    assert patches(api) == 1


@pytest.mark.integration
async def test_what_others_wrote_is_put_right(admin, kubelet, exporter):
    other = json.dumps([{"zone": "node-1", "amount": {GPU: "2"}}])
    await a_pod(admin, "there", observed=other)
    await a_pod(admin, "nowhere", observed=other)
    kubelet.pods = [given("there", container(devices(GPU, "a", "b"))), given("nowhere", container())]
    async with exporter("--drift-resync-interval=200ms"):
        await says(admin, "there", SEEN)
        await says(admin, "nowhere", None)
        patch = {"metadata": {"annotations": {names.NUMA_OBSERVED: other}}}
        await admin.patch(PODS, "there", patch, namespace="team")
        await says(admin, "there", SEEN)


@pytest.mark.integration
async def test_without_drift_checks_pods_are_looked_at_once(api, admin, kubelet, exporter):
    async with exporter("--drift-resync-interval=0"):
        asked = kubelet.asked
        await eventually(lambda: kubelet.asked > asked + 5)
    listed = [e["count"] for e in api.counts.report() if (e["userAgent"], e["verb"]) == (AGENT, "list")]
    assert listed == [1]


@pytest.mark.integration
async def test_pods_of_which_the_api_server_knows_nothing_hold_up_no_other(api, admin, kubelet, exporter):
    await a_pod(admin, "p")
    two = container(devices(GPU, "a", "b"))
    kubelet.pods = [given("gone", two), given("p", two)]
    async with exporter() as host:
        await says(admin, "p", SEEN)
        asked = kubelet.asked
        await eventually(lambda: kubelet.asked > asked + 5)
        assert patches(api) == 1
        assert host.metrics.get_sample_value("kai_numa_exporter_writes_total", {"result": "gone"}) == 1


@pytest.mark.integration
async def test_a_pod_of_that_name_on_another_node_is_left_alone(api, admin, kubelet, exporter):
    """As one of a StatefulSet that goes on elsewhere while the kubelet here still ends the former."""
    kubelet.pods = [given("p", container(devices(GPU, "a", "b")))]
    await a_pod(admin, "p", node="n2")
    async with exporter():
        asked = kubelet.asked
        await eventually(lambda: kubelet.asked > asked + 5)
    assert patches(api) == 0


@pytest.mark.integration
async def test_a_pod_that_was_made_again_under_its_name_is_told_where_it_is(admin, kubelet, exporter):
    await a_pod(admin, "p")
    kubelet.pods = [given("p", container(devices(GPU, "a", "b")))]
    async with exporter("--drift-resync-interval=0"):
        await says(admin, "p", SEEN)
        await admin.delete(PODS, "p", namespace="team", grace_seconds=0)
        await a_pod(admin, "p")
        kubelet.pods = [given("p", container(devices(GPU, "a", zones=(1,))))]
        await says(admin, "p", [{"zone": "node-1", "amount": {GPU: "1"}}])


# --- trouble -----------------------------------------------------------------------------------
@pytest.mark.integration
@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_a_kubelet_that_does_not_answer_is_asked_again(admin, kubelet, exporter, code):
    await a_pod(admin, "p")
    async with exporter() as host:
        kubelet.failure = code
        await eventually(lambda: code.name in host.health.ask()["kubelet"])
        kubelet.pods, kubelet.failure = [given("p", container(devices(GPU, "a", "b")))], None
        await says(admin, "p", SEEN)
        await eventually(lambda: host.health.ready)


@pytest.mark.integration
async def test_a_kubelet_may_come_late_and_start_again(admin, tmp_path, exporter):
    await a_pod(admin, "p")
    socket = tmp_path / "kubelet.sock"
    async with exporter(ready=False) as host:
        await eventually(lambda: "does not answer" in host.health.ask().get("kubelet", ""))
        for zone in (0, 1):
            async with a_kubelet(socket) as kubelet:
                kubelet.pods = [given("p", container(devices(GPU, "a", zones=(zone,))))]
                await says(admin, "p", [{"zone": f"node-{zone}", "amount": {GPU: "1"}}])
            socket.unlink(missing_ok=True)


def test_a_kubelet_that_was_away_for_long_is_found_as_soon_as_it_is_asked_again():
    """Which is after half a minute at most; gRPC by itself would look for its socket every two minutes."""
    assert dict(OPTIONS)["grpc.max_reconnect_backoff_ms"] <= 1000


@pytest.mark.integration
async def test_a_kubelet_whose_answer_cannot_be_read_is_asked_again(admin, tmp_path, exporter):
    """As with devices whose plugin calls them something that is no text."""
    await a_pod(admin, "p")
    socket = tmp_path / "kubelet.sock"
    answers = {"List": grpc.unary_unary_rpc_method_handler(unreadable)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1.PodResourcesLister", answers)])
    server.add_insecure_port(f"unix:{socket}")
    async with exporter(ready=False) as host:
        await server.start()
        await eventually(lambda: "answers what cannot be read" in host.health.ask().get("kubelet", ""))
        await server.stop(None)
        socket.unlink(missing_ok=True)
        async with a_kubelet(socket) as kubelet:
            kubelet.pods = [given("p", container(devices(GPU, "a", "b")))]
            await says(admin, "p", SEEN)


async def unreadable(request, context):
    return b"\xff"


@pytest.mark.integration
@pytest.mark.parametrize(
    "rule",
    [
        Rule(verb="patch", resource="pods", user_agent=AGENT, status=503, count=2),
        Rule(verb="patch", resource="pods", user_agent=AGENT, drop=True),
        Rule(verb="list", resource="pods", user_agent=AGENT, status=500, count=2),
    ],
    ids=["busy", "connection lost", "does not tell of pods"],
)
async def test_an_api_server_in_trouble_is_told_all_the_same(api, admin, kubelet, exporter, rule):
    await a_pod(admin, "p")
    kubelet.pods = [given("p", container(devices(GPU, "a", "b")))]
    api.faults.rules.append(rule)
    async with exporter():
        await says(admin, "p", SEEN)


@pytest.mark.integration
async def test_one_pod_that_may_not_be_written_holds_up_no_other(api, admin, kubelet, exporter):
    two = container(devices(GPU, "a", "b"))
    kubelet.pods = [given("first", two), given("second", two)]
    await a_pod(admin, "first")
    await a_pod(admin, "second")
    api.faults.rules.append(Rule(verb="patch", resource="pods", user_agent=AGENT, status=403))
    async with exporter() as host:
        await says(admin, "second", SEEN)
        assert refusals(host) == 1


@pytest.mark.integration
async def test_a_pod_that_a_webhook_has_to_be_asked_about_that_is_down_holds_up_no_other(
    admin, kubelet, exporter
):
    two = container(devices(GPU, "a", "b"))
    kubelet.pods = [given("guarded", two), given("p", two)]
    await a_pod(admin, "guarded", labels={"guarded": "yes"})
    await a_pod(admin, "p")
    await admin.create(VALIDATING_WEBHOOKS, a_webhook_that_is_down({"guarded": "yes"}))
    async with exporter(ready=False) as host:
        await says(admin, "p", SEEN)
        await eventually(lambda: refusals(host) == 1 and host.health.ready)


def refusals(host):
    return host.metrics.get_sample_value("kai_numa_exporter_writes_total", {"result": "refused"})


def a_webhook_that_is_down(labels):
    """Of pods with these labels nothing is changed without it."""
    webhook = {
        "name": "down.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
        ],
        "objectSelector": {"matchLabels": labels},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "down"}, "webhooks": [webhook]}


@pytest.mark.integration
async def test_a_node_without_zones_is_fatal(admin, tmp_path):
    settings = NumaPlacementExporterSettings.parse(["--node-name=n1", f"--sysfs-root={tmp_path}"])
    host = Host(name="x", settings=settings, metrics=CollectorRegistry())
    with pytest.raises(FatalError, match="is the node's /sys mounted there"):
        await NumaPlacementExporterService(settings).run(host)
