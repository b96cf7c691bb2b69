"""Creating, reading, changing and deleting single objects."""

import time

import pytest

from kai_local.apiserver.clock import Clock
from kai_local.apiserver.kinds.events import LIFETIME, forget_before

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def a_config_map(name="a", **metadata):
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


async def test_a_new_object_gets_what_only_the_server_can_give(api):
    made = await api.post(CONFIG_MAPS, a_config_map())
    metadata = made["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == "default"
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert await api.get(f"{CONFIG_MAPS}/a") == made


async def test_generate_name_gives_each_object_a_name_of_its_own(api):
    names = {
        (await api.post(CONFIG_MAPS, {"metadata": {"generateName": "x-"}}))["metadata"]["name"]
        for _ in range(20)
    }
    assert len(names) == 20
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


async def test_every_write_raises_the_one_resource_version(api):
    first = await api.post(CONFIG_MAPS, a_config_map("a"))
    second = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    third = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"key": "other"}})
    versions = [int(item["metadata"]["resourceVersion"]) for item in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_a_write_that_changes_nothing_keeps_the_version(api):
    made = await api.post(CONFIG_MAPS, a_config_map())
    assert await api.patch(f"{CONFIG_MAPS}/a", {"data": {"key": "value"}}) == made
    assert await api.put(f"{CONFIG_MAPS}/a", made) == made


REFUSED = {
    "a name that is taken": (
        "POST",
        CONFIG_MAPS,
        a_config_map("taken"),
        409,
        "AlreadyExists",
        "already exists",
    ),
    "a namespace that is not there": (
        "POST",
        "/api/v1/namespaces/nowhere/configmaps",
        a_config_map("x"),
        404,
        "NotFound",
        'namespaces "nowhere" not found',
    ),
    "a namespace other than the one in the path": (
        "POST",
        CONFIG_MAPS,
        a_config_map("x", namespace="kube-system"),
        400,
        "BadRequest",
        "does not match the namespace",
    ),
    "a name that is no DNS name": (
        "POST",
        CONFIG_MAPS,
        a_config_map("No_Good"),
        422,
        "Invalid",
        "metadata.name: Invalid value",
    ),
    "no name at all": (
        "POST",
        CONFIG_MAPS,
        {"metadata": {}},
        422,
        "Invalid",
        "name or generateName is required",
    ),
    "a label that breaks the rules": (
        "POST",
        CONFIG_MAPS,
        a_config_map("x", labels={"a": "b c"}),
        422,
        "Invalid",
        "a valid label must be",
    ),
    "data that is not encoded": (
        "POST",
        "/api/v1/namespaces/default/secrets",
        {"metadata": {"name": "s"}, "data": {"k": "hunter2"}},
        400,
        "BadRequest",
        "illegal base64 data (data.k)",
    ),
    "another kind": (
        "POST",
        CONFIG_MAPS,
        {"kind": "Secret", "apiVersion": "v1"},
        400,
        "BadRequest",
        "cannot be handled as",
    ),
    "a wrong type": (
        "POST",
        CONFIG_MAPS,
        {"metadata": {"name": "x"}, "data": []},
        400,
        "BadRequest",
        "cannot unmarshal array",
    ),
    "broken JSON": ("POST", CONFIG_MAPS, b"{", 400, "BadRequest", "not valid JSON"),
    "a version that is not the latest": (
        "PUT",
        f"{CONFIG_MAPS}/taken",
        a_config_map("taken", resourceVersion="1"),
        409,
        "Conflict",
        "the object has been modified",
    ),
    "a new object whose metadata are none": (
        "POST",
        CONFIG_MAPS,
        {"metadata": []},
        400,
        "BadRequest",
        "cannot unmarshal array into Go struct field metadata of type object",
    ),
    "an update whose metadata are none": (
        "PUT",
        f"{CONFIG_MAPS}/taken",
        {"metadata": "x"},
        400,
        "BadRequest",
        "cannot unmarshal string into Go struct field metadata of type object",
    ),
    "an update whose metadata are an empty text": (
        "PUT",
        f"{CONFIG_MAPS}/taken",
        {"metadata": ""},
        400,
        "BadRequest",
        "cannot unmarshal string into Go struct field metadata of type object",
    ),
    "another uid": (
        "PUT",
        f"{CONFIG_MAPS}/taken",
        a_config_map("taken", uid="other"),
        409,
        "Conflict",
        "Precondition failed: UID",
    ),
    "another name than in the path": (
        "PUT",
        f"{CONFIG_MAPS}/taken",
        a_config_map("b"),
        400,
        "BadRequest",
        "does not match the name",
    ),
    "an update of nothing": (
        "PUT",
        f"{CONFIG_MAPS}/none",
        a_config_map("none"),
        404,
        "NotFound",
        "not found",
    ),
    "an unknown resource": (
        "GET",
        "/api/v1/namespaces/default/nothings",
        None,
        404,
        "NotFound",
        "could not find the requested",
    ),
    "an unknown kind": (
        "GET",
        "/apis/apps/v1/things",
        None,
        404,
        "NotFound",
        "could not find the requested",
    ),
    "a verb that is not served": (
        "POST",
        f"{CONFIG_MAPS}/taken",
        {},
        405,
        "MethodNotAllowed",
        "not supported",
    ),
    "a delete of a newer object": (
        "DELETE",
        f"{CONFIG_MAPS}/taken",
        {"preconditions": {"uid": "other"}},
        409,
        "Conflict",
        "does not match the UID in record",
    ),
    "a deletion of an unknown kind": (
        "DELETE",
        f"{CONFIG_MAPS}/taken?propagationPolicy=Sideways",
        None,
        422,
        "Invalid",
        "propagationPolicy: Unsupported value",
    ),
    "a delete only to see, said in the wrong shape": (
        "DELETE",
        f"{CONFIG_MAPS}/taken",
        {"dryRun": "All"},
        400,
        "BadRequest",
        "json: cannot unmarshal string into Go struct field dryRun of type slice",
    ),
    "a delete that is dry in another way": (
        "DELETE",
        f"{CONFIG_MAPS}/taken",
        {"dryRun": ["Some"]},
        422,
        "Invalid",
        'dryRun: Unsupported value: "Some": supported values: "All"',
    ),
    "a delete whose time is no number": (
        "DELETE",
        f"{CONFIG_MAPS}/taken?gracePeriodSeconds=soon",
        None,
        400,
        "BadRequest",
        "invalid value for gracePeriodSeconds: 'soon' is not a number",
    ),
    "a delete with a precondition in the wrong shape": (
        "DELETE",
        f"{CONFIG_MAPS}/taken",
        {"preconditions": "other"},
        400,
        "BadRequest",
        "struct field preconditions of type object",
    ),
    "a delete that says twice what becomes of dependents": (
        "DELETE",
        f"{CONFIG_MAPS}/taken",
        {"orphanDependents": True, "propagationPolicy": "Foreground"},
        422,
        "Invalid",
        "cannot be both set",
    ),
    "a token whose time is no number": (
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        {"spec": {"expirationSeconds": "long"}},
        400,
        "BadRequest",
        "struct field spec.expirationSeconds of type int64",
    ),
    "finalizers that are no list": (
        "PUT",
        "/api/v1/namespaces/default/finalize",
        {"spec": {"finalizers": "none"}},
        400,
        "BadRequest",
        "struct field spec.finalizers of type slice",
    ),
    "a key that cannot be a file": (
        "POST",
        CONFIG_MAPS,
        {"metadata": {"name": "a"}, "data": {"bad key": "1"}},
        422,
        "Invalid",
        "data[bad key]",
    ),
    "a time that is none": (
        "POST",
        LEASES,
        {"metadata": {"name": "a"}, "spec": {"renewTime": "yesterday"}},
        400,
        "BadRequest",
        "parsing time",
    ),
    "an owner without a uid": (
        "POST",
        CONFIG_MAPS,
        a_config_map(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p"}]),
        422,
        "Invalid",
        "metadata.ownerReferences.uid",
    ),
    "two owners that control": (
        "POST",
        CONFIG_MAPS,
        a_config_map(
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                for name in "ab"
            ]
        ),
        422,
        "Invalid",
        "metadata.ownerReferences",
    ),
    "a lease that lasts no time": (
        "POST",
        LEASES,
        {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}},
        422,
        "Invalid",
        "spec.leaseDurationSeconds",
    ),
}


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason", "text"), REFUSED.values(), ids=REFUSED.keys()
)
async def test_what_is_refused_says_why(api, method, path, body, code, reason, text):
    await api.post(CONFIG_MAPS, a_config_map("taken"))
    status, answer = await api.call(method, path, body)
    assert (status, answer["kind"], answer["status"], answer["code"]) == (code, "Status", "Failure", code)
    assert answer["reason"] == reason
    assert text in answer["message"]
    await api.get(f"{CONFIG_MAPS}/taken")


