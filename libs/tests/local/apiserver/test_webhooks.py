"""Admission webhooks: a real HTTPS server, called for what its rules name."""

import asyncio
import base64
import json
import ssl

import pytest
from aiohttp import web

from kai_local.apiserver.access import files
from kai_local.apiserver.access.pki import Authority
from libs.tests.local.apiserver.builders import a_pod

PODS = "/api/v1/namespaces/default/pods"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"


class Hook:
    """A webhook that answers as told and remembers what it was asked."""

    def __init__(self, authority, port):
        self.requests = []
        self.answers = {}
        self.bundle = base64.b64encode(authority.certificate).decode()
        self.port = port

    def asked(self):
        return [(path, request["operation"], request["name"]) for path, request in self.requests]

    async def handle(self, http):
        review = json.loads(await http.read())
        request = review["request"]
        self.requests.append((http.path, request))
        answer = self.answers.get(http.path, {})
        if callable(answer):
            answer = await answer(request)
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": request["uid"], "allowed": True, **answer}
        if "patch" in response:
            response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
            response["patchType"] = "JSONPatch"
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )


@pytest.fixture
async def hook():
    authority = Authority.new("hook-ca")
    pair = authority.server(["127.0.0.1", "hook.default.svc"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with files.as_paths(pair) as (certificate, key):
        context.load_cert_chain(certificate, key)
    hook = Hook(authority, 0)
    runner = web.ServerRunner(web.Server(hook.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hook.port = runner.addresses[0][1]
    yield hook
    await runner.cleanup()


def a_webhook(hook, path="/hook", *, operations=("CREATE",), resources=("pods",), groups=("",), **more):
    return {
        "name": f"{path.strip('/')}.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{hook.port}{path}", "caBundle": hook.bundle},
        "rules": [
            {"operations": operations, "apiGroups": groups, "apiVersions": ["v1"], "resources": resources}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


async def register(api, *webhooks, kind="validating", name="hooks"):
    await api.post(CONFIGURATIONS.format(kind), {"metadata": {"name": name}, "webhooks": webhooks})


def denied(text, code=403):
    return {"allowed": False, "status": {"message": text, "code": code}}


async def test_a_mutating_webhook_changes_the_object_before_it_is_validated_and_stored(api, hook):
    patch = [
        {"op": "add", "path": "/metadata/labels", "value": {"added": "yes"}},
        {"op": "add", "path": "/spec/containers/0/resources", "value": {"limits": {"cpu": 0.5}}},
    ]
    hook.answers["/mutate"] = {"patch": patch}
    await register(api, a_webhook(hook, "/mutate"), kind="mutating")
    await register(api, a_webhook(hook, "/validate"), name="more")
    pod = await api.post(PODS, a_pod())
    assert pod["metadata"]["labels"] == {"added": "yes"}
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert hook.asked() == [("/mutate", "CREATE", "p"), ("/validate", "CREATE", "p")]
    seen = hook.requests[1][1]
    assert seen["object"]["metadata"]["labels"] == {"added": "yes"}
    assert (seen["kind"], seen["namespace"]) == ({"group": "", "version": "v1", "kind": "Pod"}, "default")
    assert seen["userInfo"]["username"] == "kubernetes-admin"


async def test_a_refusal_reaches_the_user_in_its_own_words(api, hook):
    hook.answers["/hook"] = denied("no queue named x")
    await register(api, a_webhook(hook))
    status, answer = await api.call("POST", PODS, a_pod())
    assert status == 403
    assert answer["message"] == 'admission webhook "hook.example.com" denied the request: no queue named x'


async def test_warnings_are_passed_on(api, hook):
    hook.answers["/hook"] = {"warnings": ["think again", "think again"]}
    await register(api, a_webhook(hook, operations=["CREATE", "DELETE"]))
    headers = {"Authorization": f"Bearer {api.server.admin_token}"}
    for method, path in (("POST", PODS), ("DELETE", f"{PODS}/p"), ("POST", PODS), ("DELETE", PODS)):
        body = a_pod() if method == "POST" else None
        async with api.session.request(method, api.server.url + path, json=body, headers=headers) as answer:
            assert answer.headers.getall("Warning") == ['299 - "think again"'], (method, path)


async def test_updates_and_deletes_carry_the_old_object(api, hook):
    await register(api, a_webhook(hook, operations=["UPDATE", "DELETE"]))
    await api.post(PODS, a_pod())
    await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    await api.delete(f"{PODS}/p")
    (_, update), (_, delete) = hook.requests
    assert ("labels" in update["oldObject"]["metadata"], update["object"]["metadata"]["labels"]) == (
        False,
        {"a": "b"},
    )
    assert (delete["operation"], delete["object"], delete["oldObject"]["metadata"]["name"]) == (
        "DELETE",
        None,
        "p",
    )


@pytest.mark.parametrize(
    ("more", "called"),
    [
        ({}, True),
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "b"}}}, False),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                    ]
                }
            },
            False,
        ),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        (
            {
                "matchConditions": [
                    {"name": "n", "expression": "object.spec.schedulerName == 'kai-scheduler'"}
                ]
            },
            False,
        ),
        (
            {
                "matchConditions": [
                    {"name": "n", "expression": "object.spec.schedulerName == 'default-scheduler'"}
                ]
            },
            True,
        ),
        ({"operations": ["UPDATE"]}, False),
        ({"operations": ["*"]}, True),
        ({"resources": ["configmaps"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["pods/*"]}, True),
        ({"resources": ["pods/status"]}, False),
        ({"groups": ["apps"]}, False),
        ({"groups": ["*"]}, True),
    ],
)
async def test_only_what_rules_selectors_and_conditions_name_is_asked_about(api, hook, more, called):
    await register(api, a_webhook(hook, **more))
    await api.post(PODS, a_pod(metadata={"labels": {"app": "a"}}))
    assert bool(hook.requests) is called


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
@pytest.mark.parametrize(
    "trouble", ["error", "slow", "nonsense", "nothing", "no answer", "unreachable", "wrong authority"]
)
async def test_a_webhook_that_fails_is_ignored_or_not_as_it_says(api, hook, policy, code, trouble):
    never = asyncio.Event()

    async def slow(_request):
        await never.wait()

    hook.answers["/hook"] = {
        "error": web.Response(status=500, text="oops"),
        "slow": slow,
        "nonsense": web.Response(text="{"),
        "nothing": web.Response(text="null"),
        "no answer": web.Response(text='{"kind":"AdmissionReview","response":null}'),
    }.get(trouble, {})
    webhook = a_webhook(hook, failurePolicy=policy, timeoutSeconds=1)
    if trouble == "unreachable":
        webhook["clientConfig"]["url"] = "https://127.0.0.1:1/hook"
    if trouble == "wrong authority":
        webhook["clientConfig"]["caBundle"] = base64.b64encode(Authority.new().certificate).decode()
    await register(api, webhook)
    status, answer = await api.call("POST", PODS, a_pod())
    never.set()
    assert status == code
    if code == 500:
        assert 'failed calling webhook "hook.example.com"' in answer["message"]


async def test_a_service_is_found_by_its_endpoints(api, hook):
    webhook = a_webhook(hook)
    webhook["clientConfig"] = {
        "service": {"namespace": "default", "name": "hook", "path": "/hook"},
        "caBundle": hook.bundle,
    }
    await register(api, webhook)
    status, answer = await api.call("POST", PODS, a_pod())
    assert status == 500
    assert 'no endpoints available for service "hook"' in answer["message"]
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": hook.port}]}]
    await api.post("/api/v1/namespaces/default/endpoints", {"metadata": {"name": "hook"}, "subsets": subsets})
    await api.post(PODS, a_pod())
    assert hook.asked() == [("/hook", "CREATE", "p")]


async def test_a_service_may_stand_for_a_name_outside_of_the_cluster(api, hook):
    webhook = a_webhook(hook)
    webhook["clientConfig"] = {
        "service": {"namespace": "default", "name": "hook", "path": "/hook", "port": hook.port},
        "caBundle": hook.bundle,
    }
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    await api.post("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": spec})
    await register(api, webhook)
    await api.post(PODS, a_pod())
    assert hook.asked() == [("/hook", "CREATE", "p")]


@pytest.mark.parametrize(
    ("policy", "calls"), [("IfNeeded", ["/one", "/two", "/one"]), ("Never", ["/one", "/two"])]
)
async def test_an_earlier_webhook_sees_the_object_again_when_a_later_one_changed_it(api, hook, policy, calls):
    hook.answers["/two"] = {"patch": [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]}
    await register(
        api, a_webhook(hook, "/one", reinvocationPolicy=policy), a_webhook(hook, "/two"), kind="mutating"
    )
    await api.post(PODS, a_pod())
    assert [path for path, _ in hook.requests] == calls


async def test_a_patch_is_tried_again_when_the_object_moved_on_meanwhile(api, hook):
    await register(
        api, a_webhook(hook, operations=["UPDATE"], objectSelector={"matchLabels": {"slow": "yes"}})
    )
    await api.post(PODS, a_pod(metadata={"labels": {"slow": "yes"}}))
    asked, go = asyncio.Event(), asyncio.Event()

    async def hold(_request):
        asked.set()
        await go.wait()
        return {}

    hook.answers["/hook"] = hold
    change = asyncio.create_task(api.patch(f"{PODS}/p", {"metadata": {"annotations": {"mine": "1"}}}))
    await asked.wait()
    hook.answers["/hook"] = {}
    await api.patch(f"{PODS}/p", {"metadata": {"annotations": {"other": "1"}}})
    go.set()
    assert (await change)["metadata"]["annotations"] == {"mine": "1", "other": "1"}


async def test_a_webhook_is_told_of_a_dry_run(api, hook):
    await register(api, a_webhook(hook))
    await api.post(f"{PODS}?dryRun=All", a_pod())
    assert hook.requests[0][1]["dryRun"] is True


async def test_a_webhook_is_told_of_a_dry_delete(api, hook):
    await api.post(PODS, a_pod())
    await register(api, a_webhook(hook, operations=("DELETE",)))
    await api.delete(f"{PODS}/p", {"dryRun": ["All"]})
    assert hook.requests[0][1]["dryRun"] is True


async def test_without_its_configuration_a_webhook_is_asked_no_more(api, hook):
    await register(api, a_webhook(hook))
    await api.delete(CONFIGURATIONS.format("validating") + "/hooks")
    await api.post(PODS, a_pod())
    assert hook.requests == []
