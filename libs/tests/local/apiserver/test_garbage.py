"""Owners and dependents, namespaces and what is in them."""

import pytest

from deadlines import eventually
from libs.tests.local.apiserver.builders import a_refusal

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


async def an_owner(api, name="owner"):
    return await api.post(CONFIG_MAPS, {"metadata": {"name": name}})


def owned_by(*owners, name="child", block=False):
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for o in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


async def refuse_deletion(api, name, resource="configmaps"):
    policy, binding = a_refusal(name, resource=resource)
    await api.post(POLICIES, policy)
    await api.post(BINDINGS, binding)


async def no_longer_refuse(api):
    await api.delete(f"{BINDINGS}/refusal")


async def exists(api, name):
    return (await api.call("GET", f"{CONFIG_MAPS}/{name}"))[0] == 200


async def test_dependents_go_after_their_owner_all_the_way_down(api):
    owner = await an_owner(api)
    child = await api.post(CONFIG_MAPS, owned_by(owner))
    await api.post(CONFIG_MAPS, owned_by(child, name="grandchild"))
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.gone(f"{CONFIG_MAPS}/grandchild")
    assert not await exists(api, "child")


WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def test_webhooks_go_after_their_owner_though_the_server_reads_them_itself(api):
    owner = await api.post(WEBHOOKS, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    await api.post(WEBHOOKS, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await api.delete(f"{WEBHOOKS}/owner")
    await api.gone(f"{WEBHOOKS}/child")


async def strangers_told_of(api):
    found = await api.get("/api/v1/events")
    return [
        (item["involvedObject"]["kind"], item["involvedObject"]["name"])
        for item in found["items"]
        if item["reason"] == "OwnerRefInvalidNamespace"
    ]


async def test_an_owner_in_another_namespace_does_not_keep_anything_and_that_is_told(api):
    owner = await an_owner(api)
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.post("/api/v1/namespaces/team/configmaps", owned_by(owner))
    await api.gone("/api/v1/namespaces/team/configmaps/child")
    assert await strangers_told_of(api) == [("ConfigMap", "child")]


async def test_what_is_in_no_namespace_stays_when_an_owner_in_one_goes_and_that_is_told(api):
    owner = await an_owner(api)
    await api.post(WEBHOOKS, owned_by(owner))
    assert await eventually(lambda: strangers_told_of(api)) == [("ValidatingWebhookConfiguration", "child")]
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.post(CONFIG_MAPS, owned_by(owner, name="other"))
    await api.gone(f"{CONFIG_MAPS}/other")
    assert (await api.call("GET", f"{WEBHOOKS}/child"))[0] == 200


async def test_one_living_owner_is_enough(api):
    first, second = await an_owner(api, "first"), await an_owner(api, "second")
    await api.post(CONFIG_MAPS, owned_by(first, second))
    async with api.watch(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dchild&resourceVersion=0") as events:
        await events.next()
        await api.delete(f"{CONFIG_MAPS}/first")
        references = (await events.next())["object"]["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in references] == ["second"]
    await api.delete(f"{CONFIG_MAPS}/second")
    await api.gone(f"{CONFIG_MAPS}/child")


async def test_an_owner_that_never_was_does_not_keep_anything(api):
    ghost = {"metadata": {"name": "ghost", "uid": "no-such-uid"}}
    await api.post(CONFIG_MAPS, owned_by(ghost))
    await api.gone(f"{CONFIG_MAPS}/child")


async def test_an_owner_of_the_same_name_with_another_uid_does_not_count(api):
    owner = await an_owner(api)
    await api.post(CONFIG_MAPS, owned_by(owner))
    await api.delete(f"{CONFIG_MAPS}/owner")
    await an_owner(api)
    await api.gone(f"{CONFIG_MAPS}/child")


async def test_orphans_lose_their_reference_and_stay(api):
    owner = await an_owner(api)
    await api.post(CONFIG_MAPS, owned_by(owner))
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
    await api.gone(f"{CONFIG_MAPS}/owner")
    assert "ownerReferences" not in (await api.get(f"{CONFIG_MAPS}/child"))["metadata"]


async def test_in_the_foreground_the_owner_waits_for_those_that_block(api):
    owner = await an_owner(api)
    child = owned_by(owner, block=True)
    child["metadata"]["finalizers"] = ["example.com/wait"]
    await api.post(CONFIG_MAPS, child)
    going = await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    await eventually(
        lambda: api.get(f"{CONFIG_MAPS}/child"), lambda child: "deletionTimestamp" in child["metadata"]
    )
    assert await exists(api, "owner")
    await api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{CONFIG_MAPS}/owner")


async def test_in_the_foreground_what_another_owner_keeps_stays(api):
    first, second = await an_owner(api, "first"), await an_owner(api, "second")
    await api.post(CONFIG_MAPS, owned_by(first, second, block=True))
    await api.delete(f"{CONFIG_MAPS}/first", {"propagationPolicy": "Foreground"})
    await api.gone(f"{CONFIG_MAPS}/first")
    child = (await api.get(f"{CONFIG_MAPS}/child"))["metadata"]
    assert "deletionTimestamp" not in child
    assert [reference["name"] for reference in child["ownerReferences"]] == ["second"]


async def an_owner_that_waits(api):
    """It goes in the foreground, for its child to go, which a finalizer holds."""
    owner = await an_owner(api)
    child = owned_by(owner, block=True)
    child["metadata"]["finalizers"] = ["example.com/wait"]
    await api.post(CONFIG_MAPS, child)
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    await eventually(
        lambda: api.get(f"{CONFIG_MAPS}/child"), lambda child: "deletionTimestamp" in child["metadata"]
    )


async def test_in_the_foreground_an_owner_waits_no_longer_for_what_is_no_longer_its_own(api):
    await an_owner_that_waits(api)
    await api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"ownerReferences": None}})
    await api.gone(f"{CONFIG_MAPS}/owner")
    assert await exists(api, "child")


async def test_in_the_foreground_an_owner_is_told_of_a_dependent_that_left_it_with_its_last_finalizer(api):
    await an_owner_that_waits(api)
    await api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"ownerReferences": None, "finalizers": None}})
    await api.gone(f"{CONFIG_MAPS}/owner")


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]])
async def test_in_the_foreground_owners_in_a_circle_do_not_wait_for_each_other(api, names):
    made = [await an_owner(api, name) for name in names]
    for owner, name in zip(made, [*names[1:], names[0]], strict=True):
        await api.patch(f"{CONFIG_MAPS}/{name}", owned_by(owner, name=name, block=True))
    await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Foreground"})
    for name in names:
        await api.gone(f"{CONFIG_MAPS}/{name}")