@pytest.mark.parametrize("path", ["/nowhere", "/apis/no.such", "/apis/no.such/v1", "/apis/no.such/v1/things"])
async def test_where_no_group_is_the_answer_is_plain_text(api, path):
    assert await api.call("GET", path) == (404, "404 page not found\n")


async def test_a_body_that_is_too_large_is_refused(api):
    status, answer = await api.call(
        "POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y" * 4_000_000}}
    )
    assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_an_invalid_object_is_told_all_causes_by_field(api):
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "A"}], "restartPolicy": "Sometimes"}}
    _, answer = await api.call("POST", "/api/v1/namespaces/default/pods", body)
    fields = {(cause["field"], cause["reason"]) for cause in answer["details"]["causes"]}
    assert fields == {
        ("spec.containers[0].name", "FieldValueInvalid"),
        ("spec.containers[0].image", "FieldValueRequired"),
        ("spec.restartPolicy", "FieldValueNotSupported"),
    }


@pytest.mark.parametrize(("strictness", "code"), [("Strict", 400), ("Warn", 201), ("Ignore", 201), ("", 201)])
async def test_unknown_fields_are_dropped_warned_of_or_refused(api, strictness, code):
    status, answer = await api.call(
        "POST", f"{CONFIG_MAPS}?fieldValidation={strictness}", {"metadata": {"name": "a"}, "dta": {}}
    )
    assert status == code
    if code == 400:
        assert 'strict decoding error: unknown field "dta"' in answer["message"]
    else:
        assert "dta" not in answer


