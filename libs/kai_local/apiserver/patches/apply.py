"""Server-side apply: who owns which field (``metadata.managedFields``), conflicts, and the merge.

Ownership is tracked from the first apply of an object on; what stood there before belongs to its creator.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai_local.apiserver.errors import ApiFailure, Obj
from kai_local.apiserver.patches import fieldsets
from kai_local.apiserver.patches.fieldsets import FieldPath
from kai_local.apiserver.schemas.schema import Node

BEFORE_FIRST_APPLY: Final = "before-first-apply"
#: The manager of ``kubectl apply --server-side``, and where it keeps what it applied without that.
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, and how: the identity of an entry in ``managedFields``."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""


Owners = dict[Writer, tuple[set[FieldPath], str]]
"""Fields and time stamp of each writer."""


def _read(obj: Obj) -> Owners:
    owners: Owners = {}
    for entry in obj["metadata"].get("managedFields") or ():
        writer = Writer(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        owners[writer] = (set(fieldsets.from_fields(entry.get("fieldsV1") or {})), entry.get("time", ""))
    return owners


def _write(obj: Obj, owners: Owners) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": _entries(owners)}}


def _entries(owners: Owners) -> list[Obj]:
    entries = []
    for writer, (paths, time) in sorted(owners.items(), key=lambda item: (item[0].operation, item[1][1])):
        if not paths:
            continue
        entry: Obj = {
            "manager": writer.manager,
            "operation": writer.operation,
            "apiVersion": writer.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.to_fields(paths),
        }
        if writer.subresource:
            entry["subresource"] = writer.subresource
        entries.append(entry)
    return entries


def track_update(node: Node | None, old: Obj, new: Obj, writer: Writer, stamp: str) -> Obj:
    """``new`` with what ``writer`` changed in it recorded as the writer's; only for objects once applied."""
    if not old["metadata"].get("managedFields"):
        return new
    before, after = fieldsets.owned(node, old), fieldsets.owned(node, new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    owners = _read(old)
    for other, (paths, time) in list(owners.items()):
        owners[other] = ({path for path in paths - changed if path in after}, time)
    if changed:
        own = owners.get(writer, (set(), ""))[0]
        owners[writer] = (own | changed, stamp)
    return _write(new, owners)


def first_entries(node: Node | None, config: Obj, writer: Writer, stamp: str) -> list[Obj]:
    """The ``managedFields`` of an object that exists because this was applied."""
    return _entries({writer: (set(fieldsets.owned(node, config)), stamp)})


def apply(
    node: Node | None, live: Obj, config: Obj, writer: Writer, stamp: str, *, force: bool, creator: str = ""
) -> Obj:
    """The live object after the configuration was applied to it.

    kubectl may change what it applied on its own side before: who applies on the server's side from now on
    need not force it.

    Raises:
        ApiFailure: (409) another writer owns a field that would change, and ``force`` is off.
    """
    current = fieldsets.owned(node, live)
    owners = _read(live)
    if not owners:
        first = Writer(creator or BEFORE_FIRST_APPLY, "Update", writer.api_version)
        owners[first] = (set(current), live["metadata"].get("creationTimestamp", stamp))
    wanted = fieldsets.owned(node, config)
    conflicts = _conflicts(owners, writer, wanted, current)
    applied = _last_applied(live, writer)
    allowed = fieldsets.owned(node, applied).keys() if applied is not None else set()
    refused = {other: left for other, paths in conflicts.items() if (left := paths - allowed)}
    if refused and not force:
        raise _conflict(refused)
    for other, paths in conflicts.items():
        owners[other] = (owners[other][0] - paths, owners[other][1])
    previous = owners.get(writer, (set(), ""))[0]
    owners[writer] = (set(wanted), stamp)
    shared: set[FieldPath] = set().union(*(paths for other, (paths, _) in owners.items() if other != writer))
    abandoned = _abandoned(previous - wanted.keys(), shared)
    merged = fieldsets.merge(node, live, _mergeable(config))
    merged = _write(fieldsets.remove(node, merged, abandoned), owners)
    return merged if applied is None else _note_applied(merged, config)


def _last_applied(live: Obj, writer: Writer) -> Obj | None:
    """What kubectl applied on its own side, where the writer is kubectl, too."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if text is None or writer.manager != _KUBECTL:
        return None
    try:
        applied = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return applied if applied.get("apiVersion") == writer.api_version else None


def _note_applied(obj: Obj, config: Obj) -> Obj:
    """The object with the configuration as what kubectl applied last."""
    annotations = obj["metadata"].get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return obj
    text = msgspec.json.encode(_mergeable(config), order="sorted").decode() + "\n"
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations, _LAST_APPLIED: text}}}


def unchanged_but_for_time(old: Obj, new: Obj) -> bool:
    """Whether the two differ at most in the time stamps of managedFields."""

    def bare(obj: Obj) -> Obj:
        entries = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields") or ()]
        return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}

    return bare(old) == bare(new)


def _mergeable(config: Obj) -> Obj:
    metadata = {
        key: value for key, value in config.get("metadata", {}).items() if key not in ("managedFields", "uid")
    }
    return {**config, "metadata": metadata}


def _conflicts(
    owners: Owners, writer: Writer, wanted: dict[FieldPath, Any], current: dict[FieldPath, Any]
) -> dict[Writer, set[FieldPath]]:
    found = {}
    for other, (paths, _) in owners.items():
        if other == writer:
            continue
        clash = {path for path in paths if path in wanted and wanted[path] != current.get(path)}
        if clash:
            found[other] = clash
    return found


def _abandoned(gone: set[FieldPath], shared: set[FieldPath]) -> set[FieldPath]:
    """Of the fields that the writer no longer sets, those that nobody else owns.

    An element of a list stays while anybody owns a field in it.
    """
    elements = {path[:-1] for path in gone if path[-1] == "."}
    held = elements & {path[:length] for path in shared for length in range(1, len(path) + 1)}
    return {path for path in gone if path not in shared and not (path[-1] == "." and path[:-1] in held)}


def _conflict(conflicts: dict[Writer, set[FieldPath]]) -> ApiFailure:
    causes = []
    lines = []
    for writer, paths in conflicts.items():
        name = f'"{writer.manager}"' + (
            f' with subresource "{writer.subresource}"' if writer.subresource else ""
        )
        name += f" using {writer.api_version}"
        fields = [fieldsets.dotted(path) for path in sorted(paths)]
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": field}
            for field in fields
        ]
        if len(fields) == 1:
            lines.append(f"conflict with {name}: {fields[0]}")
        else:
            lines.append(f"conflicts with {name}:\n" + "\n".join(f"- {field}" for field in fields))
    noun = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {noun}: " + "\n".join(lines)
    return ApiFailure(409, "Conflict", message, details={"causes": causes})