async def test_in_the_foreground_owners_in_a_circle_wait_for_what_blocks_one_of_them(api):
    first, second = await an_owner(api, "first"), await an_owner(api, "second")
    child = owned_by(second, block=True)
    child["metadata"]["finalizers"] = ["example.com/wait"]
    await api.post(CONFIG_MAPS, child)
    await api.patch(f"{CONFIG_MAPS}/first", owned_by(second, name="first", block=True))
    await api.patch(f"{CONFIG_MAPS}/second", owned_by(first, name="second", block=True))
    await api.delete(f"{CONFIG_MAPS}/first", {"propagationPolicy": "Foreground"})
    await eventually(
        lambda: api.get(f"{CONFIG_MAPS}/child"), lambda child: "deletionTimestamp" in child["metadata"]
    )
    assert await exists(api, "second")
    await api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{CONFIG_MAPS}/first")
    await api.gone(f"{CONFIG_MAPS}/second")


async def test_what_goes_after_its_owner_leaves_orphans_where_its_finalizer_asks_for_that(api):
    owner = await an_owner(api)
    child = owned_by(owner)
    child["metadata"]["finalizers"] = ["orphan"]
    child = await api.post(CONFIG_MAPS, child)
    await api.post(CONFIG_MAPS, owned_by(child, name="grandchild"))
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.gone(f"{CONFIG_MAPS}/child")
    assert "ownerReferences" not in (await api.get(f"{CONFIG_MAPS}/grandchild"))["metadata"]


async def test_pods_of_jobs_are_orphaned_only_when_nobody_said_otherwise(api):
    jobs, pods = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name in ("a", "b"):
        job = await api.post(jobs, {"metadata": {"name": name}, "spec": {"template": template}})
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        await api.post(pods, {"metadata": {"name": name, "ownerReferences": [reference]}, **template})
    await api.delete(f"{jobs}/a")
    await api.delete(f"{jobs}/b", {"propagationPolicy": "Background"})
    await api.gone(f"{pods}/b")
    await api.gone(f"{jobs}/a")
    assert "ownerReferences" not in (await api.get(f"{pods}/a"))["metadata"]