async def test_warnings_travel_in_headers(api):
    headers = {"Authorization": f"Bearer {api.server.admin_token}"}
    body = {"metadata": {"name": "a"}, "dta": {}}
    async with api.session.post(api.server.url + CONFIG_MAPS, json=body, headers=headers) as answer:
        assert answer.headers["Warning"] == '299 - "unknown field \\"dta\\""'


@pytest.mark.parametrize("kind", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
async def test_a_patch_with_unknown_fields_is_warned_of_too(api, kind):
    await api.post(CONFIG_MAPS, a_config_map())
    headers = {"Authorization": f"Bearer {api.server.admin_token}", "Content-Type": kind}
    for _ in range(2):  # the second time nothing is changed
        async with api.session.patch(
            f"{api.server.url}{CONFIG_MAPS}/a", data=b'{"dta": {}, "data": {"key": "other"}}', headers=headers
        ) as answer:
            assert answer.headers.getall("Warning") == ['299 - "unknown field \\"dta\\""']
    assert (await api.get(f"{CONFIG_MAPS}/a"))["data"] == {"key": "other"}
    strict = f"{CONFIG_MAPS}/a?fieldValidation=Strict"
    status, refused = await api.call("PATCH", strict, {"dta": {}}, kind=kind)
    assert (status, 'unknown field "dta"' in refused["message"]) == (400, True)


async def test_a_dry_run_answers_as_if_and_stores_nothing(api):
    made = await api.post(f"{CONFIG_MAPS}?dryRun=All", a_config_map())
    assert made["metadata"]["uid"]
    assert (await api.call("GET", f"{CONFIG_MAPS}/a"))[0] == 404
    await api.post(CONFIG_MAPS, a_config_map())
    changed = await api.patch(f"{CONFIG_MAPS}/a?dryRun=All", {"data": {"key": "other"}})
    assert changed["data"] == {"key": "other"}
    await api.delete(f"{CONFIG_MAPS}/a", {"dryRun": ["All"]})
    assert (await api.get(f"{CONFIG_MAPS}/a"))["data"] == {"key": "value"}


async def test_a_patch_cannot_give_an_object_another_uid(api):
    await api.post(CONFIG_MAPS, a_config_map("taken"))
    status, answer = await api.call(
        "PATCH", f"{CONFIG_MAPS}/taken", {"metadata": {"uid": "other"}}, kind="application/merge-patch+json"
    )
    assert (status, answer["reason"], answer["details"]["causes"][0]["field"]) == (
        422,
        "Invalid",
        "metadata.uid",
    )


async def test_an_object_that_is_being_deleted_may_lose_finalizers_and_gain_none(api):
    await api.post(CONFIG_MAPS, a_config_map("held", finalizers=["example.com/a", "example.com/b"]))
    await api.delete(f"{CONFIG_MAPS}/held")

    async def holding(*names):
        change = {"metadata": {"finalizers": [f"example.com/{name}" for name in names]}}
        return (await api.call("PATCH", f"{CONFIG_MAPS}/held", change, kind="application/merge-patch+json"))[
            0
        ]

    assert [await holding("a", "b", "c"), await holding("a")] == [422, 200]


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_what_is_immutable_keeps_its_data_and_stays_so(api, plural):
    path = f"/api/v1/namespaces/default/{plural}"
    await api.post(path, {"metadata": {"name": "fixed"}, "data": {"a": "MQ=="}, "immutable": True})

    async def fields(change):
        status, answer = await api.call("PATCH", f"{path}/fixed", change, kind="application/merge-patch+json")
        return status, [cause["field"] for cause in answer.get("details", {}).get("causes", ())]

    assert await fields({"data": {"a": "Mg=="}}) == (422, ["data"])
    assert await fields({"immutable": False}) == (422, ["immutable"])
    assert await fields({"metadata": {"labels": {"a": "b"}}}) == (200, [])


_ON_DISRUPTION = {
    "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
}


@pytest.mark.parametrize(
    ("plural", "body", "path"),
    [
        ("jobs", {"spec": _ON_DISRUPTION}, ("spec",)),
        (
            "cronjobs",
            {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": _ON_DISRUPTION}}},
            ("spec", "jobTemplate", "spec"),
        ),
    ],
)
async def test_a_job_that_asks_for_a_condition_of_its_pods_asks_for_one_that_is_true(api, plural, body, path):
    found = await api.post(f"/apis/batch/v1/namespaces/default/{plural}", {"metadata": {"name": "x"}, **body})
    for key in path:
        found = found[key]
    assert found["podFailurePolicy"]["rules"][0]["onPodConditions"] == [
        {"type": "DisruptionTarget", "status": "True"}
    ]


_SLICE = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}
_INDEXED = {
    "spec": {
        "completions": 2,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    }
}

_COUNTED = {"spec": {"completions": 2, "template": _INDEXED["spec"]["template"]}}


def _a_claim(size):
    requests = {"storage": size}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}}
    return {"metadata": {"name": "data"}, "spec": spec}


