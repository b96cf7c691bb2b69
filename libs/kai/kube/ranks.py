"""What a write is worth: who goes first where the API server bears only so many at once."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Rank(IntEnum):
    """Ranks of writes, the most urgent first."""

    #: Never waits: whoever renews a Lease late leads no longer.
    LEASE = 0
    #: Binds and evictions: what was decided is carried out.
    DECISION = 1
    #: What a decision needs (pod groups, reservations, claims, …), and all that has no other rank.
    NEED = 2
    #: How things stand: statuses and conditions. Of two that wait for one object the newer one says it.
    STATUS = 3
    #: What tells in hindsight, and nobody waits for: events, and marks of pods that are bound.
    NEWS = 4


#: By verb and resource, as metrics name them. A claim's status is what its pod needs in order to be bound.
_BY_REQUEST: Final = {
    ("create", "pods/binding"): Rank.DECISION,
    ("create", "pods/eviction"): Rank.DECISION,
    ("delete", "pods"): Rank.DECISION,
    ("patch", "resourceclaims/status"): Rank.NEED,
    ("update", "resourceclaims/status"): Rank.NEED,
}
_BY_RESOURCE: Final = {"leases": Rank.LEASE, "events": Rank.NEWS}


def rank_of(verb: str, resource: str) -> Rank:
    """The rank of a write of which nothing is known but what it is; ``resource`` with its subresource."""
    found = _BY_REQUEST.get((verb, resource)) or _BY_RESOURCE.get(resource)
    if found is not None:
        return found
    return Rank.STATUS if resource.endswith("/status") else Rank.NEED
