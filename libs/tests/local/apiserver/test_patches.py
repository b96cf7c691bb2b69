"""The four kinds of patch, as pure functions and through the API."""

import pytest

from kai.model import merge_patch
from kai_local.apiserver.patches import strategic
from kai_local.apiserver.schemas import schema

POD = schema.builtin("", "v1", "Pod")


def spec(**members):
    return {"spec": members}


STRATEGIC = {
    "containers merge by name": (
        spec(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]),
        spec(containers=[{"name": "b", "image": "2"}]),
        spec(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
    ),
    "an element is deleted by its key": (
        spec(containers=[{"name": "a"}, {"name": "b"}]),
        spec(containers=[{"name": "a", "$patch": "delete"}]),
        spec(containers=[{"name": "b"}]),
    ),
    "a list is replaced when asked": (
        spec(containers=[{"name": "a"}]),
        spec(containers=[{"$patch": "replace"}, {"name": "b"}]),
        spec(containers=[{"name": "b"}]),
    ),
    "an object is replaced when asked": (
        spec(securityContext={"runAsUser": 1}),
        spec(securityContext={"$patch": "replace", "fsGroup": 2}),
        spec(securityContext={"fsGroup": 2}),
    ),
    "the order of elements is set": (
        spec(containers=[{"name": "a"}, {"name": "b"}]),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c"}],
            }
        },
        spec(containers=[{"name": "c"}, {"name": "a"}, {"name": "b"}]),
    ),
    "an order alone is an order": (
        spec(initContainers=[{"name": "a"}, {"name": "b"}]),
        spec(**{"$setElementOrder/initContainers": [{"name": "b"}, {"name": "a"}]}),
        spec(initContainers=[{"name": "b"}, {"name": "a"}]),
    ),
    "an order alone of values": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$setElementOrder/finalizers": ["b", "a"]}},
        {"metadata": {"finalizers": ["b", "a"]}},
    ),
    "an order of what is not there": (
        spec(containers=[{"name": "a"}]),
        spec(**{"$setElementOrder/initContainers": [{"name": "b"}]}),
        spec(containers=[{"name": "a"}]),
    ),
    "tolerations are atomic": (
        spec(tolerations=[{"key": "a"}]),
        spec(tolerations=[{"key": "b"}]),
        spec(tolerations=[{"key": "b"}]),
    ),
    "finalizers are a set": (
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
        {"metadata": {"finalizers": ["b", "a"]}},
    ),
    "an element leaves a set": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    "ports merge inside containers": (
        spec(containers=[{"name": "a", "ports": [{"containerPort": 1, "name": "x"}]}]),
        spec(containers=[{"name": "a", "ports": [{"containerPort": 2}]}]),
        spec(containers=[{"name": "a", "ports": [{"containerPort": 2}, {"containerPort": 1, "name": "x"}]}]),
    ),
    "what is new in a list comes first, what was there keeps its place": (
        spec(containers=[{"name": "a"}, {"name": "b"}, {"name": "c"}]),
        spec(containers=[{"name": "d"}, {"name": "b", "image": "i"}]),
        spec(containers=[{"name": "d"}, {"name": "a"}, {"name": "b", "image": "i"}, {"name": "c"}]),
    ),
    "keys not retained go": (
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]),
        spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    ),
    "conditions merge by type": (
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]
            }
        },
        {
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]
            }
        },
    ),
}


@pytest.mark.parametrize(("target", "body", "result"), STRATEGIC.values(), ids=STRATEGIC.keys())
def test_a_strategic_merge_patch(target, body, result):
    assert strategic.merge(POD, target, body) == result


def test_what_a_patch_does_not_touch_is_shared():
    target = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a"}]}}
    assert merge_patch.merged(target, {"metadata": {"labels": {"c": "d"}}})["spec"] is target["spec"]
    assert strategic.merge(POD, target, {"metadata": {"labels": {"c": "d"}}})["spec"] is target["spec"]
    assert target["metadata"] == {"labels": {"a": "b"}}


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON_PATCHES = {
    "add": ([{"op": "add", "path": "/data/b", "value": "2"}], 200, {"a": "1", "b": "2"}),
    "remove": ([{"op": "remove", "path": "/data/a"}], 200, {}),
    "test that holds": (
        [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "2"}],
        200,
        {"a": "2"},
    ),
    "test that fails": ([{"op": "test", "path": "/data/a", "value": "2"}], 422, {"a": "1"}),
    "nothing at the path": ([{"op": "remove", "path": "/data/none"}], 422, {"a": "1"}),
    "an unknown operation": ([{"op": "jump", "path": "/data/a"}], 422, {"a": "1"}),
    "no list": ({"op": "remove"}, 400, {"a": "1"}),
}


@pytest.mark.parametrize(("operations", "code", "data"), JSON_PATCHES.values(), ids=JSON_PATCHES.keys())
async def test_a_json_patch(api, operations, code, data):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"a": "1"}})
    status, _ = await api.call("PATCH", f"{CONFIG_MAPS}/a", operations, kind="application/json-patch+json")
    assert status == code
    assert (await api.get(f"{CONFIG_MAPS}/a")).get("data", {}) == data


async def test_a_json_patch_whose_test_fails_is_told_in_words_of_json(api):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"a": "1"}})
    operations = [{"op": "test", "path": "/data/a", "value": "2"}]
    _, answer = await api.call("PATCH", f"{CONFIG_MAPS}/a", operations, kind="application/json-patch+json")
    assert answer["message"].endswith("a test operation failed: the value there is another")


async def test_a_patch_with_an_old_version_conflicts(api):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    body = {"metadata": {"resourceVersion": "1"}, "data": {"a": "1"}}
    status, answer = await api.call("PATCH", f"{CONFIG_MAPS}/a", body, kind="application/merge-patch+json")
    assert (status, answer["reason"]) == (409, "Conflict")


async def test_an_unknown_patch_type_is_refused(api):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    status, answer = await api.call("PATCH", f"{CONFIG_MAPS}/a", {}, kind="text/plain")
    assert (status, answer["reason"]) == (415, "UnsupportedMediaType")


async def test_an_element_without_its_merge_key_is_refused(api):
    await api.post(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    )
    body = spec(containers=[{"image": "x"}])
    status, answer = await api.call(
        "PATCH", "/api/v1/namespaces/default/pods/p", body, kind="application/strategic-merge-patch+json"
    )
    assert status == 400
    assert "does not contain declared merge key: name" in answer["message"]
