"""CustomResourceDefinitions: served at once, and what their schemas do to objects."""

import re

import pytest

from libs.tests.local.apiserver.builders import a_refusal

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 9},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "title": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": True},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
        "tags": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 2,
            "x-kubernetes-list-type": "set",
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "replicas": {"type": "integer"},
        "either": {
            "type": "object",
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "weight": {"type": "integer", "default": 1}},
            },
        },
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is fixed"}],
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.replicas) || self.replicas <= self.size",
            "message": "no more replicas than size",
        },
        {
            "rule": "!has(self.tags) || self.tags.all(t, t != 'bad')",
            "messageExpression": "'bad tag of ' + string(self.size)",
            "reason": "FieldValueForbidden",
            "fieldPath": ".tags",
        },
    ],
}


def a_definition(spec=SPEC, *, scope="Namespaced", versions=None, **names):
    schema = {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": spec,
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": schema,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], **names},
            "versions": versions or [version],
        },
    }


def a_widget(name="w", **spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 5, **spec},
    }


async def test_a_definition_is_served_as_soon_as_it_is_stored(api):
    assert (await api.call("GET", WIDGETS))[0] == 404
    made = await api.post(CRDS, a_definition())
    assert {c["type"]: c["status"] for c in made["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert made["status"]["storedVersions"] == ["v1"]
    listed = await api.get(WIDGETS)
    assert (listed["kind"], listed["items"]) == ("WidgetList", [])
    resources = (await api.get("/apis/example.com/v1"))["resources"]
    assert {item["name"] for item in resources} == {"widgets", "widgets/status", "widgets/scale"}
    assert "example.com" in {group["name"] for group in (await api.get("/apis"))["groups"]}


async def test_deleting_a_definition_takes_its_objects_along(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget())
    async with api.watch(WIDGETS) as events:
        await api.delete(f"{CRDS}/widgets.example.com")
        assert await events.take(2) == [("ADDED", "w"), ("DELETED", "w")]
        with pytest.raises(EOFError):
            await events.next()
    await api.gone(f"{CRDS}/widgets.example.com")
    await api.gone(WIDGETS)


async def test_a_definition_that_was_forced_away_and_comes_again_loses_nothing_to_its_first_end(api):
    """Its objects outlive it where somebody takes its finalizer away while one of theirs still holds them."""
    definition, other = f"{CRDS}/widgets.example.com", "/api/v1/namespaces/default/configmaps"
    await api.post(CRDS, a_definition())
    held = a_widget("held")
    await api.post(WIDGETS, {**held, "metadata": {**held["metadata"], "finalizers": ["example.com/hold"]}})
    await api.post(WIDGETS, a_widget())
    await api.delete(definition)
    await api.gone(f"{WIDGETS}/w")
    await api.patch(definition, {"metadata": {"finalizers": None}})
    await api.gone(definition)
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget())
    for owner in ("first", "second"):
        child = await api.post(other, {"metadata": {"name": owner}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": child["metadata"]["uid"]}
        await api.post(other, {"metadata": {"name": f"{owner}-child", "ownerReferences": [reference]}})
        await api.delete(f"{other}/{owner}")
        # Work is done in turn: once this is gone all that the first deletion asked for is done.
        await api.gone(f"{other}/{owner}-child")
    assert (await api.get(f"{WIDGETS}/w"))["metadata"]["name"] == "w"


async def test_nobody_can_refuse_that_objects_go_with_their_definition(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget())
    policy, binding = a_refusal("w", resource="widgets", group="example.com")
    await api.post(f"{ADMISSION}/validatingadmissionpolicies", policy)
    await api.post(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    assert (await api.call("DELETE", f"{WIDGETS}/w"))[0] == 422
    await api.delete(f"{CRDS}/widgets.example.com")
    await api.gone(f"{CRDS}/widgets.example.com")


async def test_defaults_are_filled_and_unknown_fields_pruned(api):
    await api.post(CRDS, a_definition())
    spec = {
        "free": {"any": [1]},
        "parts": [{"id": "a", "other": 1}],
        "unknown": 1,
        "color": None,
        "maybe": None,
    }
    made = await api.post(WIDGETS, a_widget(**spec))
    assert made["spec"] == {
        "size": 5,
        "free": {"any": [1]},
        "parts": [{"id": "a", "weight": 1}],
        "color": "red",
        "maybe": None,
    }


INVALID = {
    "required": ({"size": ...}, "spec.size: Required value"),
    "type": (
        {"size": "x"},
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
    ),
    "null": (
        {"tags": [None]},
        'spec.tags[0]: Invalid value: "null": spec.tags[0] in body must be of type string: "null"',
    ),
    "null of a required field": ({"size": None}, "spec.size: Required value"),
    "minimum": (
        {"size": -1},
        "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
    ),
    "maximum": (
        {"size": 10},
        "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9",
    ),
    "exclusive minimum": (
        {"ratio": 0},
        "spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0",
    ),
    "enum": ({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"'),
    "pattern": (
        {"title": "AB"},
        "spec.title: Invalid value: \"AB\": spec.title in body should match '^[a-z]+$'",
    ),
    "min length": (
        {"title": "a"},
        'spec.title: Invalid value: "a": spec.title in body should be at least 2 chars long',
    ),
    "max length": ({"title": "abcdef"}, "spec.title: Too long: may not be more than 5 bytes"),
    "max items": ({"tags": ["a", "b", "c"]}, "spec.tags: Too many: 3: must have at most 2 items"),
    "set": ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
    "map keys": ({"parts": [{"id": "a"}, {"id": "a"}]}, 'spec.parts[1]: Duplicate value: {"id":"a"}'),
    "item": (
        {"tags": [1]},
        'spec.tags[0]: Invalid value: "integer": spec.tags[0] in body must be of type string: "integer"',
    ),
    "int or string": ({"port": 1.5}, 'spec.port in body must be of type integer,string: "number"'),
    "one of": ({"either": {"a": "x", "b": "y"}}, "must validate one and only one schema (oneOf)"),
    "map value": ({"labels": {"a": 1}}, 'spec.labels.a in body must be of type string: "integer"'),
    "rule": ({"replicas": 6}, 'spec: Invalid value: "object": no more replicas than size'),
    "rule with a message of its own": ({"tags": ["bad"]}, "spec.tags: Forbidden: bad tag of 5"),
}


@pytest.mark.parametrize(("spec", "text"), INVALID.values(), ids=INVALID.keys())
async def test_what_the_schema_forbids_is_refused_by_field(api, spec, text):
    await api.post(CRDS, a_definition())
    body = a_widget(**spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not ...}
    status, answer = await api.call("POST", WIDGETS, body)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].startswith('Widget.example.com "w" is invalid: ')
    assert text in answer["message"]


@pytest.mark.parametrize(
    "spec", [{"port": 1}, {"port": "a"}, {"either": {"a": "x"}}, {"ratio": 1}, {"replicas": 5}]
)
async def test_what_the_schema_allows_is_stored(api, spec):
    await api.post(CRDS, a_definition())
    made = await api.post(WIDGETS, a_widget(**spec))
    assert made["spec"] == {"size": 5, "color": "red", **spec}


async def test_a_null_where_none_may_be_is_as_if_nothing_were_there(api):
    await api.post(CRDS, a_definition())
    spec = {"title": None, "port": None, "parts": None, "labels": {"a": None, "b": "c"}, "color": None}
    strict = f"{WIDGETS}?fieldValidation=Strict"
    made = await api.post(strict, a_widget(**spec, free={"a": None}, maybe=None))
    expected = {"size": 5, "color": "red", "labels": {"b": "c"}, "free": {"a": None}, "maybe": None}
    assert made["spec"] == expected


async def test_a_transition_rule_holds_from_the_first_change_on(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget(fixed="a"))
    await api.patch(f"{WIDGETS}/w", {"spec": {"size": 6}})
    status, answer = await api.call(
        "PATCH", f"{WIDGETS}/w", {"spec": {"fixed": "b"}}, kind="application/merge-patch+json"
    )
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "spec.fixed")
    assert "fixed is fixed" in answer["message"]


async def test_spec_and_status_are_written_apart(api):
    await api.post(CRDS, a_definition())
    made = await api.post(WIDGETS, {**a_widget(), "status": {"replicas": 1}})
    assert "status" not in made
    status = await api.patch(f"{WIDGETS}/w/status", {"spec": {"size": 9}, "status": {"replicas": 2}})
    assert (status["spec"]["size"], status["status"], status["metadata"]["generation"]) == (
        5,
        {"replicas": 2},
        1,
    )
    spec = await api.patch(f"{WIDGETS}/w", {"spec": {"size": 9}, "status": {"replicas": 3}})
    assert (spec["spec"]["size"], spec["status"], spec["metadata"]["generation"]) == (9, {"replicas": 2}, 2)


async def test_another_kind_is_refused_whatever_its_metadata_are(api):
    await api.post(CRDS, a_definition())
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": "x"}
    status, answer = await api.call("POST", WIDGETS, body)
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "kind")


async def test_the_scale_subresource_reads_and_writes_the_declared_paths(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget(replicas=2))
    scale = await api.get(f"{WIDGETS}/w/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
    await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 4}})
    assert (await api.get(f"{WIDGETS}/w"))["spec"]["replicas"] == 4


async def test_an_updated_scale_without_replicas_asks_for_none_at_all(api):
    """Clients leave out what is 0."""
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget(replicas=2))
    scale = await api.get(f"{WIDGETS}/w/scale")
    changed = await api.put(f"{WIDGETS}/w/scale", {**scale, "spec": {}})
    assert changed["spec"] == {"replicas": 0}
    assert (await api.get(f"{WIDGETS}/w"))["spec"]["replicas"] == 0
    status, _ = await api.call("PUT", f"{WIDGETS}/w/scale", [])
    assert status == 400


MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
NO_SCALES = {
    "a number": ("PATCH", 5, MERGE),
    "a list": ("PATCH", [], MERGE),
    "nothing": ("PATCH", None, MERGE),
    "a list of another kind of patch": ("PATCH", [], STRATEGIC),
    "a spec that is a number": ("PATCH", {"spec": 3}, MERGE),
    "replicas that are true": ("PATCH", {"spec": {"replicas": True}}, MERGE),
    "a spec that becomes a list": (
        "PATCH",
        [{"op": "replace", "path": "/spec", "value": []}],
        "application/json-patch+json",
    ),
    "an update to nothing": ("PUT", None, "application/json"),
    "an update to a text": ("PUT", {"spec": "x"}, "application/json"),
    "an update to a number of text": ("PUT", {"spec": {"replicas": "4"}}, "application/json"),
    "metadata that are a text": ("PUT", {"metadata": "x", "spec": {"replicas": 4}}, "application/json"),
}


@pytest.mark.parametrize(("method", "body", "kind"), NO_SCALES.values(), ids=NO_SCALES.keys())
async def test_what_is_no_scale_scales_nothing(api, method, body, kind):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget(replicas=2))
    status, refused = await api.call(method, f"{WIDGETS}/w/scale", body, kind=kind)
    assert (status, refused["reason"]) == (400, "BadRequest")
    assert (await api.get(f"{WIDGETS}/w"))["spec"]["replicas"] == 2