_STATEFUL = {
    "spec": {
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
        "volumeClaimTemplates": [_a_claim("1Gi")],
    }
}


@pytest.mark.parametrize(
    ("path", "body", "change", "field"),
    [
        ("/apis/discovery.k8s.io/v1", _SLICE, {"addressType": "IPv6"}, "addressType"),
        ("/apis/batch/v1", _INDEXED, {"spec": {"backoffLimitPerIndex": 2}}, "spec.backoffLimitPerIndex"),
        ("/apis/batch/v1", _INDEXED, {"spec": {"completions": 3}}, "spec.completions"),
        ("/apis/batch/v1", _INDEXED, {"spec": {"completions": None}}, "spec.completions"),
        ("/apis/batch/v1", _COUNTED, {"spec": {"completions": 3}}, "spec.completions"),
        ("/apis/batch/v1", _COUNTED, {"spec": {"completions": 3, "parallelism": 3}}, "spec.completions"),
        ("/apis/apps/v1", _STATEFUL, {"spec": {"volumeClaimTemplates": [_a_claim("9Gi")]}}, "spec"),
        ("/apis/apps/v1", _STATEFUL, {"spec": {"serviceName": "other"}}, "spec"),
        (
            "/apis/batch/v1",
            _INDEXED,
            {"spec": {"successPolicy": {"rules": [{"succeededCount": 1}]}}},
            "spec.successPolicy",
        ),
        (
            "/apis/batch/v1",
            _INDEXED,
            {
                "spec": {
                    "podFailurePolicy": {
                        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
                    }
                }
            },
            "spec.podFailurePolicy",
        ),
    ],
)
async def test_what_may_not_change_stays_as_it_was_made(api, path, body, change, field):
    plural = {"discovery.k8s.io": "endpointslices", "batch": "jobs", "apps": "statefulsets"}[
        path.split("/")[2]
    ]
    where = f"{path}/namespaces/default/{plural}"
    await api.post(where, {"metadata": {"name": "x"}, **body})
    status, answer = await api.call("PATCH", f"{where}/x", change, kind="application/merge-patch+json")
    assert (status, [cause["field"] for cause in answer["details"]["causes"]]) == (422, [field])


