"""What a Lease says about who leads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kai.model import names
from kai.model.objects import ApiObject, ApiStruct

#: As a resource version, of which a server counts 64 bits. More could be told to nobody.
_EPOCH: Final = re.compile(r"[0-9]{1,19}")


class LeaseSpec(ApiStruct):
    """``spec`` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(ApiObject):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads now: its identity, ``host:port`` (may be empty), epoch and release, if it says one."""

    identity: str
    endpoint: str
    epoch: int
    version: str = field(default="", compare=False)


def leader_of(lease: Lease | None) -> Leader | None:
    """Who holds a Lease and says so; None where nobody does."""
    if lease is None or not lease.spec.holder_identity:
        return None
    epoch = lease.annotations.get(names.EPOCH_ANNOTATION, "")
    if not _EPOCH.fullmatch(epoch):
        return None
    endpoint = lease.annotations.get(names.ENDPOINT_ANNOTATION, "")
    version = lease.annotations.get(names.VERSION_ANNOTATION, "")
    return Leader(lease.spec.holder_identity, endpoint, int(epoch), version)
