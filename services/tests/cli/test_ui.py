"""The page over the cluster of a kubeconfig: who gets in, what he sees by his rights, and what ends it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from yarl import URL

import deadlines
from deadlines import eventually, within
from e2e.api_server import serving as api_server
from kai.history.addresses import open_database
from kai.history.store import open_store
from kai.kube.client import KubeClient
from kai.kube.resources import LEASES, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, SCHEDULING_SHARDS
from kai.model import names
from kai.observe import new_registry
from kai.snapshot.changes import Changes
from kai.snapshot.kinds import StateParams
from kai.wire.serving import serve
from kai.wire.v1.history_pb2_grpc import add_HistoryServiceServicer_to_server
from kai_cli.connection import Target
from kai_cli.looking import current
from kai_cli.looking.mirror import Mirror
from kai_cli.looking.server import serving
from kai_cli.ui import _opened
from kai_insight.forecasts import Forecasts
from kai_insight.live.live import Live
from kai_insight.metrics import ForecastMetrics
from kai_insight.servicer import HistoryServicer
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from libs.tests.history.builders import HOUR, NOON, a_run
from services.tests.insight.town import Town

pytestmark = pytest.mark.integration
A_NODE = {
    "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "H100"}},
    "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
#: Namespace, name, GPUs and node of each workload.
WORK = (("team", "runs", 2, "n"), ("team", "waits", 4, ""), ("other", "theirs", 1, "n"))
A_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kai.scheduler/queue: team}}
spec:
  parallelism: 1
  template:
    spec:
      schedulerName: kai-scheduler
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def a_pod(name: str, *, group: str, gpus: int, node: str = "") -> dict:
    limits = {"requests": {"nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {"name": name, "annotations": {"pod-group-name": group}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": limits}],
            **({"nodeName": node} if node else {}),
        },
    }


async def fill(client: KubeClient) -> None:
    """A node, a queue, a workload that runs and one that waits; and one in another namespace."""
    crds = await client.discover("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert crds
    for definition in definitions():
        await client.create(crds, definition)
    for namespace in ("team", "other", "people"):
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    for queue, parent in (("top", ""), ("team", "top")):
        amounts = {each: {"quota": -1, "limit": -1} for each in ("gpu", "cpu", "memory")}
        spec = {"resources": amounts, **({"parentQueue": parent} if parent else {})}
        await client.create(QUEUES, {"metadata": {"name": queue}, "spec": spec})
    await client.create(NODES, A_NODE)
    await client.patch(NODES, "n", {"status": A_NODE["status"]}, subresource="status")
    for namespace, group, gpus, node in WORK:
        spec = {"queue": "team", "minMember": 1}
        await client.create(POD_GROUPS, {"metadata": {"name": group}, "spec": spec}, namespace=namespace)
        pod = a_pod(f"{group}-0", group=group, gpus=gpus, node=node)
        await client.create(PODS, pod, namespace=namespace)
        if node:
            status = {"status": {"phase": "Running"}}
            await client.patch(PODS, f"{group}-0", status, namespace=namespace, subresource="status")


class Looked:
    """Somebody with a browser."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self.address = URL(address)
        self.root = self.address.origin()
        self.session = session

    async def enter(self) -> int:
        async with self.session.get(self.address) as got:
            return got.status

    async def get(self, path: str, **headers: str):
        async with self.session.get(self.root.join(URL(path, encoded=True)), headers=headers) as got:
            return got.status, await got.json(content_type=None)

    async def answer(self, path: str):
        status, document = await self.get(f"/api/v1/{path}")
        assert status == 200, document
        return document

    async def known(self) -> dict:
        """Once it is read."""
        return await eventually(lambda: self.answer("live"), lambda found: found["shards"][0]["version"])


@asynccontextmanager
async def looking(kubeconfig: Path):
    async with KubeClient.connect(str(kubeconfig), user_agent="kai-cli") as client:
        jar = aiohttp.CookieJar(unsafe=True)
        async with (
            serving(Target(kubeconfig=kubeconfig), client, port=0) as address,
            aiohttp.ClientSession(cookie_jar=jar) as session,
        ):
            yield Looked(address, session)


