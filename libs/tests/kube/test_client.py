"""Reads and writes against a server that misbehaves."""

import asyncio
import ssl
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml
from aiohttp import web

from deadlines import patience
from kai.kube import errors, transport
from kai.kube.client import KubeClient, PatchKind
from kai.kube.resources import NODES, PODS, Resource
from kai.model.objects import ObjectMeta, Pod
from kai.runtime import certificates

PODS_PATH = "/api/v1/namespaces/team/pods"
POD_PATH = f"{PODS_PATH}/worker"
POD = {"metadata": {"name": "worker", "namespace": "team", "uid": "u1", "resourceVersion": "7"}}


async def test_an_object_is_read_as_struct_or_as_json(client, server, answers):
    server.script("GET", POD_PATH, answers.json(POD))
    assert (await client.get(PODS, "worker", namespace="team", type=Pod)).key == "team/worker"
    assert await client.get(PODS, "worker", namespace="team") == POD


async def test_requests_carry_the_token_and_ask_for_uncompressed_answers(client, server, answers):
    server.script("GET", POD_PATH, answers.json(POD))
    await client.get(PODS, "worker", namespace="team")
    headers = server.requests[-1].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Accept-Encoding"] == "identity"


async def test_a_list_is_read_page_by_page(client, server, answers):
    server.script(
        "GET",
        "/api/v1/pods",
        answers.json({"items": [POD], "metadata": {"continue": "more", "resourceVersion": "9"}}),
        answers.json({"items": [POD, POD], "metadata": {"resourceVersion": "9"}}),
    )
    pods = await client.list(PODS, type=Pod, label_selector="app=x", field_selector="spec.nodeName=n")
    assert len(pods) == 3
    first, second = server.received("GET", "/api/v1/pods")
    assert first.query == {"limit": "500", "labelSelector": "app=x", "fieldSelector": "spec.nodeName=n"}
    assert second.query["continue"] == "more"


async def test_an_answer_that_is_no_list_is_no_empty_list(client, server, answers):
    server.script("GET", "/api/v1/pods", answers.json({"kind": "Status", "status": "Failure"}))
    with pytest.raises(errors.TransportError, match="list pods: the answer is no list"):
        await client.list(PODS)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequest),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (418, "", errors.ApiError),
    ],
)
async def test_a_refusal_becomes_an_error_that_names_request_and_reason(
    client, server, answers, status, reason, expected
):
    server.script("POST", PODS_PATH, answers.refusal(status, reason=reason, message="because"))
    with pytest.raises(expected, match="create pods team/worker: because") as caught:
        await client.create(PODS, POD, namespace="team")
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.reason) == (status, reason)


async def test_a_refusal_that_is_not_json_keeps_its_text(client, server, answers):
    async def plain(request):
        return web.Response(status=403, text="proxy says no")

    server.script("GET", POD_PATH, plain)
    with pytest.raises(errors.Forbidden, match="proxy says no"):
        await client.get(PODS, "worker", namespace="team")


@pytest.mark.parametrize("trouble", ["429", "503", "500", "dropped"])
async def test_a_read_is_tried_again_until_it_succeeds(client, server, answers, trouble):
    bad = answers.dropped() if trouble == "dropped" else answers.refusal(int(trouble))
    server.script("GET", POD_PATH, bad, answers.json(POD))
    assert (await client.get(PODS, "worker", namespace="team", type=Pod)).metadata.uid == "u1"
    assert len(server.received("GET", POD_PATH)) >= 2


async def test_a_busy_server_is_given_the_time_it_asks_for(client, server, answers):
    server.script("GET", POD_PATH, answers.refusal(429, headers={"Retry-After": "0.4"}), answers.json(POD))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await client.get(PODS, "worker", namespace="team")
    assert loop.time() - started >= 0.4


async def test_waiting_beyond_the_deadline_is_not_even_begun(client, server, answers):
    server.script("GET", POD_PATH, answers.refusal(429, headers={"Retry-After": "60"}))
    with pytest.raises(errors.TooManyRequests):
        await client.get(PODS, "worker", namespace="team", deadline=2.0)
    assert len(server.received("GET", POD_PATH)) == 1


@pytest.mark.parametrize(("status", "sent"), [(503, 2), (429, 2), (500, 1), (504, 1)])
async def test_a_creation_is_repeated_only_if_it_cannot_have_had_effect(
    client, server, answers, status, sent
):
    server.script("POST", PODS_PATH, answers.refusal(status), answers.json(POD, status=201))
    with nullcontext() if sent == 2 else pytest.raises(errors.ServerError):
        await client.create(PODS, POD, namespace="team")
    assert len(server.received("POST")) == sent


