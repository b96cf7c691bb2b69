"""Which kinds are asked for."""

import pytest

from kai.kube import discovery
from kai.kube.errors import Forbidden, Unanswered


@pytest.mark.parametrize(
    "version", ["apps/v1?watch=1", "apps/v1#x", "../apis/apps/v1", "x/../apps/v1", "apps/v1/", "apps%2Fv1"]
)
async def test_what_is_no_version_names_no_other_path(client, server, answers, version):
    served = answers.json({"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]})
    for path in ("/apis/apps/v1", "/apis/apps/v1/", "/api/apps/v1"):
        server.script("GET", path, served)
    assert await client.discover("apps/v1", "Deployment") is not None
    asked = len(server.requests)
    assert await client.discover(version, "Deployment") is None
    assert len(server.requests) == asked


def a_group(name, *versions):
    served = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": served, "preferredVersion": served[-1]}


async def test_a_word_is_any_name_of_a_resource_in_the_version_that_the_server_prefers(
    client, server, answers, monkeypatch
):
    monkeypatch.setattr(discovery, "VERSION_DEADLINE_SECONDS", 0.1)
    rays = {
        "name": "rayjobs",
        "singularName": "rayjob",
        "kind": "RayJob",
        "namespaced": True,
        "shortNames": ["rj"],
    }
    jobs = {"name": "jobs", "singularName": "job", "kind": "Job", "namespaced": True}
    part = {**jobs, "name": "jobs/status"}
    groups = [a_group("down.io", "v1"), a_group("batch", "v1"), a_group("ray.io", "v1alpha1", "v1")]
    server.script("GET", "/apis", answers.json({"groups": groups}))
    server.script("GET", "/api/v1", answers.json({"resources": []}))
    server.script("GET", "/apis/down.io/v1", answers.refusal(503))
    server.script("GET", "/apis/batch/v1", answers.json({"resources": [part, jobs]}))
    for version in ("v1alpha1", "v1"):
        server.script("GET", f"/apis/ray.io/{version}", answers.json({"resources": [rays]}))
    for word in ("rayjobs", "rayjob", "rj", "rj.ray.io"):
        found = await client.resource_called(word)
        assert found is not None
        assert found.path("a") == "/apis/ray.io/v1/namespaces/a/rayjobs"
    older = await client.resource_called("rayjobs.v1alpha1.ray.io")
    assert older is not None
    assert older.version == "v1alpha1"
    assert await client.resource_called("rayjobs.batch") is None
    server.script("GET", "/apis/down.io/v1", answers.refusal(404))
    assert await client.resource_called("gizmo") is None


async def test_who_may_not_see_the_groups_is_told(client, server, answers):
    server.script("GET", "/apis", answers.refusal(403))
    with pytest.raises(Forbidden):
        await client.resource_called("rayjob")


@pytest.mark.parametrize("failure", [429, 503, "reset"])
async def test_a_group_that_fails_at_first_is_asked_again(client, server, answers, failure):
    rays = {"name": "rayjobs", "singularName": "rayjob", "kind": "RayJob", "namespaced": True}
    failed = answers.dropped() if failure == "reset" else answers.refusal(failure)
    server.script("GET", "/apis", answers.json({"groups": [a_group("ray.io", "v1")]}))
    server.script("GET", "/api/v1", answers.json({"resources": []}))
    server.script("GET", "/apis/ray.io/v1", failed, failed, answers.json({"resources": [rays]}))
    found = await client.resource_called("rayjob")
    assert found is not None
    assert found.kind == "RayJob"


@pytest.mark.parametrize("status", [503, 403])
async def test_a_word_that_may_be_of_a_group_that_does_not_answer_is_not_called_unknown(
    client, server, answers, monkeypatch, status
):
    monkeypatch.setattr(discovery, "VERSION_DEADLINE_SECONDS", 0.1)
    server.script("GET", "/apis", answers.json({"groups": [a_group("ray.io", "v1")]}))
    server.script("GET", "/api/v1", answers.json({"resources": []}))
    server.script("GET", "/apis/ray.io/v1", answers.refusal(status))
    with pytest.raises(Unanswered, match=r"^ray\.io/v1 gave no answer \(get discovery ray\.io/v1: no\)$"):
        await client.resource_called("rayjob")
