"""What is left in the NUMA zones of each node, through placements that may be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from kai.config.plugin_table import Weight
from kai.engine.numa.request import NumaRequest
from kai.engine.numa.topology import NodeZones, Policy, ZoneAllocation, ZoneShare, amount_of, read_topology
from kai.model import limits, names
from kai.model.faults import OutOfBounds
from kai.model.numa import NodeResourceTopology
from kai.model.objects import Json, Pod, ResourceList
from kai.model.requests import pod_requests


class _Record(msgspec.Struct):
    """One entry of the annotations that record an allocation."""

    zone: str = ""
    amount: ResourceList = {}


_RECORDS: Final = msgspec.json.Decoder(list[_Record])


class NumaLedger:
    """The zones of all nodes that report any. Nodes without a report constrain nothing.

    Charges and credits are logged; ``put`` and ``drop`` are facts, and end the time over which can be undone.
    """

    def __init__(self, *, ignore: Iterable[str] = (), trust_reported: bool = False) -> None:
        self._ignore = frozenset(ignore)
        self._trust_reported = trust_reported
        self._nodes: dict[str, NodeZones] = {}
        self._available: dict[str, list[dict[str, int]]] = {}
        self._log: list[tuple[str, int, str, int]] = []

    def put(self, topology: NodeResourceTopology) -> None:
        """Add or replace the topology of a node; what was charged there is forgotten."""
        zones = read_topology(topology, ignore=self._ignore)
        node = topology.metadata.name
        self._nodes[node] = zones
        base = zones.reported if self._trust_reported else zones.allocatable
        self._available[node] = [dict(amounts) for amounts in base]
        self._log.clear()

    def drop(self, node: str) -> None:
        """Forget a node's topology, if there is one."""
        self._nodes.pop(node, None)
        self._available.pop(node, None)
        self._log.clear()

    # --- questions ------------------------------------------------------------------------------
    def fit(
        self, request: NumaRequest | None, node: str, *, without: Iterable[ZoneAllocation] = ()
    ) -> ZoneAllocation | None:
        """Where the node would put the pod: empty if nothing is to be aligned, None if it would be rejected.

        A pod that the policy ``best-effort`` cannot align is placed as far as zones have room.

        Args:
            request: what the pod asks for; None for one that is never aligned.
            node: its name.
            without: what counts as available, but is in use still.
        """
        zones = self._nodes.get(node)
        if zones is None or request is None or zones.policy is Policy.NONE or not zones.concerns(request):
            return ()
        left = self.available(node)
        for allocation in without:
            for zone, amounts in allocation:
                for name, amount in amounts:
                    if name in left[zone]:
                        left[zone][name] -= amount
        return zones.place(request, left)

    def has(self, node: str, allocation: ZoneAllocation) -> bool:
        """Whether just this is left."""
        left = self._available.get(node, [])
        return all(
            left[zone].get(name, amount) >= amount for zone, amounts in allocation for name, amount in amounts
        )

    def score(self, request: NumaRequest | None, node: str) -> float:
        """100 for one zone, less the more zones the pod spans, 0 where it would be rejected.

        A node that does not say is taken to spread the pod over as many zones as any node has.
        """
        if request is None or not self._is_sensitive(request):
            return 0.0
        zones = self._nodes.get(node)
        if zones is None or not zones.names:
            most = max((len(each.names) for each in self._nodes.values()), default=0)
            return Weight.NUMA / most if most else 0.0
        if zones.policy is Policy.NONE or not zones.concerns(request):
            return Weight.NUMA / len(zones.names)
        allocation = zones.place(request, self._available[node])
        return 0.0 if allocation is None else Weight.NUMA / max(1, len(allocation))

    def _is_sensitive(self, request: NumaRequest) -> bool:
        return request.guaranteed or any(
            zones.policy is not Policy.NONE and zones.concerns(request) for zones in self._nodes.values()
        )

    def available(self, node: str) -> list[dict[str, int]]:
        """What is left by zone; empty for a node that reports none."""
        return [dict(amounts) for amounts in self._available.get(node, ())]

    def recorded(self, pod: Pod, node: str, *, assumed: Sequence[Json] = ()) -> ZoneAllocation:
        """The allocation of a pod on its node: observed, else ``assumed`` (decided), else predicted.

        A record that cannot be read, names an unknown zone or more than a zone has is ignored: nothing is
        guessed. What was not decided here counts as far as the pod asks for as much: its owner can write it.
        """
        zones = self._nodes.get(node)
        if zones is None:
            return ()
        observed = _records(pod.annotations.get(names.NUMA_OBSERVED, ""))
        decided = msgspec.convert(list(assumed), list[_Record]) if assumed else None
        records = observed or decided or _records(pod.annotations.get(names.NUMA_PREDICTED, "")) or []
        if any(each.zone not in zones.names for each in records):
            return ()
        shares = tuple(
            ZoneShare(
                zones.names.index(each.zone),
                tuple(sorted(_amounts(each.amount).items())),
            )
            for each in records
        )
        if not _can_be(shares, zones):
            return ()
        return shares if records is decided else _asked_for(shares, pod)

    def describe(self, node: str, allocation: ZoneAllocation) -> tuple[dict[str, Any], ...]:
        """``[{zone: id, amount: {resource: quantity}}]``, as annotations and decisions carry it."""
        zones = self._nodes.get(node)
        return tuple(
            {
                "zone": zones.names[share.zone],
                "amount": {name: _quantity(name, amount) for name, amount in share.amounts},
            }
            for share in allocation
            if zones is not None
        )

    # --- what can be undone ---------------------------------------------------------------------
    def charge(self, node: str, allocation: ZoneAllocation) -> None:
        """Take what a pod has of the node's zones; undone by :meth:`credit` of the same."""
        self._add(node, allocation, -1)

    def credit(self, node: str, allocation: ZoneAllocation) -> None:
        """Give back what was charged."""
        self._add(node, allocation, 1)

    def expect(self, node: str, allocation: ZoneAllocation) -> ZoneAllocation:
        """Count what a pod is about to give back, as far as its zones do not have it back already.

        Returns what was counted.
        """
        zones = self._nodes.get(node)
        if zones is None:
            return ()
        expected: list[ZoneShare] = []
        for zone, amounts in allocation:
            left, whole = self._available[node][zone], zones.allocatable[zone]
            back = tuple(
                (name, min(amount, whole.get(name, 0) - left[name]))
                for name, amount in amounts
                if name in left and left[name] < whole.get(name, 0)
            )
            expected.append(ZoneShare(zone, back))
        self._add(node, expected, 1)
        return tuple(expected)

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Go back to a mark."""
        while len(self._log) > mark:
            node, zone, name, amount = self._log.pop()
            self._available[node][zone][name] -= amount

    def _add(self, node: str, allocation: Iterable[ZoneShare], sign: int) -> None:
        available = self._available.get(node)
        if available is None:
            return
        for zone, amounts in allocation:
            for name, amount in amounts:
                if name in available[zone]:
                    available[zone][name] += sign * amount
                    self._log.append((node, zone, name, sign * amount))


def _amounts(resources: ResourceList) -> dict[str, int]:
    return {name: amount_of(name, text=text) for name, text in resources.items()}


def _asked_for(shares: ZoneAllocation, pod: Pod) -> ZoneAllocation:
    """The shares, but of nothing more than the pod asks for."""
    left = pod_requests(pod, _amounts)
    bounded: list[ZoneShare] = []
    for zone, amounts in shares:
        taken = tuple((name, min(amount, left.get(name, 0))) for name, amount in amounts)
        for name, amount in taken:
            left[name] = left.get(name, 0) - amount
        if taken := tuple((name, amount) for name, amount in taken if amount):
            bounded.append(ZoneShare(zone, taken))
    return tuple(bounded)


def _can_be(shares: ZoneAllocation, zones: NodeZones) -> bool:
    """Whether zones have as much; users can write what an agent did not."""
    total: Counter[tuple[int, str]] = Counter()
    for zone, amounts in shares:
        for name, amount in amounts:
            total[zone, name] += amount
    return all(amount <= zones.allocatable[zone].get(name, amount) for (zone, name), amount in total.items())


def _records(text: str) -> list[_Record] | None:
    """What an annotation says, which the pod's owner may have written: None if any of it is of no use."""
    try:
        records = _RECORDS.decode(text) if text else None
        for record in records or ():
            for name, amount in record.amount.items():
                limits.ZONE_AMOUNT.quantity(amount, name, scale=1000 if name == "cpu" else 1)
    except (msgspec.DecodeError, OutOfBounds):
        return None
    return records


def _quantity(resource: str, amount: int) -> str:
    if resource == "cpu" and amount % 1000:
        return f"{amount}m"
    return str(amount // 1000 if resource == "cpu" else amount)
