"""JSON merge patches (RFC 7386)."""

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """``target`` as a patch makes it: objects are merged, null removes, everything else replaces.

    Neither is changed; the result shares with both what did not change.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key), value)
        else:
            result[key] = value
    return result