async def test_a_creation_whose_answer_is_lost_is_not_repeated(client, server, answers):
    server.script("POST", PODS_PATH, answers.dropped(), answers.json(POD, status=201))
    with pytest.raises(errors.TransportError):
        await client.create(PODS, POD, namespace="team")
    assert len(server.received("POST")) == 1


async def test_a_merge_patch_is_repeated_and_a_list_of_operations_is_not(client, server, answers):
    server.script("PATCH", POD_PATH, answers.refusal(500), answers.json(POD))
    await client.patch(PODS, "worker", {"metadata": {"labels": {"a": "b"}}}, namespace="team")
    server.script("PATCH", POD_PATH, answers.refusal(500), answers.json(POD))
    with pytest.raises(errors.ServerError):
        await client.patch(PODS, "worker", [], namespace="team", kind=PatchKind.JSON)
    types = [request.headers["Content-Type"] for request in server.received("PATCH")]
    assert types == ["application/merge-patch+json"] * 2 + ["application/json-patch+json"]


async def test_an_apply_names_its_manager_and_takes_over(client, server, answers):
    server.script("PATCH", POD_PATH, answers.json(POD))
    await client.patch(PODS, "worker", POD, namespace="team", kind=PatchKind.APPLY, field_manager="kai")
    request = server.requests[-1]
    assert request.query == {"fieldManager": "kai", "force": "true"}
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"


async def test_an_eviction_that_a_budget_forbids_is_told_at_once(client, server, answers):
    server.script("POST", f"{POD_PATH}/eviction", answers.refusal(429, message="budget"))
    with pytest.raises(errors.TooManyRequests, match="budget"):
        await client.create_subresource(
            PODS, "worker", "eviction", {}, namespace="team", retry_throttled=False
        )
    assert len(server.received("POST")) == 1


async def test_no_answer_in_time_is_an_error_that_says_so(client, server):
    async def never(request):
        await asyncio.Event().wait()

    server.script("GET", POD_PATH, never)
    with pytest.raises(errors.DeadlineExceeded, match=r"get pods team/worker: no answer of http.* in 0.1 s"):
        await client.get(PODS, "worker", namespace="team", deadline=0.1)


async def test_a_struct_is_created_with_its_kind_filled_in(client, server, answers):
    server.script("POST", PODS_PATH, answers.json(POD, status=201))
    await client.create(PODS, Pod(metadata=ObjectMeta(name="worker")), namespace="team")
    sent = server.requests[-1].body
    assert (sent["apiVersion"], sent["kind"], sent["metadata"]) == ("v1", "Pod", {"name": "worker"})


async def test_a_delete_can_be_limited_to_one_uid(client, server, answers):
    server.script("DELETE", POD_PATH, answers.json({}))
    await client.delete(PODS, "worker", namespace="team", uid="u1", grace_seconds=0)
    assert server.requests[-1].body == {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 0}


async def test_an_answer_of_another_shape_is_an_error(client, server, answers):
    server.script("GET", POD_PATH, answers.json({"metadata": {"name": 3}}))
    with pytest.raises(errors.TransportError, match="cannot be understood"):
        await client.get(PODS, "worker", namespace="team", type=Pod)


async def test_kinds_are_discovered_once_and_missing_ones_asked_for_again(client, server, answers):
    entries = [
        {"name": "pytorchjobs", "kind": "PyTorchJob", "namespaced": True},
        {"name": "pytorchjobs/status", "kind": "PyTorchJob", "namespaced": True},
    ]
    server.script("GET", "/apis/kubeflow.org/v1", answers.json({"resources": entries}))
    expected = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
    assert await client.discover("kubeflow.org/v1", "PyTorchJob") == expected
    assert await client.discover("kubeflow.org/v1", "PyTorchJob") == expected
    assert len(server.received("GET", "/apis/kubeflow.org/v1")) == 1
    assert await client.discover("kubeflow.org/v1", "MPIJob") is None
    assert await client.discover("kubeflow.org/v1", "MPIJob", max_age=0) is None
    assert len(server.received("GET", "/apis/kubeflow.org/v1")) == 2
    assert await client.discover("nowhere.io/v1", "Thing") is None


async def test_names_of_versions_that_somebody_makes_up_are_not_kept(client):
    for number in range(20):
        assert await client.discover(f"made-up-{number}.io/v1", "Thing", max_age=0) is None
    assert await client.discover("x" * 10_000, "Thing") is None
    assert len(client._discovery._known) <= 1


