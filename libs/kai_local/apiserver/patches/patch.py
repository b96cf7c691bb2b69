"""JSON patches; merge patches are in :mod:`kai.model.merge_patch`."""

import copy
from typing import Any, Final

import jsonpatch
import msgspec

from kai_local.apiserver.errors import ApiFailure, Obj, bad_request

_OPERATIONS: Final = 10_000
_COPIED: Final = 3 * 1024 * 1024
"""Bytes: copies of copies grow without bound."""


def json_patch(target: Obj, operations: Any) -> Obj:
    """RFC 6902.

    Raises:
        ApiFailure: (400) the patch is malformed, (413) has too many operations, (422) cannot be applied, or
        copies too much.
    """
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > _OPERATIONS:
        told = f"The allowed maximum operations in a JSON patch is {_OPERATIONS}, got {len(operations)}"
        raise ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: {told}")
    try:
        return _applied(target, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise _cannot_apply(error) from error


def _applied(target: Obj, operations: list[Obj]) -> Obj:
    jsonpatch.JsonPatch(operations)  # all of it is well-formed, before any is applied
    patched: Obj = copy.deepcopy(target)
    copied = 0
    for operation in operations:
        if operation["op"] == "copy":
            source = jsonpatch.JsonPointer(str(operation.get("from"))).resolve(patched)
            copied += len(msgspec.json.encode(source))
            if copied > _COPIED:
                raise jsonpatch.JsonPatchException(f"it copies more than {_COPIED} bytes")
        patched = jsonpatch.JsonPatch([operation]).apply(patched, in_place=True)
    return patched


def _cannot_apply(error: Exception) -> Exception:
    failed_test = isinstance(error, jsonpatch.JsonPatchTestFailed)
    reason = "a test operation failed: the value there is another" if failed_test else error
    return ApiFailure(
        422, "Invalid", f"the server rejected our request due to an error in our request: {reason}"
    )
