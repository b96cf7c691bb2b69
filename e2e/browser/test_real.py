"""Each view over a cluster with the real scheduler, by insight with a token and by ``kai ui``."""

import asyncio
import contextlib
import os
import re
import sys
import uuid
from urllib.parse import urlsplit

import pytest

from deadlines import eventually, patience
from e2e.browser.test_looks import settled
from e2e.harness import REAL, ROOT, Cluster, kai, local_cluster
from kai.kube.client import KubeClient
from kai.model import names

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(REAL, reason="an embedded cluster of their own is enough for pages"),
]
#: Work that takes all that its team may have, shares a GPU, or waits; ``speech-training`` then takes from it.
EXAMPLES = ("queues", "vision-training", "fractions", "gang")
VIEWER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: page-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
"""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    """Of a cluster with insight, in which some work runs and some waits, and its name."""
    name = f"page-{uuid.uuid4().hex[:8]}"
    path = tmp_path_factory.mktemp("page") / "kubeconfig"
    with local_cluster(name, path, "--nodes=4", "--history"):
        yield name, path


@pytest.fixture
async def cluster(kubeconfig):
    name, path = kubeconfig
    async with KubeClient.connect(str(path), user_agent="e2e") as client:
        cluster = Cluster(kubeconfig=path, client=client, name=name)
        if not await cluster.pods("default", "speech-training-"):
            await submit(cluster, *EXAMPLES)
            await cluster.running("default", "vision-training-", count=8)
            await submit(cluster, "speech-training")
        # All that finds room has it, and what was taken from it is gone: from now on nothing moves by itself.
        await cluster.running("default", "speech-training-", count=4)
        await cluster.running("default", "vision-training-", count=4)
        await cluster.running("default", "notebooks-", count=3)
        yield cluster


async def submit(cluster, *examples):
    for example in examples:
        await cluster.apply((ROOT / "docs" / "examples" / f"{example}.yaml").read_text())


@pytest.fixture
async def door(request, cluster, browser):
    """A tab that is let in, and the address of the page."""
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "kai ui":
            tab, url = await by_cookie(cluster, browser, stack)
        else:
            tab, url = await by_token(cluster, browser)
        yield tab, url
        assert tab.complaints == []


async def by_token(cluster, browser):
    await cluster.apply(VIEWER)
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    made = await cluster.client.raw(path, method="POST", body=body)
    status = kai("local", "status", f"--name={cluster.name}")
    url = re.search(r"questions over HTTP at (\S+)", status)[1] + "/"
    tab = await browser.tab(width=1440, height=900)
    await tab.goto(url)
    await tab.has("#token")
    await tab.focus("#token")
    await tab.write(made["status"]["token"])
    await tab.press("Enter")
    await tab.has(".view")
    return tab, url


async def by_cookie(cluster, browser, stack):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kai_cli", "ui", "--no-browser"),
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
    )
    stack.push_async_callback(_ended, process)
    line = await asyncio.wait_for(process.stdout.readline(), patience())  # noqa: TID251
    address = re.search(r"http://\S+", line.decode())[0]
    tab = await browser.tab(width=1440, height=900)
    await tab.goto(address, leads_on=True)
    parts = urlsplit(address)
    await tab.has(".view")
    return tab, f"{parts.scheme}://{parts.netloc}/"


async def _ended(process):
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await process.wait()


async def go(tab, url, fragment):
    """Load the page anew at a view."""
    await tab.goto(f"{url}?{uuid.uuid4().hex}{fragment}")
    await settled(tab)


async def group_of(cluster, prefix):
    """The pod group of pods whose names begin so."""
    pods = await cluster.pods("default", prefix)
    (name,) = {pod.annotations[names.POD_GROUP_ANNOTATION] for pod in pods}
    return name


@pytest.mark.parametrize("door", ["insight", "kai ui"], indirect=True)
async def test_every_view_shows_the_cluster_as_it_is(door):
    tab, url = door
    await go(tab, url, "#/waiting")
    await tab.sees("gang", ".table")
    await eventually(
        lambda: tab.text(".table"), lambda text: "NotEnoughFree" in text, what="why the gang waits"
    )
    await tab.choose("tr[data-row]", "gang")
    await tab.has(".ladder .stage", 9)
    await tab.has(".changes li")

    await go(tab, url, "#/cluster?show=nodes")
    await tab.has("tr[data-row]", 4)
    await go(tab, url, "#/cluster?node=node-0")
    await tab.has(".map canvas")
    await tab.has(".device", 8)
    await tab.has(".rooms li", 4)

    await go(tab, url, "#/queues?queue=vision")
    await tab.sees("speech", ".queue-table")
    await tab.has(".pane .fact", 4)

    await go(tab, url, "#/what-if?change=quota&target=vision&value=gpu%3D2")
    await tab.submit()
    await tab.has(".what-if-change, .tiles")
    await tab.sees("vision", ".what-if-answer")

    await go(tab, url, "#/health")
    await tab.has(".figures")
    assert {urlsplit(each).netloc for each in tab.requests} == {urlsplit(url).netloc}


@pytest.mark.parametrize("door", ["insight", "kai ui"], indirect=True)
async def test_a_workload_that_waits_and_one_that_runs_have_their_lives(door, cluster):
    tab, url = door
    gang = await group_of(cluster, "gang-")
    await go(tab, url, f"#/workload?namespace=default&name={gang}")
    await tab.sees("gang", "h1")
    await eventually(
        lambda: tab.text(".answer-reason"), lambda text: "NotEnoughFree" in text, what="why the gang waits"
    )
    await tab.has(".ladder .stage", 9)
    await tab.has(".stage-failed")
    await tab.has(".life-pods tr[data-row]", 12)
    await tab.sees("Pending", ".life-pods")

    runs = await group_of(cluster, "speech-training-")
    await go(tab, url, f"#/workload?namespace=default&name={runs}")
    await tab.sees("speech-training", "h1")
    await tab.sees("RUNS", ".answer-verdict")
    await tab.has(".ladder .stage-passed", 9)
    await tab.has(".life-pods tr[data-row]", 4)
    await tab.sees("node-", ".life-pods")


@pytest.mark.parametrize("door", ["insight", "kai ui"], indirect=True)
async def test_filters_are_kept_in_the_address(door):
    tab, url = door

    async def shown():
        return await tab.js("[...document.querySelectorAll('tr[data-row]')].map(r => r.innerText)")

    await go(tab, url, "#/waiting")
    await tab.has("tr[data-row]", 2)
    await tab.focus("input[aria-label=Text]")
    await tab.write("gang")
    await eventually(tab.address, lambda now: now == "#/waiting?text=gang", what="the address says the text")
    await eventually(shown, lambda rows: [("gang" in row) for row in rows] == [True], what="the gang alone")
    await tab.reload()
    await eventually(shown, lambda rows: [("gang" in row) for row in rows] == [True], what="the gang alone")
    assert await tab.js("document.querySelector('input[aria-label=Text]').value") == "gang"

    await go(tab, url, "#/cluster")
    await tab.choose("button", "Nodes")
    await eventually(tab.address, lambda now: now == "#/cluster?show=nodes", what="the address says Nodes")
    await tab.reload()
    await tab.has("tr[data-row]", 4)


@pytest.mark.parametrize("door", ["insight"], indirect=True)
async def test_the_past_is_told_where_insight_keeps_it(door, cluster):
    tab, url = door
    await go(tab, url, "#/time?span=900")
    await tab.has(".lane .sign-bind")
    await tab.sees("evicted", ".happenings")
    await tab.choose(".choice button", "6 h")
    await eventually(tab.address, lambda now: now == "#/time?span=21600", what="the address says the span")
    await tab.reload()
    await tab.has(".lane .sign-bind")
    await tab.has('.choice button[aria-pressed="true"]')
    pressed = "[...document.querySelectorAll('.choice button[aria-pressed=true]')].map(e => e.innerText)"
    await eventually(lambda: tab.js(pressed), lambda now: "6 h" in now, what="the span is chosen")
    await go(tab, url, "#/queues?queue=speech&span=3600")
    await tab.has(".pane .chart canvas")
    await go(tab, url, f"#/workload?namespace=default&name={await group_of(cluster, 'vision-training-')}")
    await tab.has(".run-bar", 8)
    await tab.sees("reclaim", ".life")


@pytest.mark.parametrize("door", ["insight"], indirect=True)
async def test_what_changes_is_shown_without_asking(door, cluster):
    tab, url = door
    await go(tab, url, "#/cluster?show=nodes")
    await tab.has("tr[data-row]", 4)
    before = await tab.text(".bar-sum")
    name = f"page-{uuid.uuid4().hex[:6]}"
    pod = (ROOT / "docs" / "examples" / "pod.yaml").read_text().replace("name: cuda", f"name: {name}")
    await cluster.apply(pod)
    await eventually(lambda: tab.text(".bar-sum"), lambda text: text != before, what="a GPU more is in use")
    await cluster.delete("v1", "Pod", name, namespace="default")
    await eventually(lambda: tab.text(".bar-sum"), lambda text: text == before, what="it is free again")