async def test_a_new_namespace_has_its_label_and_a_service_account(api):
    made = await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert made["status"]["phase"] == "Active"
    assert await api.get("/api/v1/namespaces/team/serviceaccounts/default")


async def test_a_namespace_goes_with_everything_in_it(api):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}}
    await api.post("/api/v1/namespaces/team/configmaps", held)
    await api.post("/api/v1/namespaces/team/secrets", {"metadata": {"name": "s"}})
    going = await api.delete("/api/v1/namespaces/team")
    assert going["status"]["phase"] == "Terminating"
    status, answer = await api.call(
        "POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "late"}}
    )
    assert (status, answer["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    await api.gone("/api/v1/namespaces/team/secrets/s")
    assert (await api.call("GET", "/api/v1/namespaces/team"))[0] == 200
    await api.patch("/api/v1/namespaces/team/configmaps/held", {"metadata": {"finalizers": None}})
    await api.gone("/api/v1/namespaces/team")


async def test_a_namespace_is_let_go_by_its_finalize_subresource_alone(api):
    path = "/api/v1/namespaces/team"
    made = await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}, "spec": {"finalizers": []}})
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    held = {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}}
    await api.post(f"{path}/configmaps", held)
    going = await api.delete(path)
    let_go = {"spec": {"finalizers": []}}
    for where in (path, f"{path}/status"):
        assert (await api.patch(where, let_go))["spec"] == {"finalizers": ["kubernetes"]}
        assert (await api.put(where, {**await api.get(path), **let_go}))["spec"] == going["spec"]
    assert (await api.put(f"{path}/finalize", {**await api.get(path), **let_go}))["spec"] == let_go["spec"]
    assert (await api.call("GET", path))[0] == 404


async def test_a_namespace_goes_though_one_deletion_in_it_was_refused_at_first(api):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    for name in ("a", "b"):
        await api.post("/api/v1/namespaces/team/configmaps", {"metadata": {"name": name}})
    await refuse_deletion(api, "a")
    await api.delete("/api/v1/namespaces/team")
    await api.gone("/api/v1/namespaces/team/configmaps/b")
    assert (await api.call("GET", "/api/v1/namespaces/team/configmaps/a"))[0] == 200
    await no_longer_refuse(api)
    await api.gone("/api/v1/namespaces/team")


async def test_a_dependent_goes_though_its_deletion_was_refused_at_first(api):
    owner = await an_owner(api)
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, owned_by(owner, name=name))
    await refuse_deletion(api, "a")
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.gone(f"{CONFIG_MAPS}/b")
    assert await exists(api, "a")
    await no_longer_refuse(api)
    await api.gone(f"{CONFIG_MAPS}/a")


async def test_what_is_to_go_goes_though_a_deletion_before_it_failed_by_what_nobody_thought_of(api):
    unheard_of = {
        "name": "far.example.com",
        "clientConfig": {"url": f"https://{'far' * 30}.example.com"},
        "rules": [
            {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await api.post(WEBHOOKS, {"metadata": {"name": "far"}, "webhooks": [unheard_of]})
    await api.post(CONFIG_MAPS, owned_by({"metadata": {"name": "nobody", "uid": "u"}}))
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.delete("/api/v1/namespaces/team")
    await api.gone("/api/v1/namespaces/team")
    assert await exists(api, "child")
    await api.delete(f"{WEBHOOKS}/far")
    await api.gone(f"{CONFIG_MAPS}/child")


async def test_in_the_foreground_all_dependents_go_but_the_one_whose_deletion_is_refused(api):
    owner = await an_owner(api)
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, owned_by(owner, name=name, block=True))
    await refuse_deletion(api, "a")
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    await api.gone(f"{CONFIG_MAPS}/b")
    assert await exists(api, "owner")
    await no_longer_refuse(api)
    await api.gone(f"{CONFIG_MAPS}/owner")


async def test_the_namespaces_of_the_cluster_itself_stay(api):
    status, answer = await api.call("DELETE", "/api/v1/namespaces/kube-system")
    assert status == 403
    assert "this namespace may not be deleted" in answer["message"]


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_an_owner_without_dependents_goes_under_every_policy(api, policy):
    await an_owner(api)
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": policy})
    await api.gone(f"{CONFIG_MAPS}/owner")