@pytest.fixture
async def town(tmp_path):
    async with ApiServer(rbac=True) as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient.connect(str(kubeconfig), user_agent="test") as admin:
            await fill(admin)
            found = Town(api, admin, tmp_path)
            found.kubeconfig = kubeconfig
            yield found


@pytest.fixture
async def looked(town):
    async with looking(town.kubeconfig) as found:
        yield found


@pytest.fixture
async def inside(looked):
    assert await looked.enter() == 200
    await looked.known()
    return looked


async def person(town, name: str, *granted, namespace: str = "") -> Path:
    """The kubeconfig of somebody who may read these, whose context is a namespace."""
    token = await town.person(name)
    for each in granted:
        await town.allow(name, each, namespace=namespace)
    config = yaml.safe_load(town.api.kubeconfig())
    config["users"][0]["user"] = {"token": token}
    config["contexts"][0]["context"]["namespace"] = "team"
    path = town.kubeconfig.with_name(f"{name}.kubeconfig")
    path.write_text(json.dumps(config))
    return path


def reading(group: str, *resources: str):
    return [{"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}]


# --- who gets in --------------------------------------------------------------------------------------
async def test_the_address_lets_one_browser_in_once(looked):
    assert (await looked.get("/api/v1/live"))[0] == 401
    assert await looked.enter() == 200
    assert (await looked.get("/api/v1/live"))[0] == 200
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        other = Looked(str(looked.address), session)
        assert await other.enter() == 403
        for path in ("/", "/index.html", "/api/v1/live", "/api/v1/live/cluster"):
            assert (await other.get(path))[0] == 401
    assert (await looked.get("/api/v1/live"))[0] == 200


async def test_the_cookie_is_for_no_script_and_no_other_site(looked):
    async with looked.session.get(looked.address) as got:
        (cookie,) = got.headers.getall("Set-Cookie")
        assert "token" not in await got.text()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert looked.address.query["token"] not in cookie


async def test_a_wrong_token_lets_nobody_in_and_spends_nothing(looked):
    async with looked.session.get(looked.address.with_query(token="x")) as got:
        assert got.status == 403
    assert await looked.enter() == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example.com"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example.com"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_name_that_leads_here_and_pages_of_others_get_nothing(inside, headers):
    status, document = await inside.get("/api/v1/live", **headers)
    assert (status, document["error"]["code"]) == (403, "forbidden")


async def test_the_name_localhost_is_ours_too(inside):
    port = inside.root.port
    status, document = await inside.get("/api/v1/live", Host=f"localhost:{port}")
    assert status == 200, document
    own = f"http://127.0.0.1:{port}"
    assert (await inside.get("/api/v1/live", Origin=own))[0] == 200


async def test_nothing_is_served_to_other_machines(looked):
    assert looked.root.host == "127.0.0.1"


# --- what one sees ------------------------------------------------------------------------------------
async def test_the_cluster_is_shown_though_no_scheduler_runs(inside):
    found = await inside.answer("live")
    assert (found["source"], found["history"]) == ("kubeconfig", False)
    assert found["sees"] == {"nodes": True, "queues": True, "allNamespaces": True}
    (shard,) = found["shards"]
    assert (shard["reason"], shard["gpus"], shard["gpusUsed"], shard["waiting"]) == ("", 4, 3, 1)
    frame = await inside.answer("live/cluster")
    assert (frame["models"], frame["slots"].count(-1), len(frame["groups"]["key"])) == (["H100"], 1, 2)
    assert frame["queues"]["gpu"]["fairShare"] == [4, 4]


async def test_why_work_waits_is_found_while_somebody_looks(inside):
    async def verdicts():
        return (await inside.answer("live/waiting"))["verdicts"]

    assert "" not in await eventually(verdicts, lambda found: "" not in found)


async def test_what_changes_in_the_cluster_is_told(inside, town):
    version = (await inside.answer("live/cluster"))["version"]
    url = inside.root.join(URL("/api/v1/live/changes")).with_query(version=version)
    async with inside.session.get(url) as got:
        await town.admin.create(PODS, a_pod("runs-1", group="runs", gpus=1, node="n"), namespace="team")
        async with within("the change is told"):
            async for line in got.content:
                if line.startswith(b"data: "):
                    break
    change = json.loads(line.removeprefix(b"data: "))
    assert -1 not in change["nodes"][0][2]


async def test_work_is_explained_on_a_copy(inside):
    found = await inside.answer("live/workload?namespace=team&name=waits")
    assert found["answer"]["verdict"] in ("WAIT", "ESCALATE", "CHANGE", "NEVER")
    assert found["group"]["gpus"] == 4


async def test_a_change_and_a_manifest_are_tried_on_a_copy(inside, town):
    found = await inside.answer("live/what-if?change=delete&target=team/runs&within=1m")
    assert found["changes"]
    url = inside.root.join(URL("/api/v1/live/what-if?namespace=team"))
    own = {"Origin": str(inside.root)}
    async with inside.session.post(url, data=A_JOB, headers=own) as got:
        told = await got.json()
        assert got.status == 200, told
    assert told["started"]
    assert sorted([each async for each in _names(town)]) == ["runs-0", "theirs-0", "waits-0"]


async def _names(town):
    for pod in await town.admin.list(PODS):
        yield pod["metadata"]["name"]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"a: [", 400, ""),
        (b"\xff", 400, "no text in UTF-8"),
        (b"kind: Job\n" + b"#" * (256 << 10), 400, "at most 262144 bytes"),
        (b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}", 400, "no pods for this scheduler"),
    ],
)
async def test_manifests_that_are_none_are_refused(inside, body, status, told):
    url = inside.root.join(URL("/api/v1/live/what-if"))
    async with inside.session.post(url, data=body, headers={"Origin": str(inside.root)}) as got:
        document = await got.json()
        assert (got.status, told in document["error"]["message"]) == (status, True)