async def test_an_object_is_scaled_as_far_as_its_schema_allows(api):
    spec = {"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 9}}}
    await api.post(CRDS, a_definition(spec))
    await api.post(WIDGETS, {"metadata": {"name": "w"}, "spec": {"replicas": 2}})
    codes = [
        (await api.call("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": replicas}}, kind=MERGE))[0]
        for replicas in (-1, 10, 9)
    ]
    assert codes == [422, 422, 200]
    assert (await api.get(f"{WIDGETS}/w"))["spec"]["replicas"] == 9


async def test_an_update_must_say_which_version_it_saw(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget())
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = await api.post(leases, {"metadata": {"name": "w"}})
    for path, body in ((WIDGETS, a_widget()), (leases, {"metadata": {"name": "w"}})):
        for unsaid in ({}, {"resourceVersion": "0"}):
            written = {**body, "metadata": {**body["metadata"], **unsaid}}
            status, answer = await api.call("PUT", f"{path}/w", written)
            assert status == 422
            why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            assert why in answer["message"]
    status, answer = await api.call("PUT", f"{leases}/w", lease)
    assert status == 200


async def test_several_versions_show_the_same_object(api):
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": free}}
        for name in ("v1", "v2")
    ]
    await api.post(CRDS, a_definition(versions=versions))
    await api.post(WIDGETS, a_widget())
    newer = WIDGETS.replace("/v1/", "/v2/")
    assert (await api.get(f"{newer}/w"))["apiVersion"] == "example.com/v2"
    assert (await api.get(f"{WIDGETS}/w"))["apiVersion"] == "example.com/v1"
    async with api.watch(WIDGETS) as old, api.watch(newer) as new:
        assert (await old.next())["object"]["apiVersion"] == "example.com/v1"
        assert (await new.next())["object"]["apiVersion"] == "example.com/v2"
    group = await api.get("/apis/example.com")
    assert [item["version"] for item in group["versions"]] == ["v2", "v1"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"metadata": {"name": "other.example.com"}}, "must be spec.names.plural"),
        (
            {
                "spec": {
                    **a_definition()["spec"],
                    "versions": [{"name": "v1", "served": True, "storage": False}],
                }
            },
            "exactly one version",
        ),
        (
            {
                "spec": {
                    **a_definition()["spec"],
                    "versions": [{"name": "v1", "served": True, "storage": True}],
                }
            },
            "schemas are required",
        ),
        (
            {"spec": {**a_definition()["spec"], "conversion": {"strategy": "Webhook"}}},
            "spec.conversion.strategy: Unsupported value",
        ),
    ],
)
async def test_a_definition_that_cannot_work_is_refused(api, change, text):
    status, answer = await api.call("POST", CRDS, {**a_definition(), **change})
    assert status == 422
    assert text in answer["message"]


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({}, "Required value: protected groups must have approval annotation"),
        ({"api-approved.kubernetes.io": "yes"}, "either a URL or a reason starting with"),
        ({"api-approved.kubernetes.io": "unapproved, a try"}, ""),
        ({"api-approved.kubernetes.io": "https://example.com/1"}, ""),
    ],
)
async def test_a_definition_in_a_group_of_the_community_needs_a_word_of_approval(api, annotations, text):
    body = a_definition()
    body["metadata"] = {"name": "widgets.example.k8s.io", "annotations": annotations}
    body["spec"] = {**body["spec"], "group": "example.k8s.io"}
    status, answer = await api.call("POST", CRDS, body)
    assert status == (422 if text else 201)
    assert text in answer.get("message", "")


