"""What can go wrong between us and the API server.

::

    KubeError
    ├── KubeConfigError          no usable kubeconfig or credentials
    ├── TransportError           no (whole) answer: refused, reset, TLS, DNS
    │   ├── Unintelligible       an answer that is not of the kind that was asked for
    │   └── DeadlineExceeded     no answer in time
    ├── LeadershipLost           the Lease went to somebody else, or could not be renewed
    ├── NotSent                  too much waits to be written, and this is not urgent
    ├── Unanswered               some of several that were asked did not say whether they have it
    └── ApiError                 the server said no
        ├── BadRequest           400
        ├── Unauthorized         401
        ├── Forbidden            403
        ├── NotFound             404
        │   └── ImpossibleName   no object may be called so: the server was not asked
        ├── AlreadyExists        409, reason AlreadyExists
        ├── Conflict             409, any other reason; also 422 for a patch with the uid of another object
        ├── Gone                 410
        ├── Invalid              422
        ├── TooManyRequests      429
        └── ServerError          5xx
            └── InternalError    500: at this very request, as where a webhook that has to be asked is down
"""

from __future__ import annotations

from typing import Any

import msgspec


class KubeError(Exception):
    """Base of all errors of this package."""


class KubeConfigError(KubeError):
    """There is no usable configuration or credential; the message says where it was looked for."""


class TransportError(KubeError):
    """The request got no whole answer. A write may or may not have been carried out."""


class Unintelligible(TransportError):
    """The answer is not of the kind that was asked for, as where it is that of no API server."""


class DeadlineExceeded(TransportError):
    """The request was not answered before its deadline."""


class LeadershipLost(KubeError):
    """This process leads no longer; whatever it did as the leader must stop."""


class NotSent(KubeError):
    """A status, or what tells of something, was not sent: too many of its kind wait already."""


class Status(msgspec.Struct, rename="camel"):
    """The body of a refusal (meta/v1 Status)."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


class Unanswered(KubeError):
    """Nobody who answered has what was asked for; who did not answer may have it, and is named."""


class ApiError(KubeError):
    """The API server refused. ``status`` is the HTTP code, ``reason`` the machine-readable word."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: dict[str, Any] | None = None,
        request: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.message = message
        self.status = status
        self.reason = reason
        self.details = details or {}
        self.request = request
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the server could not understand the request."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted, also after they were read anew."""


class Forbidden(ApiError):
    """403: the role does not allow this, or an admission policy forbids it."""


class NotFound(ApiError):
    """404: the object or the whole resource does not exist."""


class ImpossibleName(NotFound):
    """No object may be called so, and in a URL the name would lead to something else: nobody was asked.

    Names that people write somewhere, as in annotations, are such at times.
    """

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{what} {name!r} cannot exist, as nothing may be called so", status=404)


class AlreadyExists(ApiError):
    """409: an object of this name exists."""


class Conflict(ApiError):
    """409: the object changed since it was read, or its state forbids the operation."""


class Gone(ApiError):
    """410: the resource version is too old to watch or to continue from."""


class Invalid(ApiError):
    """422: the object breaks the schema or a rule."""


class TooManyRequests(ApiError):
    """429: the server is busy, or (evictions) a disruption budget forbids it now."""


class ServerError(ApiError):
    """5xx: the server failed."""


class InternalError(ServerError):
    """500: the server failed at this request, and may do what others ask for.

    So it answers where a webhook has to be asked, of some namespaces or kinds only, and is down.
    """


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
}
_DECODER = msgspec.json.Decoder(Status)


def api_error(status: int, body: bytes, *, request: str, retry_after: float | None = None) -> ApiError:
    """The exception for an answer with an error status; the body is a Status or any text."""
    try:
        said = _DECODER.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        said = Status(message=body[:512].decode(errors="replace").strip())
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if status == 409 and said.reason == "AlreadyExists":
        kind = AlreadyExists
    elif status == 422 and _is_of_another(said):
        kind = Conflict
    return kind(
        said.message or f"HTTP {status}",
        status=status,
        reason=said.reason,
        details=said.details,
        request=request,
        retry_after=retry_after,
    )


def is_of_terminating(namespace: str, error: ApiError) -> bool:
    """Whether something was refused since this namespace is being deleted, as it will be from now on."""
    return any(
        cause.get("reason") == "NamespaceTerminating" and namespace in str(cause.get("message", "")).split()
        for cause in error.details.get("causes") or ()
    )


def _is_of_another(said: Status) -> bool:
    """Whether a patch named the uid that its object shall have, and an object with another one is there.

    A server calls that an attempt to change the uid, where a deletion with the same precondition conflicts.
    """
    causes = (said.details or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)
