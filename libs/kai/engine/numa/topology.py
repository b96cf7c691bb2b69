"""The zones of one node and the topology manager's rules over them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, combinations
from typing import Final, NamedTuple, TypeAlias

from kai.engine.numa.request import NumaRequest, ResourceAmounts, aligned_for_guaranteed_only
from kai.model import quantity
from kai.model.numa import NodeResourceTopology, Zone


class Policy(StrEnum):
    """What the kubelet does about alignment."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE = "single-numa-node"

    @property
    def rejects(self) -> bool:
        """Whether a pod that cannot be aligned is turned away."""
        return self in (Policy.RESTRICTED, Policy.SINGLE)


class ZoneShare(NamedTuple):
    """What a pod has of one zone."""

    zone: int
    amounts: tuple[tuple[str, int], ...]


#: By zone; empty if nothing of the pod is aligned.
ZoneAllocation: TypeAlias = tuple[ZoneShare, ...]
#: Amounts by resource, for each zone.
ZoneAmounts: TypeAlias = list[dict[str, int]]

_OLD_POLICIES: Final = {
    "SingleNUMANodePodLevel": (Policy.SINGLE, "pod"),
    "SingleNUMANodeContainerLevel": (Policy.SINGLE, "container"),
    "SingleNUMANode": (Policy.SINGLE, "container"),
    "RestrictedPodLevel": (Policy.RESTRICTED, "pod"),
    "RestrictedContainerLevel": (Policy.RESTRICTED, "container"),
    "Restricted": (Policy.RESTRICTED, "container"),
    "BestEffortPodLevel": (Policy.BEST_EFFORT, "pod"),
    "BestEffortContainerLevel": (Policy.BEST_EFFORT, "container"),
    "BestEffort": (Policy.BEST_EFFORT, "container"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeZones:
    """What a NodeResourceTopology says; amounts by zone, in natural order of the zones' names."""

    policy: Policy
    pod_scope: bool
    names: tuple[str, ...]
    allocatable: tuple[ResourceAmounts, ...]
    reported: tuple[ResourceAmounts, ...]
    #: All resources that some zone reports and that are not ignored.
    resources: frozenset[str]
    #: For each resource, what the best 1, 2, … zones can hold at most.
    widest: dict[str, list[int]]

    def concerns(self, request: NumaRequest) -> bool:
        """Whether the kubelet aligns anything of the pod here."""
        return request.guaranteed or any(
            name in self.resources and not aligned_for_guaranteed_only(name) for name in request.pod
        )

    def place(self, request: NumaRequest, available: Sequence[ResourceAmounts]) -> ZoneAllocation | None:
        """Where the topology manager would put the pod; None if the policy rejects it."""
        lasting, brief = ((request.pod,), ()) if self.pod_scope else (request.lasting, request.brief)
        left = [dict(zone) for zone in available]
        drawn: ZoneAmounts = [{} for _ in left]
        for unit in brief:
            if self._zones_for(self._aligned(unit), left) is None:
                return None
        for unit in lasting:
            amounts = self._aligned(unit)
            zones = self._zones_for(amounts, left)
            if zones is None:
                return None
            _draw(amounts, zones, left, drawn)
        return tuple(
            ZoneShare(zone, tuple(sorted(amounts.items()))) for zone, amounts in enumerate(drawn) if amounts
        )

    def _aligned(self, unit: ResourceAmounts) -> ResourceAmounts:
        return {name: amount for name, amount in unit.items() if name in self.resources}

    def _zones_for(self, amounts: ResourceAmounts, left: Sequence[ResourceAmounts]) -> Sequence[int] | None:
        if not amounts:
            return ()
        if self.policy is Policy.BEST_EFFORT:
            return _greedy(amounts, left)
        width = 1 if self.policy is Policy.SINGLE else self._width(amounts)
        if width is None:
            return None
        # The first set in the order of zones, as in the original.
        for zones in combinations(range(len(left)), width):
            if all(sum(left[zone].get(name, 0) for zone in zones) >= need for name, need in amounts.items()):
                return zones
        return None

    def _width(self, amounts: ResourceAmounts) -> int | None:
        """The number of zones that each resource needs at least, if all agree on it.

        By what zones can hold, not by what is left: to the kubelet a pod is aligned only where it spans no
        more of them than it would on an empty node.
        """
        widths = {
            next((width for width, most in enumerate(self.widest[name], 1) if most >= need), None)
            for name, need in amounts.items()
        }
        return widths.pop() if len(widths) == 1 else None


def _draw(amounts: ResourceAmounts, zones: Sequence[int], left: ZoneAmounts, drawn: ZoneAmounts) -> None:
    """Take from the lowest zone first."""
    for name, need in amounts.items():
        for zone in zones:
            take = min(need, left[zone].get(name, 0))
            if take > 0:
                left[zone][name] -= take
                drawn[zone][name] = drawn[zone].get(name, 0) + take
                need -= take


def _greedy(amounts: ResourceAmounts, left: Sequence[ResourceAmounts]) -> list[int]:
    """Add the zone that covers most of what is still missing, until nothing helps any more."""
    missing = dict(amounts)
    chosen: list[int] = []
    while missing:
        covers = {
            zone: sum(min(have.get(name, 0), need) / amounts[name] for name, need in missing.items())
            for zone, have in enumerate(left)
            if zone not in chosen
        }
        best = max(covers, key=lambda zone: (covers[zone], -zone), default=None)
        if best is None or covers[best] <= 0:
            break
        chosen.append(best)
        missing = {
            name: need - left[best].get(name, 0)
            for name, need in missing.items()
            if need > left[best].get(name, 0)
        }
    return sorted(chosen)


# --- reading the object -------------------------------------------------------------------------
def read_topology(topology: NodeResourceTopology, *, ignore: frozenset[str]) -> NodeZones:
    """Read policy and zones; what is unknown is policy ``none``."""
    policy, pod_scope = _policy(topology)
    zones = sorted(
        (zone for zone in topology.zones if zone.type == "Node"), key=lambda zone: _natural(zone.name)
    )
    allocatable = tuple(_amounts(zone, "allocatable", ignore) for zone in zones)
    resources = frozenset(name for amounts in allocatable for name in amounts)
    return NodeZones(
        policy=policy,
        pod_scope=pod_scope,
        names=tuple(zone.name for zone in zones),
        allocatable=allocatable,
        reported=tuple(_amounts(zone, "available", ignore) for zone in zones),
        resources=resources,
        widest={
            name: list(accumulate(sorted((amounts.get(name, 0) for amounts in allocatable), reverse=True)))
            for name in resources
        },
    )


def _policy(topology: NodeResourceTopology) -> tuple[Policy, bool]:
    attributes = {each.name: each.value for each in topology.attributes}
    if "topologyManagerPolicy" in attributes:
        name = attributes["topologyManagerPolicy"]
        policy = Policy(name) if name in set(Policy) else Policy.NONE
        return policy, attributes.get("topologyManagerScope") == "pod"
    for name in topology.topology_policies:
        if name in _OLD_POLICIES:
            policy, scope = _OLD_POLICIES[name]
            return policy, scope == "pod"
    return Policy.NONE, False


def _amounts(zone: Zone, field: str, ignore: frozenset[str]) -> ResourceAmounts:
    return {
        each.name: amount_of(each.name, text=str(getattr(each, field)))
        for each in zone.resources
        if each.name not in ignore
    }


def amount_of(resource: str, *, text: str) -> int:
    """A quantity in the unit in which the resource is counted."""
    return quantity.milli(text) if resource == "cpu" else quantity.whole(text)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name)]
