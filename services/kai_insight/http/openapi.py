"""The description of all this for programs (OpenAPI 3.1), made of the table that makes the routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_type_hints

import msgspec

from kai.history.questions import MOST_ROWS
from kai.history.records import meaning_of
from kai.kube.resources import POD_GROUPS, QUEUES
from kai.model import release
from kai_insight.http.access import resource_name
from kai_insight.http.endpoints import (
    ENDPOINTS,
    LONGEST_NAMESPACE,
    LONGEST_TEXT,
    NAMESPACE_PATTERN,
    OPENAPI,
    Endpoint,
    Form,
    Parameter,
)
from kai_insight.http.live_endpoints import LIVE_ENDPOINTS, LiveEndpoint
from kai_insight.http.problems import Trouble
from kai_insight.http.spelling import camel, fields_of

Json = dict[str, Any]

_TYPES: Final[dict[Any, Json]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    float | None: {"type": ["number", "null"]},
}
_JSON: Final = "application/json"
_COMPONENT: Final = "#/components/schemas/{name}"
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_MORE: Final = "Whether there are more than these."
_HIDDEN: Final = (
    "Rows of that time, whatever else was asked, in namespaces whose pod groups you may not list. They are "
    "left out."
)


def document() -> Json:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The scheduler: its history, and its cluster as it is",
            "version": release.version(),
            "description": "Who ran where, what was decided and why, and what queues held, as insight "
            "recorded it. Times are Unix seconds. The newest come first.",
        },
        "security": [{"token": []}],
        "paths": {
            **{each.path: {"get": _question(each)} for each in ENDPOINTS},
            **{each.path: {"get": _live(each)} for each in LIVE_ENDPOINTS},
            OPENAPI: {"get": _itself()},
        },
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token that the cluster's API server knows, as of a service account.",
                }
            },
            "schemas": {
                **{each.row.__name__: _row(each.row) for each in ENDPOINTS},
                **_told(),
                "Error": _error(),
            },
        },
    }


def _question(endpoint: Endpoint) -> Json:
    return {
        "operationId": camel(f"list_{endpoint.name}".replace("-", "_")),
        "summary": endpoint.summary,
        "description": _rights(endpoint),
        "parameters": [_parameter(each) for each in endpoint.parameters],
        "responses": {"200": _rows(endpoint), **_problems(Trouble)},
    }


def _live(endpoint: LiveEndpoint) -> Json:
    """A question about the cluster as it is now."""
    kind = "text/event-stream" if endpoint.streams else _JSON
    schema = {"$ref": _COMPONENT.format(name=endpoint.told.__name__)}
    answer = {"description": "What was found.", "content": {kind: {"schema": schema}}}
    return {
        "operationId": camel(f"look_at_{endpoint.name}".replace("-", "_").replace("/", "_")),
        "summary": endpoint.summary,
        "description": _live_rights(endpoint),
        "parameters": [_parameter(each) for each in endpoint.parameters],
        "responses": {"200": answer, **_problems(Trouble)},
    }


def _live_rights(endpoint: LiveEndpoint) -> str:
    listed = " and ".join(map(resource_name, endpoint.rights))
    said = f"For those who may list {listed} in the whole cluster." if listed else "For whoever has a token."
    if not endpoint.of_namespaces:
        return said
    groups = resource_name(POD_GROUPS)
    return f"{said} Pods and pod groups of namespaces in which you may list {groups}; the others are counted."


def _told() -> Json:
    """Schemas of answers about the cluster as it is, and of what they are made of."""
    kinds = list(dict.fromkeys(each.told for each in LIVE_ENDPOINTS))
    return msgspec.json.schema_components(kinds, ref_template=_COMPONENT)[1]


def _itself() -> Json:
    troubles = [each for each in Trouble if each not in (Trouble.TOO_MANY_NAMESPACES, Trouble.STORE_AWAY)]
    answer = {"description": "OpenAPI 3.1.", "content": {_JSON: {"schema": {"type": "object"}}}}
    return {
        "operationId": "describe",
        "summary": "This description.",
        "description": "For whoever has a token that the API server knows.",
        "parameters": [],
        "responses": {"200": answer, **_problems(troubles)},
    }


def _rights(endpoint: Endpoint) -> str:
    queues, groups = resource_name(QUEUES), resource_name(POD_GROUPS)
    in_sight = f"Rows of the namespaces in which you may list {groups}; the others are counted."
    if endpoint.adds_up:
        return f"By queue for those who may list {queues} in the whole cluster. Otherwise: {in_sight}"
    return in_sight if endpoint.of_namespaces else f"For those who may list {queues} in the whole cluster."


def _parameter(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": _written(parameter),
    }


def _written(parameter: Parameter) -> Json:
    match parameter.form:
        case Form.ROWS:
            bounds = {"minimum": 1, "maximum": parameter.most, "default": parameter.usual}
            return {"type": "integer", **bounds}
        case Form.TIME:
            return {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "format": "date-time"}]}
        case Form.CHOICE:
            return {"type": "string", "enum": list(parameter.choices), "default": parameter.choices[0]}
        case Form.KEYS:
            return {"type": "string", "pattern": "^[0-9]{1,9}(,[0-9]{1,9})*$"}
        case Form.TEXT if parameter.name == "namespace":
            return {"type": "string", "pattern": f"^{NAMESPACE_PATTERN}$", "maxLength": LONGEST_NAMESPACE}
        case Form.TEXT:
            return {"type": "string", "maxLength": LONGEST_TEXT}


def _rows(endpoint: Endpoint) -> Json:
    properties: Json = {
        "items": {
            "description": "The rows.",
            "type": "array",
            "maxItems": MOST_ROWS,
            "items": {"$ref": f"#/components/schemas/{endpoint.row.__name__}"},
        },
        "more": {"description": _MORE, "type": "boolean"},
        "hidden": {"description": _HIDDEN, "type": "integer", "minimum": 0},
    }
    return {"description": "What was found.", "content": {_JSON: {"schema": _object(properties)}}}


def _row(kind: type[Any]) -> Json:
    types = get_type_hints(kind)
    properties = {
        camel(each.name): {**_TYPES[types[each.name]], "description": meaning_of(each)}
        for each in fields_of(kind)
    }
    return {"description": (kind.__doc__ or "").partition("\n")[0], **_object(properties)}


def _error() -> Json:
    error = {
        "code": {
            "description": "What it is, for programs.",
            "type": "string",
            "enum": [each.code for each in Trouble],
        },
        "message": {"description": "What it is and what to do, for people.", "type": "string"},
    }
    outer = {"error": {"description": "Why there is no answer.", **_object(error)}}
    return {"description": "An answer that is none.", **_object(outer)}


def _problems(troubles: Iterable[Trouble]) -> Json:
    found: dict[str, list[str]] = {}
    for each in troubles:
        found.setdefault(str(each.status), []).append(f"`{each.code}`: {each.meaning}")
    return {
        status: {"description": " ".join(said), "content": {_JSON: {"schema": _ERROR}}}
        for status, said in found.items()
    }


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }
