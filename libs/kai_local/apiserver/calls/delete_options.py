"""What a request says of how to delete: in its body, in its query, or within an eviction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kai_local.apiserver.calls.bodies import in_shape
from kai_local.apiserver.calls.query import number
from kai_local.apiserver.calls.requests import DeleteOptions
from kai_local.apiserver.errors import Cause, Obj, invalid, unsupported
from kai_local.apiserver.schemas import schema

_PROPAGATION: Final = ("Foreground", "Background", "Orphan")


def read(body: Any, query: Mapping[str, str] | None = None) -> DeleteOptions:
    """The options of a delete; what the body leaves open is taken from the query.

    Args:
        body: a ``DeleteOptions`` object, or None.
        query: of the request, if it is one to delete.

    Raises:
        ApiFailure: (400) a field has the wrong type, (422) or a value that it cannot have. Nothing is deleted
            then: an option that was not understood may be the one that says so.
    """
    query = query or {}
    said = in_shape(body, schema.delete_options(), "DeleteOptions")
    grace = said.get("gracePeriodSeconds")
    if grace is None:
        grace = number(query, "gracePeriodSeconds")
    propagation = said.get("propagationPolicy") or query.get("propagationPolicy") or None
    dry_run = said.get("dryRun") or [value for value in (query.get("dryRun"),) if value]
    causes = _causes(said, propagation, dry_run)
    if causes:
        raise invalid("DeleteOptions", "meta.k8s.io", "", causes)
    if said.get("orphanDependents") is not None:
        propagation = "Orphan" if said["orphanDependents"] else "Background"
    preconditions = said.get("preconditions", {})
    return DeleteOptions(
        grace_seconds=grace,
        propagation=propagation,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(dry_run),
    )


def _causes(said: Obj, propagation: str | None, dry_run: list[str]) -> list[Cause]:
    causes = [unsupported("dryRun", value, ["All"]) for value in dry_run if value != "All"]
    if propagation is not None and propagation not in _PROPAGATION:
        causes.append(unsupported("propagationPolicy", propagation, [*_PROPAGATION, "nil"]))
    if propagation is not None and said.get("orphanDependents") is not None:
        note = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        causes.append(Cause("propagationPolicy", note))
    return causes
