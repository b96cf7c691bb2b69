"""What pods hold of shared devices, as reservation pods record it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kai.model.claims import Claim, Grant, granted
from kai.model.ids import GpuGroup, PodUid

#: A shared device: its node, and its GPU group.
Device: TypeAlias = tuple[str, GpuGroup]


class Grants:
    """Claims by the uid of the pod that has them, and by the reservation pod on which they stand."""

    def __init__(self) -> None:
        #: By uid; to be read, never to be changed.
        self.of_pods: dict[PodUid, dict[str, tuple[str, GpuGroup, Claim]]] = {}
        self._on: dict[str, tuple[str, GpuGroup, dict[PodUid, Claim]]] = {}
        #: Reservation pods on which nothing is recorded, with their devices, and by them. A binder of ours
        #: leaves none so: whoever made these knows by himself who has a part.
        self._bare: dict[str, Device] = {}
        self._of_others: dict[Device, set[str]] = {}

    def put(
        self, reservation: str, *, node: str, group: GpuGroup, claims: Mapping[PodUid, Claim]
    ) -> set[PodUid]:
        """The claims on a reservation pod as they are now; the pods (uids) whose record changed.

        Claims that grant nothing are left out. Putting the same again changes nothing, and returns nobody.
        """
        self._own(reservation, None if claims else (node, group))
        recorded = {uid: claim for uid, claim in claims.items() if claim.grant is not None}
        known = self._on.get(reservation)
        if known == (node, group, recorded) or (known is None and not recorded):
            return set()
        changed = set(recorded) if known is None else self._take_off(reservation) | set(recorded)
        if recorded:
            self._on[reservation] = (node, group, recorded)
        for uid, claim in recorded.items():
            self.of_pods.setdefault(uid, {})[reservation] = (node, group, claim)
        return changed

    def drop(self, reservation: str) -> set[PodUid]:
        """A reservation pod is gone; the pods (uids) of which something was recorded there."""
        self._own(reservation, None)
        return self._take_off(reservation) if reservation in self._on else set()

    def of(self, uid: PodUid, *, node: str) -> tuple[Grant, frozenset[GpuGroup]] | None:
        """What a pod was granted on a node, and on which devices (GPU groups); None: nothing recorded.

        Where it has claims that contradict each other the newest count (:func:`kai.model.claims.granted`).
        """
        there = self.of_pods.get(uid, {}).values()
        return granted({group: claim for where, group, claim in there if where == node})

    def is_of_others(self, device: Device) -> bool:
        """Whether somebody else holds this device, and records elsewhere who has a part of it."""
        return device in self._of_others

    def device_of_others(self, reservation: str) -> Device | None:
        """The device of a reservation pod on which nothing is recorded; None of any other."""
        return self._bare.get(reservation)

    def _own(self, reservation: str, device: Device | None) -> None:
        """A reservation pod holds this device for others than us; None: for ours, or no more."""
        before = self._bare.pop(reservation, None)
        if before is not None:
            there = self._of_others[before]
            there.discard(reservation)
            if not there:
                del self._of_others[before]
        if device is not None:
            self._bare[reservation] = device
            self._of_others.setdefault(device, set()).add(reservation)

    def _take_off(self, reservation: str) -> set[PodUid]:
        _, _, claims = self._on.pop(reservation)
        for uid in claims:
            of_pod = self.of_pods[uid]
            del of_pod[reservation]
            if not of_pod:
                del self.of_pods[uid]
        return set(claims)
