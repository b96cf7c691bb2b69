"""Admission policies that are stored are asked, as a real API server asks them."""

import pytest

from libs.tests.local.apiserver.builders import a_pod

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/{}/token"


def a_policy(name="p", *expressions, resources=("configmaps",), operations=("CREATE", "UPDATE"), **spec):
    validations = [{"expression": item} if isinstance(item, str) else item for item in expressions]
    rule = {"apiGroups": [""], "apiVersions": ["*"], "resources": resources, "operations": operations}
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **spec},
    }


def a_binding(name="p", *, actions=("Deny",), **spec):
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": actions, **spec}}


async def enforce(api, *expressions, binding=None, **policy):
    await api.post(POLICIES, a_policy("p", *expressions, **policy))
    await api.post(BINDINGS, a_binding(**(binding or {})))


async def answer(api, body=None, *, method="POST", path=CONFIG_MAPS, **options):
    """Code and message, or the code alone of what is allowed."""
    body = body if body is not None else a_map()
    code, told = await api.call(method, path, body, **options)
    return (code, told["message"]) if code >= 300 else (code, "")


def a_map(name="m", data=None, **metadata):
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


async def token(api, name, **spec):
    await api.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    return (await api.post(TOKENS.format(name), {"spec": spec}))["status"]["token"]


async def test_what_a_policy_forbids_is_refused_with_its_message(api):
    rule = {"expression": "object.data.size() < 2", "message": "one key will do", "reason": "Forbidden"}
    await enforce(api, rule)
    assert await answer(api, a_map(data={"a": "1"})) == (201, "")
    code, told = await answer(api, a_map("n", data={"a": "1", "b": "2"}))
    assert code == 403
    assert told == (
        "configmaps \"n\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
        "one key will do"
    )


async def test_without_a_message_the_expression_is_told_and_the_object_is_invalid(api):
    await enforce(api, "object.data.size() == 0")
    code, told = await answer(api, a_map(data={"a": "1"}))
    assert (code, told.partition("denied request: ")[2]) == (
        422,
        "failed expression: object.data.size() == 0",
    )


@pytest.mark.parametrize(
    ("expression", "told"),
    [("'no ' + object.metadata.name", "no m"), ("object.nothing", "else"), ("'two\\nlines'", "else")],
)
async def test_a_message_may_be_an_expression_and_the_text_counts_where_that_fails(api, expression, told):
    await enforce(
        api, {"expression": "false", "message": "else", "messageExpression": f"string({expression})"}
    )
    assert (await answer(api))[1].endswith(f"denied request: {told}")


async def test_a_policy_that_no_binding_names_is_not_asked_nor_one_that_is_gone(api):
    await api.post(POLICIES, a_policy("p", "false"))
    assert await answer(api) == (201, "")
    await api.post(BINDINGS, a_binding())
    assert (await answer(api, a_map("n")))[0] == 422
    await api.delete(f"{BINDINGS}/p")
    assert await answer(api, a_map("n")) == (201, "")
    await api.post(BINDINGS, a_binding())
    await api.delete(f"{POLICIES}/p")
    assert await answer(api, a_map("o")) == (201, "")


async def test_a_policy_that_is_changed_holds_as_it_is_now(api):
    await enforce(api, "false")
    assert (await answer(api))[0] == 422
    await api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "true"}]}})
    assert await answer(api) == (201, "")


async def test_who_asks_and_the_state_before_count(api):
    told = {"expression": "object.data == oldObject.data", "message": "no"}
    await enforce(
        api,
        told,
        operations=["UPDATE"],
        matchConditions=[
            {"name": "who", "expression": "request.userInfo.username.endsWith(':default:tenant')"}
        ],
    )
    tenant = await token(api, "tenant")
    await api.post(CONFIG_MAPS, a_map(data={"a": "1"}))
    at = {"method": "PUT", "path": f"{CONFIG_MAPS}/m", "token": tenant}
    assert await answer(api, a_map(data={"a": "1"}, labels={"x": "y"}), **at) == (200, "")
    assert (await answer(api, a_map(data={"a": "2"}), **at))[0] == 422
    assert await answer(api, a_map(data={"a": "2"}), **{**at, "token": ""}) == (200, "")


async def test_what_is_deleted_is_the_old_object(api):
    await enforce(
        api, "object == null && !('keep' in oldObject.data)", operations=["DELETE"], resources=["configmaps"]
    )
    for name, data in (("gone", {}), ("kept", {"keep": "yes"})):
        await api.post(CONFIG_MAPS, a_map(name, data))
    assert await answer(api, {}, method="DELETE", path=f"{CONFIG_MAPS}/gone") == (200, "")
    assert (await answer(api, {}, method="DELETE", path=f"{CONFIG_MAPS}/kept"))[0] == 422


