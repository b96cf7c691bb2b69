"""Devices that are held for nobody: claims reserved for pods that wait and have no place.

An attempt to bind leaves such a claim behind when it ends between the claim and the pod, and nobody is there
to undo it. Its devices would be lost to all others, and the pod to all other nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kai.model.dra import ResourceClaim
from kai.model.ids import PodUid
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

_WAITS = frozenset({Status.PENDING, Status.GATED})


@dataclass(frozen=True, slots=True)
class IdleReservation:
    """A claim, and those of its users (uids, in order) that are nowhere."""

    namespace: str
    claim: str
    pods: tuple[PodUid, ...]


def idle_reservations(
    state: ClusterState, *, under_way: Collection[PodUid] = frozenset()
) -> list[IdleReservation]:
    """What could be given back after a cycle, in order of names.

    A pod that waits for a certain node keeps what it has, and so does one that is being bound, of which the
    state knows by itself, or is told by ``under_way``. Pods of other schedulers are not our business, nor
    those of groups of other node pools: they may be being bound without our knowledge. Costs time by the
    number of claims.
    """
    found: list[IdleReservation] = []
    for key, claim in state.objects[Kind.RESOURCE_CLAIM].items():
        pods = {uid for uid in _users(claim) if uid not in under_way and _is_nowhere(state, uid)}
        if pods:
            namespace, _, name = key.partition("/")
            found.append(IdleReservation(namespace, name, tuple(sorted(pods))))
    return sorted(found, key=lambda each: (each.namespace, each.claim))


def _users(claim: Any) -> Iterator[PodUid]:
    if isinstance(claim, ResourceClaim):
        yield from (PodUid(user.uid) for user in claim.status.reserved_for if user.resource == "pods")
        return
    for user in (claim.get("status") or {}).get("reservedFor") or ():
        if user.get("resource") == "pods":
            yield PodUid(user["uid"])


def _is_nowhere(state: ClusterState, uid: PodUid) -> bool:
    task = state.tasks.get(uid)
    return (
        task is not None
        and task.job is not None
        and not task.job.elsewhere
        and task.status in _WAITS
        and task.node is None
        and task.pipelined_node is None
        and not task.nominated
    )
