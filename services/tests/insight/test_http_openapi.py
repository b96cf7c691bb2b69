"""The description of the HTTP API says what there is, and nothing else."""

import json
import re
from dataclasses import fields

import pytest

from kai.history.records import RECORDS
from kai.history.usage import Usage
from kai_insight.http.answers import document as answer_of
from kai_insight.http.endpoints import ENDPOINTS, OPENAPI
from kai_insight.http.live_endpoints import LIVE_ENDPOINTS
from kai_insight.http.openapi import document
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import camel
from libs.tests.history.builders import a_cycle, a_decision, a_queue_state, a_run, an_eviction

ONE_OF_EACH = (a_run(), an_eviction(), a_cycle(), a_decision(), a_queue_state())
USED = Usage(name="a", gpu_hours=1.0, cpu_hours=0.5, memory_gib_hours=0.0, pods=1)


@pytest.fixture(scope="module")
def described():
    return document()


def objects_in(node):
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects_in(inner)


def resolved(described, schema):
    """A schema without references, as validators of JSON Schema take it."""
    return {**schema, "components": described["components"]}


def test_it_is_openapi_3_1(described):
    assert described["openapi"] == "3.1.0"
    assert {"title", "version"} <= described["info"].keys()
    operations = [path["get"] for path in described["paths"].values()]
    assert all(path.keys() == {"get"} for path in described["paths"].values())
    identifiers = [each["operationId"] for each in operations]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch("[a-z][A-Za-z]+", each) for each in identifiers)
    assert described["security"] == [{name: []} for name in described["components"]["securitySchemes"]]


def test_every_schema_is_one_and_every_reference_leads_somewhere(described, jsonschema):
    for node in objects_in(described):
        if "schema" in node:
            jsonschema.Draft202012Validator.check_schema(node["schema"])
        if "$ref" in node:
            *path, name = node["$ref"].removeprefix("#/").split("/")
            assert path == ["components", "schemas"]
            assert name in described["components"]["schemas"]
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_path_and_parameter_is_described(described):
    asked = (*ENDPOINTS, *LIVE_ENDPOINTS)
    assert described["paths"].keys() == {*(each.path for each in asked), OPENAPI}
    for endpoint in asked:
        operation = described["paths"][endpoint.path]["get"]
        assert operation["summary"]
        assert operation["description"]
        told = operation["parameters"]
        assert [each["name"] for each in told] == [each.name for each in endpoint.parameters]
        assert all(each["in"] == "query" and each["description"] and each["schema"] for each in told)


def test_every_answer_that_is_none_is_described(described):
    for endpoint in ENDPOINTS:
        told = described["paths"][endpoint.path]["get"]["responses"]
        assert told.keys() == {"200", *(str(each.status) for each in Trouble)}
        assert all(each["description"] for each in told.values())
    codes = described["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert codes == [each.code for each in Trouble]


@pytest.mark.parametrize("kind", [*RECORDS, Usage])
def test_every_field_is_described(described, kind):
    schema = described["components"]["schemas"][kind.__name__]
    assert schema["description"]
    assert list(schema["properties"]) == [camel(each.name) for each in fields(kind)]
    assert all(each["description"].endswith(".") for each in schema["properties"].values())


@pytest.mark.parametrize("row", [*ONE_OF_EACH, USED, a_run(ended=1)])
def test_answers_are_as_they_are_described(described, jsonschema, row):
    (endpoint,) = (each for each in ENDPOINTS if each.row is type(row))
    answer = described["paths"][endpoint.path]["get"]["responses"]["200"]
    schema = answer["content"]["application/json"]["schema"]
    jsonschema.validate(json.loads(answer_of([row], 1, hidden=3)), resolved(described, schema))


def test_problems_are_as_they_are_described(described, jsonschema):
    schema = resolved(described, described["components"]["schemas"]["Error"])
    for trouble in Trouble:
        jsonschema.validate(json.loads(Problem(trouble, "why").body), schema)