async def test_an_indexed_job_may_have_more_indexes_where_all_run_at_once(api):
    path = "/apis/batch/v1/namespaces/default/jobs"
    await api.post(path, {"metadata": {"name": "x"}, **_INDEXED})
    elastic = await api.patch(f"{path}/x", {"spec": {"completions": 3, "parallelism": 3}})
    assert (elastic["spec"]["completions"], elastic["metadata"]["generation"]) == (3, 2)


async def test_of_a_stateful_set_may_change_what_the_real_server_lets_change(api):
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    await api.post(path, {"metadata": {"name": "x"}, **_STATEFUL})
    made = await api.get(f"{path}/x")
    assert (await api.put(f"{path}/x", {"metadata": {"name": "x"}, **_STATEFUL}))["spec"] == made["spec"]
    change = {"replicas": 3, "minReadySeconds": 1, "revisionHistoryLimit": 2, "ordinals": {"start": 1}}
    assert (await api.patch(f"{path}/x", {"spec": change}))["spec"] == {**made["spec"], **change}


async def test_generation_counts_changes_of_the_spec_only(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await api.post(path, {"metadata": {"name": "d"}, "spec": spec})
    changes = (
        {"metadata": {"labels": {"x": "y"}}},
        {"spec": {"replicas": 3}},
        {"status": {"replicas": 3}},
    )
    generations = [(await api.patch(f"{path}/d", change))["metadata"]["generation"] for change in changes]
    status = await api.patch(f"{path}/d/status", {"status": {"replicas": 2}, "spec": {"replicas": 9}})
    assert generations == [1, 2, 2]
    assert (status["metadata"]["generation"], status["status"]["replicas"], status["spec"]["replicas"]) == (
        2,
        2,
        3,
    )


async def test_finalizers_hold_an_object_until_the_last_is_gone(api):
    await api.post(CONFIG_MAPS, a_config_map(finalizers=["example.com/a", "example.com/b"]))
    going = await api.delete(f"{CONFIG_MAPS}/a")
    assert going["metadata"]["deletionTimestamp"]
    left = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["example.com/b"]}})
    assert left["metadata"]["deletionTimestamp"]
    await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    assert (await api.call("GET", f"{CONFIG_MAPS}/a"))[0] == 404


