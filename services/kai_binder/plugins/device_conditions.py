"""Whether the devices of a claim are ready: some are brought to a node only when they are allocated."""

from __future__ import annotations

from typing import Any, TypeAlias

from kai.model.rules.device_claims import device_of
from kai.model.words import listed
from kai_binder.errors import BindFailed

Json: TypeAlias = dict[str, Any]


def awaited(claim: Json) -> str:
    """What the driver of an allocated claim has still to say, in words; empty if its pod may be bound.

    Raises:
        BindFailed: the driver says that a device cannot be used.
    """
    status = claim.get("status") or {}
    said = {device_of(each): _true_conditions(each) for each in status.get("devices") or ()}
    allocated = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    missing: list[str] = []
    for result in allocated:
        device = device_of(result)
        true = said.get(device, {})
        where = f"device {'/'.join(device)} of resourceclaim {claim['metadata']['name']}"
        for condition in result.get("bindingFailureConditions") or ():
            if condition in true:
                reason = f"{where} cannot be used: {condition}: {true[condition] or 'no message'}"
                raise BindFailed(reason, node_at_fault=True)
        lacking = [each for each in result.get("bindingConditions") or () if each not in true]
        if lacking:
            missing.append(f"{where} has not the condition{'s' * (len(lacking) > 1)} {', '.join(lacking)}")
    return listed(missing, between="; ")


def _true_conditions(device: Json) -> dict[str, str]:
    """Messages by type."""
    conditions = device.get("conditions") or ()
    return {each["type"]: each.get("message") or "" for each in conditions if each.get("status") == "True"}
