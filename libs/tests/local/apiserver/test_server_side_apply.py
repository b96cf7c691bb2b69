"""Server-side apply: ownership, conflicts, and what happens to fields nobody wants any more."""

import json

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def a_deployment(*containers, replicas=None, labels=None, **spec):
    own = {"app": "a"}
    images = [{"name": name, "image": image} for name, image in (containers or (("c", "i"),))]
    spec = {
        "selector": {"matchLabels": own},
        "template": {"metadata": {"labels": own}, "spec": {"containers": images}},
        **spec,
    }
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": "d", **({"labels": labels} if labels else {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def managers(obj):
    return {(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]}


async def test_applying_creates_and_applying_again_changes_nothing(api):
    status, made = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    assert status == 201
    assert managers(made) == {("one", "Apply")}
    status, again = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    assert status == 200
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_what_is_applied_has_the_name_that_is_asked_for(api):
    status, answer = await api.apply(f"{DEPLOYMENTS}/other", a_deployment(), "one")
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_a_field_of_another_conflicts_until_forced(api):
    await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    status, answer = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=3), "two")
    assert (status, answer["reason"]) == (409, "Conflict")
    assert (
        answer["message"] == 'Apply failed with 1 conflict: conflict with "one" using apps/v1: .spec.replicas'
    )
    assert answer["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "one" using apps/v1',
            "field": ".spec.replicas",
        }
    ]
    status, forced = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=3), "two", force=True)
    assert (status, forced["spec"]["replicas"]) == (200, 3)
    status, _ = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    assert status == 409


async def test_equal_values_are_owned_together(api):
    await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    status, shared = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "two")
    assert (status, managers(shared)) == (200, {("one", "Apply"), ("two", "Apply")})


async def test_a_field_no_longer_applied_goes_unless_somebody_else_has_it(api):
    await api.apply(f"{DEPLOYMENTS}/d", a_deployment(labels={"mine": "1", "ours": "1"}), "one")
    await api.apply(f"{DEPLOYMENTS}/d", a_deployment(labels={"ours": "1"}), "two")
    _, left = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(), "one")
    assert left["metadata"]["labels"] == {"ours": "1"}


async def test_elements_of_keyed_lists_come_and_go_by_key(api):
    await api.apply(f"{DEPLOYMENTS}/d", a_deployment(("a", "1"), ("b", "1")), "one")
    _, changed = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(("b", "2"), ("c", "1")), "one")
    containers = changed["spec"]["template"]["spec"]["containers"]
    assert [(item["name"], item["image"]) for item in containers] == [("b", "2"), ("c", "1")]


async def test_an_update_takes_the_fields_that_it_changes(api):
    await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    await api.patch(f"{DEPLOYMENTS}/d?fieldManager=hand", {"spec": {"replicas": 5}})
    status, answer = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=2), "one")
    assert status == 409
    assert 'conflict with "hand"' in answer["message"]


async def test_what_stood_before_the_first_apply_belongs_to_its_creator(api):
    await api.post(f"{DEPLOYMENTS}?fieldManager=creator", a_deployment(replicas=2))
    status, answer = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=4), "one")
    assert status == 409
    assert 'conflict with "creator"' in answer["message"]


async def test_the_status_is_applied_through_its_own_subresource(api):
    await api.apply(f"{DEPLOYMENTS}/d", {**a_deployment(), "status": {"replicas": 7}}, "one")
    assert "status" not in await api.get(f"{DEPLOYMENTS}/d")
    status = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "status": {"replicas": 7},
    }
    _, applied = await api.apply(f"{DEPLOYMENTS}/d/status", status, "controller")
    assert applied["status"]["replicas"] == 7
    assert applied["spec"]["replicas"] == 1


async def test_yaml_is_read_and_time_stamps_stay_text(api):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {when: '2026-01-02', at: \"x\"}\n"
    status, made = await api.call(
        "PATCH",
        "/api/v1/namespaces/default/configmaps/a?fieldManager=m",
        body,
        kind="application/apply-patch+yaml",
    )
    assert (status, made["data"]) == (201, {"when": "2026-01-02", "at": "x"})


async def test_an_apply_without_a_manager_is_refused(api):
    status, answer = await api.call(
        "PATCH", f"{DEPLOYMENTS}/d", a_deployment(), kind="application/apply-patch+yaml"
    )
    assert status == 422
    assert "fieldManager: Required value" in answer["message"]


async def test_an_apply_of_something_without_metadata_is_refused(api):
    for _ in range(2):  # the second time there is such an object
        status, answer = await api.apply(f"{DEPLOYMENTS}/d", {**a_deployment(), "metadata": "x"}, "one")
        assert (status, answer["reason"]) == (400, "BadRequest")
        await api.apply(f"{DEPLOYMENTS}/d", a_deployment(), "one")


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def applied_by_the_client(api, **more):
    """A Deployment as ``kubectl apply`` makes it."""
    body = a_deployment(replicas=2)
    kept = {LAST_APPLIED: json.dumps(body)}
    body = {**body, "metadata": {**body["metadata"], "annotations": kept}, "spec": {**body["spec"], **more}}
    await api.post(f"{DEPLOYMENTS}?fieldManager=kubectl-client-side-apply", body)


async def test_kubectl_takes_over_what_it_applied_on_its_own_side(api):
    await applied_by_the_client(api)
    status, _ = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=3), "somebody")
    assert status == 409
    status, taken = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=3), "kubectl")
    assert (status, taken["spec"]["replicas"]) == (200, 3)
    assert json.loads(taken["metadata"]["annotations"][LAST_APPLIED])["spec"]["replicas"] == 3


async def test_what_kubectl_is_said_to_have_applied_may_be_anything(api):
    await applied_by_the_client(api)
    odd = a_deployment(replicas=2)
    odd["spec"]["template"] = {"spec": {"containers": ["web", None]}}
    kept = {"metadata": {"annotations": {LAST_APPLIED: json.dumps(odd)}}}
    await api.call("PATCH", f"{DEPLOYMENTS}/d", kept, kind="application/merge-patch+json")
    status, taken = await api.apply(f"{DEPLOYMENTS}/d", a_deployment(replicas=3), "kubectl")
    assert (status, taken["spec"]["replicas"]) == (200, 3)


async def test_kubectl_does_not_take_over_what_it_did_not_apply(api):
    await applied_by_the_client(api, minReadySeconds=5)
    status, answer = await api.apply(
        f"{DEPLOYMENTS}/d", a_deployment(replicas=3, minReadySeconds=7), "kubectl"
    )
    assert status == 409
    assert [cause["field"] for cause in answer["details"]["causes"]] == [".spec.minReadySeconds"]