async def test_variables_build_on_each_other_and_one_that_fails_counts_only_where_it_is_read(api):
    await enforce(
        api,
        "!has(object.data) || variables.odd.size() == 0",
        {
            "expression": "variables.names.size() < 3",
            "messageExpression": "'too many: ' + variables.names.join('/')",
        },
        variables=[
            {"name": "data", "expression": "dyn(object.data)"},
            {"name": "names", "expression": "has(object.data) ? variables.data.map(k, string(k)) : []"},
            {"name": "odd", "expression": "variables.data.filter(k, variables.data[k] == 'odd')"},
        ],
    )
    assert await answer(api, {"metadata": {"name": "none"}}) == (201, "")
    assert (await answer(api, a_map(data={"a": "odd"})))[0] == 422
    told = (await answer(api, a_map(data={"a": "1", "b": "2", "c": "3"})))[1].partition("too many: ")[2]
    assert sorted(told.split("/")) == ["a", "b", "c"]


@pytest.mark.parametrize(("policy", "code"), [("Fail", 422), ("Ignore", 201)])
@pytest.mark.parametrize("part", ["validation", "condition"])
async def test_an_expression_that_fails_refuses_unless_failures_are_ignored(api, policy, code, part):
    fails = "object.nowhere.field == 1"
    if part == "condition":
        await enforce(
            api, "false", failurePolicy=policy, matchConditions=[{"name": "x", "expression": fails}]
        )
    else:
        await enforce(api, fails, failurePolicy=policy)
    found, told = await answer(api)
    assert found == code
    assert ("resulted in error" in told) == (code == 422)


async def test_a_condition_that_is_false_counts_more_than_one_that_fails(api):
    conditions = [{"name": "a", "expression": "object.x.y == 1"}, {"name": "b", "expression": "false"}]
    await enforce(api, "false", matchConditions=conditions)
    assert await answer(api) == (201, "")


async def test_subresources_are_matched_by_their_name(api):
    await enforce(api, "false", resources=["pods/status", "pods/binding"])
    await api.post(PODS, a_pod())
    status = {"status": {"phase": "Running"}}
    merge = {"kind": "application/merge-patch+json"}
    code, _ = await answer(api, status, method="PATCH", path=f"{PODS}/p/status", **merge)
    assert code == 422
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert await answer(api, labels, method="PATCH", path=f"{PODS}/p", **merge) == (200, "")
    node = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    for path in (f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"):
        assert (await answer(api, node, path=path))[0] == 422
    assert "nodeName" not in (await api.get(f"{PODS}/p"))["spec"]


async def test_a_policy_sees_the_binding_not_the_pod(api):
    await enforce(
        api,
        "object.kind == 'Binding' && oldObject == null && object.target.name == 'good'",
        resources=["pods/binding"],
        operations=["CREATE"],
    )
    await api.post(PODS, a_pod())
    for node, code in (("bad", 422), ("good", 201)):
        body = {"target": {"kind": "Node", "name": node}}
        assert (await answer(api, body, path=f"{PODS}/p/binding"))[0] == code


async def test_an_eviction_is_asked_about_as_such_and_not_as_a_deletion(api):
    await enforce(api, "false", resources=["pods"], operations=["DELETE"])
    await api.post(PODS, a_pod())
    assert (await answer(api, {}, method="DELETE", path=f"{PODS}/p"))[0] == 422
    assert await answer(api, {"metadata": {"name": "p"}}, path=f"{PODS}/p/eviction") == (201, "")
    await api.post(POLICIES, a_policy("e", "object.kind != 'Eviction'", resources=["pods/eviction"]))
    await api.post(BINDINGS, a_binding("e"))
    await api.post(PODS, a_pod())
    assert (await answer(api, {"metadata": {"name": "p"}}, path=f"{PODS}/p/eviction"))[0] == 422


async def test_a_binding_narrows_what_its_policy_is_about(api):
    await enforce(
        api,
        "false",
        binding={
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"held": "yes"}},
                "objectSelector": {"matchLabels": {"held": "yes"}},
                "excludeResourceRules": [
                    {
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*"],
                        "operations": ["*"],
                        "resourceNames": ["free"],
                    }
                ],
            }
        },
    )
    for name, labels in (("held", {"held": "yes"}), ("other", {})):
        await api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    found = {
        (namespace, name): (
            await answer(api, a_map(name, labels=labels), path=f"/api/v1/namespaces/{namespace}/configmaps")
        )[0]
        for namespace in ("held", "other")
        for name, labels in (("m", {"held": "yes"}), ("n", {}), ("free", {"held": "yes"}))
    }
    assert found == {**dict.fromkeys(found, 201), ("held", "m"): 422}


async def test_a_binding_may_warn_instead(api):
    await enforce(api, {"expression": "false", "message": "think again"}, binding={"actions": ["Warn"]})
    headers = {"Authorization": f"Bearer {api.server.admin_token}"}
    async with api.session.post(api.server.url + CONFIG_MAPS, json=a_map(), headers=headers) as http:
        assert http.status == 201
        assert http.headers["Warning"].endswith("with binding 'p': think again\"")