async def test_appliers_of_a_custom_resource_share_its_lists_by_key(api):
    await api.post(CRDS, a_definition())
    for number, manager in enumerate(("one", "two")):
        body = a_widget(parts=[{"id": manager, "weight": number}])
        body["metadata"]["finalizers"] = [f"example.com/{manager}"]
        status, made = await api.apply(f"{WIDGETS}/w", body, manager)
        assert status in (200, 201)
    assert {part["id"]: part["weight"] for part in made["spec"]["parts"]} == {"one": 0, "two": 1}
    assert sorted(made["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
    _, left = await api.apply(f"{WIDGETS}/w", a_widget(), "two")
    assert left["spec"]["parts"] == [{"id": "one", "weight": 0}]
    assert left["metadata"]["finalizers"] == ["example.com/one"]


async def test_printer_columns_become_cells(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget())
    table = await api.get(WIDGETS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Born"]
    *cells, age = table["rows"][0]["cells"]
    assert (cells, bool(re.fullmatch(r"\d+s", age))) == (["w", 5], True)


async def test_strategic_merge_is_not_for_custom_resources(api):
    await api.post(CRDS, a_definition())
    await api.post(WIDGETS, a_widget())
    status, _ = await api.call("PATCH", f"{WIDGETS}/w", {}, kind="application/strategic-merge-patch+json")
    assert status == 415
