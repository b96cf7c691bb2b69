"""The JSON patch (RFC 6902) from a pod as it came to the pod as it is to be."""

from collections.abc import Iterator
from typing import Any

from kai.model.objects import Json


def difference(old: Any, new: Any, path: str = "") -> Iterator[Json]:
    """Operations that make ``new`` of ``old``; none where they are equal.

    Lists that grow get what is added at their end; lists that change in any other way are replaced.
    """
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() - new.keys():
            yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in new.items():
            if key in old:
                yield from difference(old[key], value, f"{path}/{_escaped(key)}")
            else:
                yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
    elif isinstance(old, list) and isinstance(new, list) and 0 < len(old) <= len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            if before != after:  # a tenant may write thousands
                yield from difference(before, after, f"{path}/{index}")
        for value in new[len(old) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    else:
        yield {"op": "replace", "path": path, "value": new}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
