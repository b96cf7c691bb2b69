"""JSON merge patch and JSON patch; the result shares with the original what did not change."""

from typing import Any

import jsonpatch

from kai_local.apiserver.errors import ApiFailure, Obj, bad_request


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def json_patch(target: Obj, operations: Any) -> Obj:
    """RFC 6902. Raises ApiFailure (400) when the patch is malformed, (422) when it cannot be applied."""
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    try:
        patched: Obj = jsonpatch.apply_patch(target, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise _cannot_apply(error) from error
    return patched


def _cannot_apply(error: Exception) -> Exception:
    failed_test = isinstance(error, jsonpatch.JsonPatchTestFailed)
    reason = "a test operation failed: the value there is another" if failed_test else error
    return ApiFailure(
        422, "Invalid", f"the server rejected our request due to an error in our request: {reason}"
    )