async def test_quantities_are_stored_in_their_canonical_form(api):
    limits = {"cpu": 0.5, "memory": "1024Mi", "nvidia.com/gpu": 1}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    pod = await api.post(
        "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    )
    resources = pod["spec"]["containers"][0]["resources"]
    assert (
        resources["limits"]
        == resources["requests"]
        == {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    )


async def test_delete_collection_takes_what_the_selector_names(api):
    for name in ("a", "b", "c"):
        await api.post(CONFIG_MAPS, a_config_map(name, labels={"keep": str(name == "b").lower()}))
    await api.delete(f"{CONFIG_MAPS}?labelSelector=keep%3Dfalse")
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS))["items"]] == ["b"]


async def test_events_are_forgotten_an_hour_after_they_were_told_last(start):
    now = [time.time()]
    api = await start(clock=Clock(lambda: now[0]))
    path = "/api/v1/namespaces/default/events"
    event = {"involvedObject": {"name": "p", "namespace": "default"}, "reason": "Scheduled"}
    await api.post(path, event | {"metadata": {"name": "once"}})
    await api.post(path, event | {"metadata": {"name": "again"}})
    now[0] += LIFETIME / 2
    await api.patch(f"{path}/again", {"lastTimestamp": api.server.clock.stamp(), "count": 2})
    for passed, left in ((LIFETIME / 2 - 10, {"once", "again"}), (20, {"again"}), (LIFETIME / 2, set())):
        now[0] += passed
        forget_before(api.server.store, now[0] - LIFETIME)
        assert {item["metadata"]["name"] for item in (await api.get(path))["items"]} == left


async def test_both_event_apis_show_the_same_events(api):
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Scheduled",
        "note": "text",
        "type": "Normal",
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "Binding",
    }
    await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    core = await api.get("/api/v1/namespaces/default/events/e")
    assert (core["involvedObject"]["name"], core["message"], core["reportingComponent"]) == ("p", "text", "c")
    found = await api.get(
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp,reason%3DScheduled"
    )
    assert len(found["items"]) == 1
    assert (await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e"))["note"] == "text"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1}, []),
        ({"completionMode": "Indexed", "backoffLimitPerIndex": -1}, ["spec.backoffLimitPerIndex"]),
        ({"completionMode": "Indexed", "maxFailedIndexes": 1}, ["spec.backoffLimitPerIndex"]),
        ({"backoffLimitPerIndex": 1}, ["spec.backoffLimitPerIndex"]),
    ],
)
async def test_failures_of_each_index_are_limited_where_there_are_indexes(api, spec, fields):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "j"}, "spec": {"completions": 2, "template": template, **spec}}
    _, answer = await api.call("POST", "/apis/batch/v1/namespaces/default/jobs", body)
    assert [cause["field"] for cause in answer.get("details", {}).get("causes", ())] == fields
    assert fields or answer["spec"]["backoffLimit"] == 2**31 - 1


async def test_a_null_in_a_map_or_a_list_of_strings_is_the_empty_string(api):
    container = {
        "name": "c",
        "image": "i",
        "args": ["a", None],
        "resources": {"limits": {"example.com/x": None}},
    }
    body = {
        "metadata": {"name": "p", "labels": {"a": None}},
        "spec": {"nodeSelector": {"pool/gpu": None}, "hostname": None, "containers": [container]},
    }
    made = await api.post("/api/v1/namespaces/default/pods?fieldValidation=Strict", body)
    assert made["metadata"]["labels"] == {"a": ""}
    assert made["spec"]["nodeSelector"] == {"pool/gpu": ""}
    assert "hostname" not in made["spec"]
    assert made["spec"]["containers"][0]["args"] == ["a", ""]
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"example.com/x": "0"}