async def test_an_expression_may_ask_what_somebody_may_do(start):
    api = await start(rbac=True)
    allowed = "authorizer.group('kai.scheduler').resource('grants').check('repair').allowed()"
    await enforce(api, allowed, "authorizer.requestResource.check('create').allowed()")
    roles = "/apis/rbac.authorization.k8s.io/v1"
    for name, groups in (("clerk", ["", "kai.scheduler"]), ("tenant", [""])):
        await api.post(
            f"{roles}/clusterroles",
            {
                "metadata": {"name": name},
                "rules": [{"apiGroups": groups, "resources": ["configmaps", "grants"], "verbs": ["*"]}],
            },
        )
        await api.post(
            f"{roles}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            },
        )
    assert await answer(api, token=await token(api, "clerk")) == (201, "")
    code, told = await answer(api, a_map("n"), token=await token(api, "tenant"))
    assert (code, allowed in told) == (422, True)
    assert await answer(api, a_map("n")) == (201, "")


async def test_a_token_that_is_bound_to_a_pod_says_which(api):
    key = "authentication.kubernetes.io/pod-name"
    await enforce(api, f"has(request.userInfo.extra) && request.userInfo.extra['{key}'] == ['p']")
    await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "worker"}})
    body = a_pod()
    body["spec"]["serviceAccountName"] = "worker"
    uid = (await api.post(PODS, body))["metadata"]["uid"]
    bound = await token(api, "worker", boundObjectRef={"kind": "Pod", "name": "p", "uid": uid})
    assert await answer(api, token=bound) == (201, "")
    assert (await answer(api, a_map("n"), token=await token(api, "worker")))[0] == 422
    for reference, code in (({"name": "p", "uid": "other"}, 409), ({"name": "absent"}, 404)):
        spec = {"spec": {"boundObjectRef": {"kind": "Pod", **reference}}}
        assert (await answer(api, spec, path=TOKENS.format("worker")))[0] == code


@pytest.mark.parametrize(
    ("spec", "field", "told"),
    [
        ({"validations": [{"expression": "object.a ="}]}, "validations[0].expression", "compilation failed"),
        (
            {"validations": [{"expression": "nobody == 1"}]},
            "validations[0].expression",
            "undeclared reference",
        ),
        ({"validations": [{"expression": "'a'"}]}, "validations[0].expression", "must evaluate to bool"),
        ({"validations": [{"expression": "variables.x == 1"}]}, "validations[0].expression", "undeclared"),
        ({"validations": [{}]}, "validations[0].expression", "Required value"),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "validations[0].messageExpression",
            "must evaluate to string",
        ),
        ({"variables": [{"name": "a b", "expression": "1"}]}, "variables[0].name", "identifier"),
        (
            {"variables": [{"name": "a", "expression": "variables.b"}]},
            "variables[0].expression",
            "undeclared",
        ),
        ({"matchConditions": [{"name": "x", "expression": "(("}]}, "matchConditions[0].expression", "failed"),
        ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, "paramKind", "reads no parameters"),
        ({"validations": []}, "validations", "at least one item"),
        ({"matchConstraints": {}}, "matchConstraints.resourceRules", "Required"),
    ],
)
async def test_what_could_never_be_asked_is_refused_when_it_is_stored(api, spec, field, told):
    body = a_policy("p", "true")
    body["spec"] |= spec
    code, message = await answer(api, body, path=POLICIES)
    assert code == 422
    assert f"spec.{field}" in message
    assert told in message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"policyName": ""}, "policyName"),
        ({"validationActions": []}, "validationActions"),
        ({"validationActions": ["Refuse"]}, "validationActions[0]"),
        ({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}, "paramRef"),
    ],
)
async def test_a_binding_that_means_nothing_is_refused(api, spec, field):
    body = a_binding()
    body["spec"] |= spec
    code, message = await answer(api, body, path=BINDINGS)
    assert code == 422
    assert f"spec.{field}" in message


async def test_a_request_that_changes_nothing_is_asked_about_too(api):
    await api.post(CONFIG_MAPS, a_map())
    await enforce(api, "false", operations=["UPDATE"])
    assert (await answer(api, a_map(), method="PUT", path=f"{CONFIG_MAPS}/m"))[0] == 422


async def test_a_policy_sees_an_object_in_the_version_of_the_request(api):
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    rule = {"apiGroups": ["events.k8s.io"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    await enforce(api, "object.reportingController == 'mine'", matchConstraints={"resourceRules": [rule]})
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "mine",
        "reportingInstance": "x",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    assert await answer(api, event, path=path) == (201, "")
    other = {**event, "metadata": {"name": "f"}, "reportingController": "other"}
    assert (await answer(api, other, path=path))[0] == 422


async def test_no_policy_keeps_anybody_from_mending_policies(api):
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    await enforce(api, "false", matchConstraints={"resourceRules": [rule]})
    assert (await answer(api))[0] == 422
    await api.delete(f"{POLICIES}/p")
    assert await answer(api) == (201, "")


async def test_policies_hold_after_a_restart(start, tmp_path):
    first = await start(folder=tmp_path)
    await enforce(first, "false")
    second = await start(folder=tmp_path)
    assert (await answer(second))[0] == 422