async def test_a_page_that_does_not_say_where_it_is_from_sends_nothing(inside):
    async with inside.session.post(inside.root.join(URL("/api/v1/live/what-if")), data=A_JOB) as got:
        assert got.status == 403


async def test_without_insight_there_is_no_past_and_the_reason_is_told(inside):
    status, document = await inside.get("/api/v1/runs?since=0")
    assert (status, document["error"]["code"]) == (503, "storeAway")
    assert "insight cannot be asked" in document["error"]["message"]
    forecast = await inside.answer("live/forecast?namespace=team&name=waits")
    assert (forecast["forecast"], forecast["reason"] != "") == (None, True)


async def test_the_past_is_there_where_insight_can_be_asked(town, tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/history.db")
    open_store(database).add([a_run("gone-0", namespace="team")])
    servicer = HistoryServicer(
        database, Forecasts(ForecastMetrics(new_registry())), now=lambda: NOON + 24 * HOUR
    )
    await town.admin.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
    async with serve(
        "127.0.0.1:0",
        [lambda server: add_HistoryServiceServicer_to_server(servicer, server)],
        tls=None,
        services=("kai.wire.v1.HistoryService",),
        metrics=new_registry(),
    ) as port:
        told = {names.EPOCH_ANNOTATION: "1", names.ENDPOINT_ANNOTATION: f"127.0.0.1:{port}"}
        lease = {"metadata": {"name": names.INSIGHT_LEASE, "annotations": told}}
        spec = {"spec": {"holderIdentity": "insight"}}
        await town.admin.create(LEASES, {**lease, **spec}, namespace=names.NAMESPACE)
        async with looking(town.kubeconfig) as looked:
            await looked.enter()
            assert (await looked.known())["history"] is True
            found = await looked.answer("runs?since=0")
            assert [row["pod"] for row in found["items"]] == ["gone-0"]
            usage = await looked.answer(f"usage?by=namespace&since=0&until={NOON + HOUR:.0f}")
            assert [row["name"] for row in usage["items"]] == ["team"]
            health = await looked.answer("live/health")
            assert [each["name"] for each in health["processes"]] == [names.INSIGHT_LEASE]
    database.close()


async def test_health_tells_what_is_known_here(inside):
    found = await inside.answer("live/health")
    assert [each["name"] for each in found["shards"]] == ["default"]
    assert (found["forecasts"], found["store"]) == (None, None)


# --- rights -------------------------------------------------------------------------------------------
async def test_who_may_not_read_nodes_is_told_so_by_their_name(town):
    kubeconfig = await person(
        town, "ann", reading("", "pods"), reading("scheduling.run.ai", "podgroups", "queues")
    )
    async with looking(kubeconfig) as looked:
        await looked.enter()
        found = await looked.known()
        assert found["user"] == "system:serviceaccount:people:ann"
        assert found["sees"] == {"nodes": False, "queues": True, "allNamespaces": True}
        assert "nodes" in found["shards"][0]["reason"]
        status, document = await looked.get("/api/v1/live/cluster")
        assert (status, "list nodes" in document["error"]["message"]) == (403, True)
        assert [each["name"] for each in (await looked.answer("live/waiting"))["items"]] == ["waits"]


async def test_what_is_never_seen_is_told_from_the_first_moment_of_a_change():
    shown = Mirror("default", StateParams(), Live(), asyncio.to_thread, lacks="you may not list nodes")
    shown.take(Changes(), NOON)
    assert shown.shard.glance.version
    assert shown.shard.glance.reason == "you may not list nodes"
    shown.shard.lose("reading pods")
    assert shown.shard.glance.reason == "reading pods; you may not list nodes"


async def test_who_may_read_one_namespace_sees_that_one(town):
    kubeconfig = await person(town, "bob", reading("", "nodes"), reading("scheduling.run.ai", "queues"))
    await town.allow("bob", reading("", "pods"), namespace="team")
    await town.allow("bob", reading("scheduling.run.ai", "podgroups"), namespace="team")
    async with looking(kubeconfig) as looked:
        await looked.enter()
        found = await looked.known()
        assert found["sees"]["allNamespaces"] is False
        assert "those of the namespace team" in found["shards"][0]["reason"]
        frame = await looked.answer("live/cluster")
        assert sorted(frame["slots"]) == [-1, -1, 0, 0]
        assert (await looked.answer("live/workload?namespace=team&name=runs"))["pods"]
        assert (await looked.get("/api/v1/live/workload?namespace=other&name=theirs"))[0] == 403
        assert (await looked.get("/api/v1/live/what-if?change=drain&target=n"))[0] == 403


async def test_what_ends_the_following_is_told_to_who_looks(inside, town, monkeypatch):
    monkeypatch.setattr("kai_cli.looking.mirror.take_in", lambda state, batch: 1 / 0)
    await town.admin.create(PODS, a_pod("more-0", group="runs", gpus=1), namespace="team")

    async def reason():
        return (await inside.answer("live"))["shards"][0]["reason"]

    assert "start kai ui again" in await eventually(reason, lambda found: "no more" in found)
    assert (await inside.get("/api/v1/live/cluster"))[0] == 503


# --- node pools -------------------------------------------------------------------------------------
async def test_each_node_pool_that_has_a_scheduler_is_a_shard_of_its_own(town):
    admin, label = town.admin, {names.NODE_POOL_LABEL: "h200"}
    for name, spec in (("default", {}), ("large", {"partitionLabelValue": "h200"})):
        await admin.create(SCHEDULING_SHARDS, {"metadata": {"name": name}, "spec": spec})
    await admin.create(NODES, {**A_NODE, "metadata": {"name": "pooled", "labels": label}})
    await admin.patch(NODES, "pooled", {"status": A_NODE["status"]}, subresource="status")
    queue = {"metadata": {"name": "pooled", "labels": label}, "spec": {}}
    await admin.create(QUEUES, queue)
    group = {"metadata": {"name": "large", "labels": label}, "spec": {"queue": "pooled", "minMember": 1}}
    await admin.create(POD_GROUPS, group, namespace="team")
    await admin.create(PODS, a_pod("large-0", group="large", gpus=8), namespace="team")
    async with looking(town.kubeconfig) as looked:
        await looked.enter()
        shards = (await looked.known())["shards"]
        assert [(each["name"], each["nodes"], each["waiting"]) for each in shards] == [
            ("default", 1, 1),
            ("h200", 1, 1),
        ]
        for shard, node, waits in (("", "n", "waits"), ("&shard=h200", "pooled", "large")):
            frame = await looked.answer(f"live/cluster?{shard.lstrip('&')}")
            assert frame["nodes"]["name"] == [node]
            rows = await looked.answer(f"live/waiting?limit=9{shard}")
            assert [each["name"] for each in rows["items"]] == [waits]
        life = await looked.answer("live/workload?namespace=team&name=large&shard=h200")
        assert life["answer"]["reason"]["code"]


async def test_a_shard_that_comes_while_somebody_looks_is_seen(town, monkeypatch):
    monkeypatch.setattr(current, "LOOK_SECONDS", 0.1)
    async with looking(town.kubeconfig) as looked:
        await looked.enter()
        assert [each["name"] for each in (await looked.known())["shards"]] == ["default"]
        await town.admin.create(SCHEDULING_SHARDS, {"metadata": {"name": "default"}, "spec": {}})
        large = {"metadata": {"name": "large"}, "spec": {"partitionLabelValue": "h200"}}
        await town.admin.create(SCHEDULING_SHARDS, large)

        async def shards():
            return {each["name"]: each["nodes"] for each in (await looked.answer("live"))["shards"]}

        await eventually(shards, lambda told: told == {"default": 1, "h200": 0})
        await town.admin.delete(SCHEDULING_SHARDS, "large")
        await eventually(shards, lambda told: told == {"default": 1})


async def test_who_may_not_read_what_the_installation_goes_by_is_told_what_is_taken_for_granted(town):
    kubeconfig = await person(
        town, "cal", reading("", "pods", "nodes"), reading("scheduling.run.ai", "podgroups", "queues")
    )
    async with looking(kubeconfig) as looked:
        await looked.enter()
        (shard,) = (await looked.known())["shards"]
        for lack in (
            "taken to go by the defaults (kai-scheduler, kai.scheduler/queue), as you may not get configs",
            "other node pools than the default one are not seen, as you may not list schedulingshards",
        ):
            assert lack in shard["reason"]


# --- the command --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with api_server(tmp_path_factory.mktemp("server")) as server:

        async def filled() -> None:
            async with KubeClient.connect(str(server.kubeconfig), user_agent="test") as client:
                await fill(client)

        asyncio.run(filled())
        yield server.kubeconfig


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_where_the_page_is_until_it_is_ended(kubeconfig, tmp_path, number):
    command = [sys.executable, "-m", "kai_cli", "--kubeconfig", str(kubeconfig), "ui", "--no-browser"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    hanging = threading.Timer(deadlines.patience(), process.kill)
    hanging.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"The page is at http://127\.0\.0\.1:\d+/enter\?token=[\w-]{43}\n", line)
        process.stdout.readline()
        process.send_signal(number)
        rest, errors = process.communicate()
    finally:
        hanging.cancel()
        process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told(kubeconfig):
    command = [sys.executable, "-m", "kai_cli", "--kubeconfig", str(kubeconfig), "ui", "--no-browser"]

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = subprocess.run(
            [*command, f"--port={taken.getsockname()[1]}"],
            capture_output=True,
            text=True,
            timeout=deadlines.patience(),
            check=False,
        )
    assert (found.returncode, "is in use; choose another with --port" in found.stderr) == (1, True)


async def test_a_browser_is_led_by_a_file_of_its_users_own_which_is_gone_afterwards(monkeypatch):
    opened = []

    def look(address):
        path = Path(URL(address).path)
        opened.append((path, stat.S_IMODE(path.parent.stat().st_mode), path.read_text()))

    monkeypatch.setattr("webbrowser.open", look)
    monkeypatch.setenv("DISPLAY", ":0")
    async with _opened("http://127.0.0.1:1/enter?token=abc", wanted=True):
        await eventually(lambda: opened)
    ((path, mode, text),) = opened
    assert (mode, "http://127.0.0.1:1/enter?token=abc" in text) == (0o700, True)
    assert not path.exists()


async def test_without_a_screen_no_browser_is_looked_for(monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: pytest.fail("it was opened"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    async with _opened("http://127.0.0.1:1/", wanted=True):
        pass