async def test_what_was_told_of_devices_goes_when_a_claim_gives_them_back(api):
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await api.post(path, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    first, second = ({"driver": "d", "pool": "p", "device": each} for each in ("a", "b"))
    results = [{"request": "r", **each} for each in (first, second)]
    allocation = {"devices": {"results": results}}
    await api.patch(f"{path}/c/status", {"status": {"allocation": allocation, "devices": [first, second]}})

    fewer = {"devices": {"results": results[:1]}}
    kept = await api.patch(f"{path}/c/status", {"status": {"allocation": fewer}})
    assert kept["status"]["devices"] == [first]
    bare = await api.patch(f"{path}/c/status", {"status": {"allocation": None}})
    assert bare["status"] == {}


async def test_a_service_that_is_replaced_keeps_what_it_was_given(api):
    path = "/api/v1/namespaces/default/services"
    ports = [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    given = [{**port, "nodePort": 30000 + port["port"]} for port in ports]
    made = await api.post(path, {**body, "spec": {**body["spec"], "ports": given}})

    async def replaced(**spec):
        spec = (await api.put(f"{path}/s", {**body, "spec": {**body["spec"], **spec}}))["spec"]
        address = (spec.get("clusterIP"), spec.get("clusterIPs"))
        return address, [port.get("nodePort") for port in spec["ports"]]

    address = made["spec"]["clusterIP"]
    kept = (address, [address])
    assert await replaced() == (kept, [30080, 30081])
    assert await replaced(clusterIP="", ports=ports[::-1]) == (kept, [30081, 30080])
    swapped = [ports[0], {**ports[1], "nodePort": 30080}]
    assert await replaced(ports=swapped) == (kept, [None, 30080])
    assert await replaced(type="ClusterIP") == (kept, [None, None])
    outside = {"type": "ExternalName", "externalName": "example.com"}
    assert await replaced(**outside) == ((None, None), [None, None])


_NO_PERCENT = "a valid percent string must be a numeric string followed by an ending '%'"
_APPS = "/apis/apps/v1/namespaces/default"


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"minAvailable": "all"}, "spec.minAvailable", f'Invalid value: "all": {_NO_PERCENT}'),
        ({"minAvailable": "2"}, "spec.minAvailable", _NO_PERCENT),
        ({"maxUnavailable": "-5%"}, "spec.maxUnavailable", _NO_PERCENT),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable", "must not be greater than 100%"),
        ({"maxUnavailable": -1}, "spec.maxUnavailable", "must be greater than or equal to 0"),
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            "spec",
            "minAvailable and maxUnavailable cannot be both set",
        ),
    ],
)
async def test_a_budget_that_cannot_be_kept_is_refused(api, spec, field, said):
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec}}
    status, answer = await api.call("POST", path, body)
    [cause] = answer["details"]["causes"]
    assert (status, cause["field"]) == (422, field)
    assert said in cause["message"]


@pytest.mark.parametrize("spec", [{"minAvailable": "100%"}, {"maxUnavailable": "007%"}, {"minAvailable": 0}])
async def test_a_budget_is_of_pods_or_of_a_share_of_them(api, spec):
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    made = await api.post(path, {"metadata": {"name": "b"}, "spec": {"selector": {}, **spec}})
    assert made["spec"] == {"selector": {}, **spec}


@pytest.mark.parametrize(
    ("plural", "strategy", "rolling", "wrong"),
    [
        ("deployments", "strategy", {"maxSurge": "half"}, ["maxSurge"]),
        ("deployments", "strategy", {"maxUnavailable": "200%"}, ["maxUnavailable"]),
        ("deployments", "strategy", {"maxSurge": "200%", "maxUnavailable": 0}, []),
        ("daemonsets", "updateStrategy", {"maxUnavailable": "some"}, ["maxUnavailable"]),
        ("statefulsets", "updateStrategy", {"maxUnavailable": -1}, ["maxUnavailable"]),
    ],
)
async def test_a_rollout_goes_by_pods_or_by_a_share_of_them(api, plural, strategy, rolling, wrong):
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template, strategy: {"rollingUpdate": rolling}}
    status, answer = await api.call("POST", f"{_APPS}/{plural}", {"metadata": {"name": "w"}, "spec": spec})
    fields = [cause["field"] for cause in answer.get("details", {}).get("causes", ())]
    assert fields == [f"spec.{strategy}.rollingUpdate.{key}" for key in wrong]
    assert status == (422 if wrong else 201)


async def test_true_is_neither_a_number_nor_a_text(api):
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    status, answer = await api.call("POST", path, {"metadata": {"name": "b"}, "spec": {"minAvailable": True}})
    assert (status, answer["reason"]) == (400, "BadRequest")
