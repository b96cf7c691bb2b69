"""Request bodies and answers on the wire."""

import contextlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml
from aiohttp import web

from kai_local.apiserver.calls.apart import apart
from kai_local.apiserver.errors import (
    ApiFailure,
    NothingServed,
    Obj,
    bad_request,
    not_acceptable,
    unsupported_media,
)
from kai_local.apiserver.schemas import decode, protobuf, schema

JSON: Final = "application/json"
_JSON_TYPES: Final = frozenset({"", JSON, "*/*", "application/octet-stream"})
#: Characters of all warnings of an answer, and of one where they are too many; and how many there are, as
#: clients take no more than so many headers.
_ALL_WARNINGS, _CUT_WARNING, _MOST_WARNINGS = 4096, 256, 100
#: Characters of JSON that a document with aliases stands for: as much as may come without.
_MOST_OF_ALIASES: Final = 3 * 1024 * 1024
_FORMS: Final = frozenset({JSON, "application/yaml", protobuf.MEDIA_TYPE, "*/*", "application/*"})
_OBJECT: Final = schema.Node("object")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class _Loader(yaml.CSafeLoader):
    """YAML as JSON sees it: time stamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


@lru_cache(maxsize=256)
def check_accepted(accept: str) -> None:
    """Raises ApiFailure (406) where none of the forms in an Accept header is known.

    What is known is not always given: who accepts YAML or protobuf alone gets JSON, which the first is and
    which clients of the second read as well.
    """
    forms = {item.partition(";")[0].strip() for item in accept.split(",")}
    if accept and not forms & _FORMS:
        raise not_acceptable(sorted(form for form in _FORMS if "*" not in form))


async def read_bytes(http: web.BaseRequest) -> bytes:
    """The body. Raises ApiFailure (413) when it is larger than the server takes."""
    try:
        return await http.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiFailure(
            413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"
        ) from error


async def read_object(http: web.BaseRequest) -> Any:
    """The decoded body, JSON or YAML. Raises ApiFailure (400, 415)."""
    data = await read_bytes(http)
    media_type = http.content_type
    if media_type in _JSON_TYPES:
        return parse_json(data)
    if media_type in ("application/yaml", "application/apply-patch+yaml"):
        return await apart(len(data), parse_yaml, data)
    if media_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(data) if data else None
    raise unsupported_media(media_type, f"application/json, application/yaml, {protobuf.MEDIA_TYPE}")


def in_shape(body: Any, node: schema.Node, kind: str) -> Obj:
    """A body as an object of a built-in kind, without what the kind does not know; none is an empty one.

    Raises ApiFailure (400) where a value has the wrong type.
    """
    try:
        read: Obj = decode.decode(node, {} if body is None else body, None, None, [])
    except decode.DecodeError as error:
        raise bad_request(f"the body cannot be handled as a {kind}: {error}") from error
    return read


def metadata_of(body: Obj) -> Obj:
    """The metadata that an object was sent with; none are empty ones. Raises ApiFailure (400) for others."""
    metadata = body.get("metadata")
    try:
        read: Obj = decode.decode(_OBJECT, {} if metadata is None else metadata, None, (None, "metadata"), [])
    except decode.DecodeError as error:
        raise bad_request(str(error)) from error
    return read


def parse_json(data: bytes) -> Any:
    """Decoded JSON; None for no body. Raises ApiFailure (400)."""
    if not data:
        return None
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is not valid JSON: {error}") from error


def parse_yaml(data: bytes) -> Any:
    """Decoded YAML. JSON is YAML, and read far sooner. Raises ApiFailure (400)."""
    if data[:1] == b"{":
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return _decode(data)
    try:
        value = yaml.load(data, Loader=_Loader)  # noqa: S506 (a safe loader)
    except yaml.YAMLError as error:
        raise bad_request(f"error parsing YAML: {error}") from error
    if b"*" in data and _size(value, {}) > _MOST_OF_ALIASES:
        raise bad_request("error parsing YAML: document contains excessive aliasing")
    return value


def _size(value: Any, known: dict[int, int]) -> int:
    """About how many characters of JSON it is; what is there by many names is looked at once."""
    if not isinstance(value, dict | list):
        return 1 + len(value) if isinstance(value, str) else 1
    if id(value) not in known:
        known[id(value)] = _MOST_OF_ALIASES + 1  # for one that is a part of itself
        members = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum([_size(member, known) for member in members])
    return known[id(value)]


def answer(body: bytes | Obj, status: int = 200, warnings: list[str] | None = None) -> web.Response:
    """A JSON answer; warnings become headers that kubectl prints, the same one once."""
    raw = body if isinstance(body, bytes) else _encode(body)
    response = web.Response(body=raw, status=status, content_type=JSON)
    for warning in _few(dict.fromkeys(warnings or ())):
        text = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def _few(warnings: Iterable[str]) -> Iterator[str]:
    """The warnings; where they are long together they are cut short, and the last are left out."""
    texts = list(warnings)
    if sum(map(len, texts)) > _ALL_WARNINGS:
        texts = [text[:_CUT_WARNING] for text in texts]
    left = _ALL_WARNINGS
    for text in texts[:_MOST_WARNINGS]:
        left -= len(text)
        if left < 0:
            return
        yield text


def refusal(failure: ApiFailure) -> web.Response:
    """The failure as its Status."""
    if isinstance(failure, NothingServed):
        return web.Response(text=failure.message, status=failure.code)
    response = answer(failure.status(), failure.code)
    if failure.retry_after is not None:
        response.headers["Retry-After"] = str(failure.retry_after)
    return response
