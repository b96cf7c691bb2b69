"""Who is let in, and what the stored roles allow."""

import ssl

import aiohttp
import pytest

from kai_local.apiserver.access import files

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


async def a_token(api, name="bob"):
    await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    made = await api.post(f"/api/v1/namespaces/default/serviceaccounts/{name}/token", {"spec": {}})
    return made["status"]["token"]


async def allow(api, *rules, namespace="default", role="Role", name="bob"):
    binding_kind = "rolebindings" if namespace else "clusterrolebindings"
    place = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    roles = f"{place}/roles" if role == "Role" else f"{RBAC}/clusterroles"
    await api.post(roles, {"metadata": {"name": "r"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    await api.post(
        f"{place}/{binding_kind}",
        {
            "metadata": {"name": "b"},
            "roleRef": {"kind": role, "name": "r", "apiGroup": RBAC.split("/")[2]},
            "subjects": [subject],
        },
    )


def a_rule(resource, *verbs, group="", **more):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


ONE = a_rule("pods", "list", resourceNames=["p"])


@pytest.mark.parametrize("token", ["wrong", "Bearer"])
async def test_a_wrong_token_is_nobody(api, token):
    status, answer = await api.call("GET", PODS, token=token)
    assert (status, answer["reason"]) == (401, "Unauthorized")


async def test_without_credentials_only_probes_answer(api):
    async with api.session.get(f"{api.server.url}/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")
    async with api.session.get(api.server.url + PODS) as answer:
        assert answer.status == 401


async def test_a_client_certificate_names_its_user(api):
    context = api.server.client_context()
    with files.as_paths(api.server.authority.client("ann", ["devs"])) as (certificate, key):
        context.load_cert_chain(certificate, key)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        url = f"{api.server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with session.post(url, json=body) as answer:
            info = (await answer.json())["status"]["userInfo"]
    assert info == {"username": "ann", "groups": ["devs", "system:authenticated"]}


async def test_a_certificate_of_another_authority_is_refused(api, start):
    other = await start()
    context = api.server.client_context()
    with files.as_paths(other.server.admin) as (certificate, key):
        context.load_cert_chain(certificate, key)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await session.get(api.server.url + PODS)


async def test_a_service_account_may_do_nothing_until_a_role_is_bound(start):
    api = await start(rbac=True)
    token = await a_token(api)
    status, answer = await api.call("GET", PODS, token=token)
    assert status == 403
    assert answer["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:bob" cannot list resource "pods" '
        'in API group "" in the namespace "default"'
    )
    await allow(api, a_rule("pods", "list"))
    assert (await api.call("GET", PODS, token=token))[0] == 200


async def test_refused_requests_are_counted_as_such(start):
    api = await start(rbac=True)
    token = await a_token(api)
    await allow(api, a_rule("pods", "list"))
    agent = {"User-Agent": "tester/1"}
    await api.call("GET", PODS, token=token, **agent)
    for _ in range(2):
        await api.call("DELETE", f"{PODS}/p", token=token, **agent)
    await api.call("GET", f"{PODS}/p", **agent)  # the administrator: not found, which is no refusal
    counted = {
        entry["verb"]: (entry["count"], entry["forbidden"])
        for entry in (await api.get("/kai.local/requests"))["requests"]
        if entry["userAgent"] == "tester/1"
    }
    assert counted == {"list": (1, 0), "delete": (2, 2), "get": (1, 0)}


@pytest.mark.parametrize(
    ("rule", "namespace", "role", "method", "path", "code"),
    [
        (a_rule("pods", "get"), "default", "Role", "GET", f"{PODS}/p", 200),
        (a_rule("pods", "get"), "default", "Role", "DELETE", f"{PODS}/p", 403),
        (a_rule("pods", "get"), "default", "Role", "GET", "/api/v1/namespaces/kube-system/pods/p", 403),
        (a_rule("pods", "get"), "", "ClusterRole", "GET", "/api/v1/namespaces/kube-system/pods/p", 404),
        (a_rule("pods", "list"), "default", "Role", "GET", "/api/v1/pods", 403),
        (a_rule("pods", "list"), "", "ClusterRole", "GET", "/api/v1/pods", 200),
        (a_rule("pods", "get"), "default", "ClusterRole", "GET", f"{PODS}/p", 200),
        (a_rule("pods", "get", resourceNames=["p"]), "default", "Role", "GET", f"{PODS}/p", 200),
        (a_rule("pods", "get", resourceNames=["q"]), "default", "Role", "GET", f"{PODS}/p", 403),
        (ONE, "default", "Role", "GET", f"{PODS}?fieldSelector=metadata.name%3Dp", 200),
        (ONE, "default", "Role", "GET", f"{PODS}?fieldSelector=status.phase%3DX,metadata.name%3Dp", 200),
        (ONE, "default", "Role", "GET", f"{PODS}?fieldSelector=metadata.name%3Dq", 403),
        (ONE, "default", "Role", "GET", f"{PODS}?fieldSelector=metadata.name!%3Dp", 403),
        (ONE, "default", "Role", "GET", PODS, 403),
        (a_rule("pods/log", "get"), "default", "Role", "GET", f"{PODS}/p/log", 501),
        (a_rule("pods", "get"), "default", "Role", "GET", f"{PODS}/p/log", 403),
        (a_rule("*", "*"), "default", "Role", "GET", f"{PODS}/p", 200),
        (a_rule("pods", "get", group="apps"), "default", "Role", "GET", f"{PODS}/p", 403),
        (a_rule("configmaps", "get"), "default", "Role", "GET", "/apis", 200),
    ],
)
async def test_roles_allow_what_they_name_and_nothing_else(start, rule, namespace, role, method, path, code):
    api = await start(rbac=True)
    token = await a_token(api)
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await allow(api, rule, namespace=namespace, role=role)
    assert (await api.call(method, path, token=token))[0] == code


async def test_an_administrator_may_act_as_somebody_else(start):
    api = await start(rbac=True)
    token = await a_token(api)
    await allow(api, a_rule("pods", "list"))
    bob = {"Impersonate-User": "system:serviceaccount:default:bob"}
    assert (await api.call("GET", PODS, **bob))[0] == 200
    assert (await api.call("GET", "/api/v1/namespaces/default/secrets", **bob))[0] == 403
    assert (await api.call("GET", PODS, token=token, **{"Impersonate-User": "ann"}))[0] == 403


async def test_reviews_tell_what_is_allowed(start):
    api = await start(rbac=True)
    token = await a_token(api)
    await allow(api, a_rule("pods", "get"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    async def may(verb):
        attributes = {"verb": verb, "resource": "pods", "namespace": "default"}
        _, answer = await api.call("POST", path, {"spec": {"resourceAttributes": attributes}}, token=token)
        return answer["status"]["allowed"]

    assert (await may("get"), await may("delete")) == (True, False)
    token_review = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert token_review["status"]["user"]["username"] == "system:serviceaccount:default:bob"
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
    other = {"spec": {"user": "system:serviceaccount:default:bob", "resourceAttributes": attributes}}
    review = await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", other)
    assert review["status"]["allowed"] is True


REVIEW_TOKEN = "/apis/authentication.k8s.io/v1/tokenreviews"
REVIEW_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_a_review_of_a_token_says_whose_it_is_and_whom_it_is_for(api):
    token = await a_token(api)
    status = (await api.post(REVIEW_TOKEN, {"spec": {"token": token}}))["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:default:bob"
    assert status["user"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    ours = status["audiences"]
    assert (await api.post(REVIEW_TOKEN, {"spec": {"token": token, "audiences": ours}}))["status"] == status
    elsewhere = await api.post(REVIEW_TOKEN, {"spec": {"token": token, "audiences": ["vault"]}})
    assert "authenticated" not in elsewhere["status"]
    assert 'for the target audiences ["vault"]' in elsewhere["status"]["error"]


async def test_a_review_of_a_wrong_token_is_an_answer_and_one_of_none_a_mistake(api):
    wrong = await api.post(REVIEW_TOKEN, {"spec": {"token": "wrong"}})
    assert wrong["status"] == {"user": {}, "error": "invalid bearer token"}
    code, told = await api.call("POST", REVIEW_TOKEN, {"spec": {}})
    assert (code, told["message"]) == (400, "token is required for TokenReview in authentication")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resourceAttributes": {"verb": "get", "resource": "pods"}}, "spec.user"),
        ({"user": "ann"}, "spec.resourceAttributes"),
        (
            {"user": "ann", "resourceAttributes": {}, "nonResourceAttributes": {}},
            "spec.nonResourceAttributes",
        ),
    ],
)
async def test_a_review_of_access_has_to_say_who_wants_what(api, spec, field):
    code, told = await api.call("POST", REVIEW_ACCESS, {"spec": spec})
    assert (code, told["reason"]) == (422, "Invalid")
    assert [each["field"] for each in told["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (REVIEW_TOKEN, {"spec": "x"}),
        (REVIEW_TOKEN, {"spec": {"token": 5}}),
        (REVIEW_TOKEN, {"spec": {"token": "t", "audiences": "vault"}}),
        (REVIEW_TOKEN, {"metadata": "x", "spec": {"token": "t"}}),
        (REVIEW_TOKEN, []),
        (REVIEW_TOKEN, None),
        (REVIEW_ACCESS, {"spec": {"user": "ann", "resourceAttributes": "pods"}}),
        (REVIEW_ACCESS, {"spec": {"user": "ann", "groups": 5, "resourceAttributes": {}}}),
        (REVIEW_ACCESS, {"spec": {"user": "ann", "resourceAttributes": {"verb": ["get"]}}}),
    ],
)
async def test_a_review_that_cannot_be_read_is_a_mistake_of_who_sent_it(api, path, body):
    code, told = await api.call("POST", path, body)
    assert (code, told["reason"]) == (400, "BadRequest")


async def test_only_who_may_create_reviews_learns_about_others(start):
    api = await start(rbac=True)
    token = await a_token(api)
    spec = {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert (await api.call("POST", REVIEW_TOKEN, {"spec": {"token": token}}, token=token))[0] == 403
    assert (await api.call("POST", REVIEW_ACCESS, {"spec": spec}, token=token))[0] == 403
    reviews = a_rule("tokenreviews", "create", group="authentication.k8s.io")
    await allow(api, reviews, namespace="", role="ClusterRole")
    assert (await api.call("POST", REVIEW_TOKEN, {"spec": {"token": token}}, token=token))[0] == 201
    assert (await api.call("POST", REVIEW_ACCESS, {"spec": spec}, token=token))[0] == 403


async def test_a_review_about_no_namespace_is_about_all_of_them(start):
    api = await start(rbac=True)
    await a_token(api)
    await allow(api, a_rule("pods", "list"))

    async def may(namespace):
        attributes = {"verb": "list", "resource": "pods", "namespace": namespace}
        spec = {"user": "system:serviceaccount:default:bob", "resourceAttributes": attributes}
        return (await api.post(REVIEW_ACCESS, {"spec": spec}))["status"]["allowed"]

    assert [await may(namespace) for namespace in ("default", "other", "")] == [True, False, False]
