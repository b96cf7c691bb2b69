"""What the API server refuses, as values of one exception type.

``ApiFailure`` carries everything a ``Status`` body needs; the functions below build the usual ones with the
wording of the real server, because users and clients read it.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

Obj = dict[str, Any]
"""A Kubernetes object or part of one, as JSON decodes it. Stored ones are never changed in place."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an object is invalid: ``field`` is a path, ``reason`` a ``FieldValue...`` constant."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def text(self) -> str:
        """The cause as it appears in the message of the Status."""
        return f"{self.field}: {self.message}"


def required(field: str, note: str = "") -> Cause:
    """A field that must be set and is not."""
    return Cause(field, "Required value" + (f": {note}" if note else ""), "FieldValueRequired")


def invalid_value(field: str, value: Any, note: str) -> Cause:
    """A field whose value breaks a rule."""
    return Cause(field, f"Invalid value: {show(value)}: {note}")


def unsupported(field: str, value: Any, allowed: list[Any]) -> Cause:
    """A field whose value is not one of those allowed."""
    names = ", ".join(show(item) for item in allowed)
    return Cause(
        field, f"Unsupported value: {show(value)}: supported values: {names}", "FieldValueNotSupported"
    )


def show(value: Any) -> str:
    """A value as the real server quotes it in messages."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is True or value is False:
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return str(value)


class ApiFailure(Exception):
    """A request that is answered with a ``Status`` of ``Failure``."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Obj | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def status(self) -> Obj:
        """The body of the answer."""
        body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        details = dict(self.details or {})
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            body["details"] = details
        return body


def qualified(plural: str, group: str) -> str:
    """``deployments.apps``, or ``pods`` for the core group: how messages name a resource."""
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, kind: str) -> Obj:
    details: Obj = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def not_found(plural: str, group: str, name: str) -> ApiFailure:
    """No object of that name."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return ApiFailure(404, "NotFound", message, details=_details(name, group, plural))


def no_such_path() -> ApiFailure:
    """No resource is served at this path."""
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", details={})


class NothingServed(ApiFailure):
    """Not even a group of resources is there: answered in plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found\n")


def already_exists(plural: str, group: str, name: str) -> ApiFailure:
    """The name is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return ApiFailure(409, "AlreadyExists", message, details=_details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> ApiFailure:
    """The object is not what the writer believed it to be."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, details=_details(name, group, plural))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> ApiFailure:
    """The object breaks rules; one cause for each."""
    texts = list(dict.fromkeys(cause.text() for cause in causes))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(name, group, kind)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    message = f'{qualified(kind, group)} "{name}" is invalid: {text}'
    return ApiFailure(422, "Invalid", message, details=details)


def forbidden(plural: str, group: str, name: str, why: str) -> ApiFailure:
    """Not allowed to this user, or by an admission rule."""
    subject = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return ApiFailure(
        403, "Forbidden", f"{subject} is forbidden: {why}", details=_details(name, group, plural)
    )


def bad_request(message: str) -> ApiFailure:
    """The request itself makes no sense."""
    return ApiFailure(400, "BadRequest", message)


def expired(message: str) -> ApiFailure:
    """The resourceVersion or continue token is too old."""
    return ApiFailure(410, "Expired", message)


def method_not_allowed(verb: str, plural: str, group: str) -> ApiFailure:
    """The resource has no such verb."""
    message = f'{verb} is not supported on resources of kind "{qualified(plural, group)}"'
    return ApiFailure(405, "MethodNotAllowed", message)


def unsupported_media(media_type: str, allowed: str) -> ApiFailure:
    """The body is of a type that this endpoint does not read."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{allowed} (got {media_type!r})"
    )
    return ApiFailure(415, "UnsupportedMediaType", message)


def not_acceptable(forms: list[str]) -> ApiFailure:
    """The client reads none of the forms in which the answer is given."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(forms)}"
    return ApiFailure(406, "NotAcceptable", message)


def unauthorized() -> ApiFailure:
    """Nobody we know."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")