async def test_requests_are_counted_by_verb_resource_and_code(client, server, answers):
    server.script("GET", POD_PATH, answers.refusal(500), answers.json(POD))
    server.script("POST", f"{POD_PATH}/binding", answers.json({}, status=201))
    await client.get(PODS, "worker", namespace="team")
    await client.create_subresource(PODS, "worker", "binding", {}, namespace="team")
    counted = {
        tuple(sample.labels.values()): sample.value
        for metric in client.metrics.requests.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
    assert counted[("get", "pods", "500")] == 1
    assert counted[("get", "pods", "200")] == 1
    assert counted[("create", "pods/binding", "201")] == 1


def test_paths_name_group_version_namespace_and_subresource():
    assert PODS.path("team", "worker", "binding") == "/api/v1/namespaces/team/pods/worker/binding"
    assert PODS.path() == "/api/v1/pods"
    assert NODES.path(name="a b?c") == "/api/v1/nodes/a%20b%3Fc"
    with pytest.raises(ValueError, match="Pod worker lives in a namespace"):
        PODS.path(name="worker")


@pytest.mark.parametrize("name", [".", "..", "worker/status", "/", "%2e", ""])
async def test_what_nothing_may_be_called_does_not_exist_and_is_not_asked_for(client, server, name):
    """Such a path would lead to the collection, or to another object, and be answered."""
    asked = len(server.requests)
    for call in (
        client.get(PODS, name, namespace="team"),
        client.patch(PODS, name, {}, namespace="team"),
        client.update(PODS, name, {}, namespace="team"),
        client.delete(PODS, name, namespace="team"),
        client.create_subresource(PODS, name, "binding", {}, namespace="team"),
    ):
        with pytest.raises(errors.NotFound, match=r"^Pod '.*' cannot exist"):
            await call
    if name:
        with pytest.raises(errors.NotFound, match=r"^Namespace '.*' cannot exist"):
            await client.list(PODS, namespace=name)
    assert len(server.requests) == asked


# --- configuration and credentials ---------------------------------------------------------------
#: A kubeconfig of one cluster, of which something is to be said.
A_CONTEXT = """\
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{{}}}}}]
users: [{{name: a, user: {{}}}}]
"""


@pytest.fixture
def no_environment(monkeypatch):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist; give one with --kubeconfig"),
        ("{", "cannot be used"),
        ("current-context: a", "cannot be used"),
        ("[1]", "cannot be used"),
        ("[" * 5000, "cannot be used"),
        (A_CONTEXT.format("server: 'https://[fd00::1:6443'"), "cannot be used: server 'https://"),
        (A_CONTEXT.format("server: https://x, proxy-url: 5"), "cannot be used: proxy-url is 5"),
        (A_CONTEXT.format("server: https://x, tls-server-name: 5"), "cannot be used: tls-server-name is 5"),
    ],
    ids=lambda given: str(given)[:40],
)
async def test_a_broken_kubeconfig_is_named(tmp_path, no_environment, content, said):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.KubeConfigError, match=f"kubeconfig {path} {said}"):
        async with KubeClient.connect(str(path)):
            pass


async def test_an_unknown_context_is_named(server, tmp_path):
    with pytest.raises(errors.KubeConfigError, match="staging"):
        async with KubeClient.connect(server.kubeconfig(tmp_path), context="staging"):
            pass


async def test_an_unreachable_server_is_named_at_once(tmp_path, server):
    path = server.kubeconfig(tmp_path)
    url = "http://127.0.0.1:1"
    text = (tmp_path / "kubeconfig").read_text().replace(server.url, url)
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(errors.TransportError, match=f"cannot connect to {url}"):
        async with KubeClient.connect(path):
            pass


async def test_a_server_that_comes_late_is_waited_for(server, tmp_path, answers):
    server.script("GET", "/version", answers.refusal(503), answers.dropped(), answers.json({}))
    async with KubeClient.connect(server.kubeconfig(tmp_path), wait=10) as client:
        assert client.server == server.url
    assert len(server.received("GET", "/version")) == 3


def a_page(status):
    async def answer(request):
        return web.Response(text="<html>Welcome</html>", status=status, content_type="text/html")

    return answer


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "is no Kubernetes API server .it has no /version.; see the server of the kubeconfig's cluster"),
        (200, "is no Kubernetes API server .its answer to /version is no JSON object.; see the server"),
        (503, "answers 503: a page for browsers"),
    ],
)
async def test_what_is_no_api_server_is_told_at_once_and_named(server, tmp_path, status, said):
    server.script("GET", "/version", a_page(status))
    with pytest.raises(errors.KubeError, match=f"{server.url} {said}"):
        async with KubeClient.connect(server.kubeconfig(tmp_path)):
            pass


async def test_a_server_that_is_silent_at_first_is_waited_for(server, tmp_path, answers, monkeypatch):
    async def silence(request):
        await asyncio.Event().wait()

    monkeypatch.setattr("kai.kube.exchange.DEADLINE_SECONDS", 0.1)
    server.script("GET", "/version", silence, answers.json({"gitVersion": "v1.36.0"}))
    async with KubeClient.connect(server.kubeconfig(tmp_path), wait=patience()):
        pass
    server.script("GET", "/version", silence)
    with pytest.raises(errors.DeadlineExceeded, match="accepts connections but does not answer"):
        async with KubeClient.connect(server.kubeconfig(tmp_path)):
            pass


async def test_a_token_that_expired_is_read_again_once(server, tmp_path, answers):
    token = tmp_path / "token"
    token.write_text("old")

    async def check(request):
        good = request.headers["Authorization"] == "Bearer new"
        return await (answers.json(POD) if good else answers.refusal(401))(request)

    server.script("GET", POD_PATH, check)
    async with KubeClient.connect(server.kubeconfig(tmp_path, tokenFile=str(token))) as client:
        token.write_text("new")
        assert await client.get(PODS, "worker", namespace="team") == POD
        await asyncio.gather(*(client.get(PODS, "worker", namespace="team") for _ in range(3)))
        assert [r.headers["Authorization"] for r in server.received("GET", POD_PATH)].count("Bearer old") == 1


def a_pair(authority):
    return certificates.issue(authority, ["127.0.0.1"], now=datetime.now(UTC))


async def test_authorities_that_were_replaced_are_read_again(tmp_path, server):
    """As ``ca.crt`` in all pods changes when those of a cluster are."""
    old, new = (certificates.new_authority(name, now=datetime.now(UTC)) for name in ("old", "new"))
    served, trusted = tmp_path / "served.pem", tmp_path / "ca.crt"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def serve_by(authority):
        pair = a_pair(authority)
        served.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(served)

    async def answer(request):
        response = web.json_response(POD)
        response.force_close()
        return response

    serve_by(old)
    trusted.write_bytes(old.certificate)
    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    kubeconfig = Path(server.kubeconfig(tmp_path))
    config = yaml.safe_load(kubeconfig.read_text())
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    config["clusters"][0]["cluster"] = {"server": url, "certificate-authority": str(trusted)}
    kubeconfig.write_text(yaml.safe_dump(config))
    try:
        async with KubeClient.connect(str(kubeconfig)) as client:
            serve_by(new)
            with pytest.raises(errors.TransportError, match="not trusted"):
                await client.get(PODS, "worker", namespace="team", deadline=0.5)
            trusted.write_bytes(new.certificate)
            assert await client.get(PODS, "worker", namespace="team") == POD
    finally:
        await runner.cleanup()


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """As if the API server were on another machine, and the environment told of no proxy."""
    monkeypatch.setattr(transport, "is_loopback", lambda url: False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_passwords_that_are_kept_for_other_programs_are_not_told(
    server, tmp_path, answers, elsewhere, monkeypatch
):
    """Which curl and git read from a file, and kubectl does not."""
    (tmp_path / "netrc").write_text("default login somebody password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.script("GET", POD_PATH, answers.json(POD))
    async with KubeClient.connect(server.kubeconfig(tmp_path)) as client:
        assert await client.get(PODS, "worker", namespace="team") == POD
    (request,) = server.received("GET", POD_PATH)
    assert request.headers["Authorization"] == "Bearer secret"


async def test_a_proxy_of_the_environment_is_used_but_for_those_who_need_none(
    server, tmp_path, answers, elsewhere, monkeypatch
):
    proxy = server.url
    monkeypatch.setenv("http_proxy", proxy)
    server.script("GET", POD_PATH, answers.json(POD))
    server.url = "http://cluster.invalid"
    async with KubeClient.connect(server.kubeconfig(tmp_path)) as client:
        assert await client.get(PODS, "worker", namespace="team") == POD
    assert server.received("GET", POD_PATH)[0].headers["Host"] == "cluster.invalid"
    server.url = proxy
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with KubeClient.connect(server.kubeconfig(tmp_path)) as client:
        assert await client.get(PODS, "worker", namespace="team") == POD


async def test_credentials_that_stay_wrong_are_an_error(client, server, answers):
    server.script("GET", POD_PATH, answers.refusal(401, message="who are you"))
    with pytest.raises(errors.Unauthorized, match="who are you"):
        await client.get(PODS, "worker", namespace="team")
    assert len(server.received("GET", POD_PATH)) == 1


async def test_an_exec_plugin_gives_the_token(server, tmp_path, answers):
    plugin = tmp_path / "plugin"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    text = msgspec.json.encode({**credential, "status": {"token": "from-plugin"}}).decode()
    plugin.write_text(f"#!/bin/sh\necho '{text}'\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": credential["apiVersion"], "command": str(plugin)}}
    async with KubeClient.connect(server.kubeconfig(tmp_path, **user)):
        assert server.requests[-1].headers["Authorization"] == "Bearer from-plugin"


async def test_an_exec_plugin_that_fails_is_told(server, tmp_path):
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}}
    with pytest.raises(errors.KubeConfigError, match="exec plugin gave no credentials"):
        async with KubeClient.connect(server.kubeconfig(tmp_path, **user)):
            pass
