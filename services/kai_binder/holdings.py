"""Who holds which shared devices of a node: a pure function of its pods and of its reservations."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kai.model.claims import Claim, Grant, granted
from kai.model.ids import PodUid
from kai_binder.objects import WatchedPod, gpu_groups
from kai_binder.reservation_pods import ReservationPod


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What each pod (uid) of a node consumes, by GPU group."""

    #: What a reservation holds for it.
    held: dict[PodUid, set[str]]
    #: What nobody holds for it any more, with the device; empty where it is not known which one that is.
    lost: dict[PodUid, dict[str, str]]
    #: Pods of which no reservation says what they were granted.
    unrecorded: list[WatchedPod]
    #: Reservations that have ended, and that somebody still goes by.
    outlived: list[ReservationPod]

    @property
    def used(self) -> set[str]:
        """All groups that count on a reservation."""
        return set().union(*self.held.values())


class _Share(NamedTuple):
    claim: Claim
    device: str


def holdings(
    pods: Iterable[WatchedPod], *, standing: Collection[ReservationPod], ended: Iterable[ReservationPod]
) -> Holdings:
    """Of pods and reservations of one node, of which those that are there now are ``standing``.

    Who claimed a device of a reservation that has ended has lost it, also where its group has a reservation
    again, but of another device, or of none yet.
    """
    groups = {each.group for each in standing}
    gone = [each for each in ended if not _is_held(each, standing)]
    recorded, former = _by_pod(standing), _by_pod(gone)
    found = Holdings(held={}, lost={}, unrecorded=[], outlived=[])
    for pod in pods:
        uid = PodUid(pod.metadata.uid)
        now, before = recorded.get(uid, {}), former.get(uid, {})
        claims = {group: share.claim for group, share in (before | now).items()}
        consumed = _consumed(pod, claims)
        found.lost[uid] = {
            group: before[group].device if group in before else ""
            for group in consumed
            if group not in groups or group in before.keys() - now.keys()
        }
        found.held[uid] = consumed - found.lost[uid].keys()
        if granted(claims) is None:
            found.unrecorded.append(pod)
    found.outlived.extend(
        each for each in gone if any(each.group in found.lost.get(uid, {}) for uid in each.claims)
    )
    return found


def asked(pod: WatchedPod) -> Grant | None:
    """What a pod says that it has of the devices it names; None if it names none, or asks for no part."""
    groups = gpu_groups(pod.metadata)
    return Grant.asked(pod.annotations, devices=len(groups)) if groups else None


def holder(
    group: str, *, standing: Iterable[ReservationPod], devices: Collection[str]
) -> ReservationPod | None:
    """The reservation of a group that a pod goes by of which nothing is recorded; None if it lost its device.

    ``devices`` are those that it was told; any may be meant where that is not known.
    """
    there = [each for each in standing if each.group == group and (not devices or each.device in devices)]
    return min(there, key=lambda each: each.lost, default=None)


def _is_held(ended: ReservationPod, standing: Iterable[ReservationPod]) -> bool:
    """Whether another reservation holds what one held that has ended; one without a device held none."""
    return any(each.group == ended.group and ended.device in ("", each.device) for each in standing)


def _by_pod(reservations: Iterable[ReservationPod]) -> dict[PodUid, dict[str, _Share]]:
    """What each pod claims, by group."""
    found: dict[PodUid, dict[str, _Share]] = {}
    for reservation in reservations:
        for uid, claim in reservation.claims.items():
            found.setdefault(uid, {})[reservation.group] = _Share(claim, reservation.device)
    return found


def _consumed(pod: WatchedPod, claims: dict[str, Claim]) -> set[str]:
    """The GPU groups that a pod consumes: those it was granted; its own word where none is recorded."""
    known = granted(claims)
    if known is None:
        return gpu_groups(pod.metadata) if asked(pod) is not None else set()
    grant, groups = known
    return {*groups} if len(groups) >= grant.devices else {*groups, *gpu_groups(pod.metadata)}
