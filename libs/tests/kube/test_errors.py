"""Which exception an answer becomes."""

import json

import pytest

from kai.kube import errors


def status(code, reason, **details) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}
    ).encode()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequest),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.InternalError),
        (503, "ServiceUnavailable", errors.ServerError),
    ],
)
def test_the_status_decides(code, reason, expected):
    assert type(errors.api_error(code, status(code, reason), request="get pods x/y")) is expected


def test_a_patch_with_the_uid_of_another_object_is_a_conflict():
    causes = [{"field": "metadata.uid", "message": "field is immutable", "reason": "FieldValueInvalid"}]
    error = errors.api_error(422, status(422, "Invalid", causes=causes), request="patch pods x/y")
    assert type(error) is errors.Conflict
    assert error.status == 422


def test_an_answer_that_is_no_status_is_quoted():
    error = errors.api_error(502, b"bad gateway", request="list pods")
    assert type(error) is errors.ServerError
    assert str(error) == "list pods: bad gateway"
