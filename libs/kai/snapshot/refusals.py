"""Nodes that take pods and do not run them.

A node can be Ready while one of its devices is broken. Its kubelet then refuses every pod that would get the
device, and as the node looks free again at once, it would get whatever waits, one pod after the other. So a
node that refused several pods of a namespace in a row gets none of them for a while, and each time for
longer. What a namespace's pods are refused for closes no node to others, since it may be their own fault;
only a node that refused the pods of several namespaces in a row is closed to all, and only while it ran
nobody's: several namespaces may be one tenant's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kai.model.pauses import doubled

#: So many refusals in a row close a node.
IN_A_ROW: Final = 3
#: So many namespaces close a node to all: it is closed to each, and ran no pod of anybody amid the last row.
NAMESPACES: Final = 2
#: How long it is closed first; it doubles each time.
FIRST_SECONDS: Final = 30.0
LONGEST_SECONDS: Final = 900.0


@dataclass(slots=True)
class _Record:
    in_a_row: int = 0
    closings: int = 0
    closed_until: float = 0.0
    #: Those that were no pod's own fault, since a pod of any namespace ran on the node.
    unbroken: int = 0


class Refusals:
    """What nodes refused lately, by node and namespace. Times are Unix seconds."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, _Record]] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    def refused(self, node: str, *, namespace: str, now: float, own_fault: bool = False) -> float:
        """A pod was refused; until when the node gets no more of its namespace, 0 if it does.

        Refusals while the node is closed to the namespace do not count; the one that closes it does so for
        twice as long as the last time, up to a bound.
        """
        record = self._records.setdefault(node, {}).setdefault(namespace, _Record())
        if now < record.closed_until:  # it was on its way when the node was closed
            return record.closed_until
        record.in_a_row += 1
        record.unbroken += not own_fault
        if record.in_a_row < IN_A_ROW:
            return 0.0
        seconds = doubled(FIRST_SECONDS, record.closings, most=LONGEST_SECONDS)
        record.closings += 1
        record.closed_until = now + seconds
        return record.closed_until

    def ran(self, node: str, *, namespace: str) -> None:
        """A pod runs: the row of refusals is broken, and what others were refused is their own matter."""
        records = self._records.get(node, {})
        for other in records.values():
            other.unbroken = 0
        if namespace in records:
            self._forget(node, namespace)

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._records.pop(node, None)

    def _forget(self, node: str, namespace: str) -> None:
        records = self._records[node]
        del records[namespace]
        if not records:
            del self._records[node]

    def told(self) -> dict[str, dict[str, tuple[int, int, float]]]:
        """All of it as plain values, for :meth:`tell`."""
        return {
            node: {name: (each.in_a_row, each.closings, each.closed_until) for name, each in records.items()}
            for node, records in self._records.items()
        }

    def unbroken(self) -> dict[str, dict[str, int]]:
        """Refusals that count for others as well, where they are not those in a row."""
        found = {
            node: {name: each.unbroken for name, each in records.items() if each.unbroken != each.in_a_row}
            for node, records in self._records.items()
        }
        return {node: records for node, records in found.items() if records}

    def tell(
        self,
        told: Mapping[str, Mapping[str, tuple[int, int, float]]],
        unbroken: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Let all be as :meth:`told` and :meth:`unbroken` said, and nothing else."""
        self._records = {
            node: {
                name: _Record(*each, unbroken=unbroken.get(node, {}).get(name, each[0]))
                for name, each in records.items()
            }
            for node, records in told.items()
        }

    def closed(self, now: float) -> dict[str, dict[str, float]]:
        """Until when each node is closed, by namespace and node; namespace "" stands for all.

        A node that was left alone for long is forgotten.
        """
        found: dict[str, dict[str, float]] = {}
        for node, records in list(self._records.items()):
            for namespace, record in list(records.items()):
                # Else it would be closed until a clock that went back is again where it was.
                record.closed_until = min(record.closed_until, now + LONGEST_SECONDS)
                if record.closed_until > now:
                    found.setdefault(namespace, {})[node] = record.closed_until
                elif record.closed_until and now > record.closed_until + LONGEST_SECONDS:
                    self._forget(node, namespace)
            times = [
                record.closed_until
                for record in records.values()
                if record.closed_until > now and record.unbroken >= IN_A_ROW
            ]
            if len(times) >= NAMESPACES:
                found.setdefault("", {})[node] = max(times)
        return found
