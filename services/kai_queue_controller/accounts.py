"""What all queues hold, kept as pod groups come and change, and whose status may be out of date.

A pod group changes the sums of its queue and of those above it, a handful of thousands. So only these are
summed up, and only their statuses are compared. Where the tree itself changes all is worked out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kai.model.objects import PodGroupResources, Queue
from kai_queue_controller.tree import QueueTotals, Sums, Workloads, totals


class Accounts:
    """The totals of ``queues``, a mapping that others change: they say so by :meth:`replant`."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._workloads = Workloads(self._charge)
        self._unsettled: set[str] = set()
        #: None: to be worked out anew.
        self._totals: dict[str, QueueTotals] | None = None
        #: In which queue each one counts; those in circles count in none.
        self._above: dict[str, str] = {}

    def put(self, group: str, queue: str, resources: PodGroupResources | None) -> bool:
        """Take in a pod group as it is now; whether that changes any sum."""
        return self._workloads.put(group, queue, resources)

    def drop(self, group: str) -> bool:
        """A pod group is gone; whether it was known."""
        return self._workloads.drop(group)

    def replant(self) -> None:
        """Queues came, went or moved: nothing that was worked out holds any more."""
        self._totals = None

    def totals(self) -> Mapping[str, QueueTotals]:
        """All queues with what they hold now, children before their parents; do not modify."""
        return self._grown()

    def look_at(self, queues: Iterable[str]) -> None:
        """The statuses of these have to be compared again."""
        self._unsettled.update(queues)

    def take_unsettled(self) -> dict[str, QueueTotals]:
        """Those whose status may differ from what they hold, once: whoever fails asks to look again."""
        found = self._grown()
        names, self._unsettled = self._unsettled, set()
        return {name: found[name] for name in names if name in found}

    def _grown(self) -> dict[str, QueueTotals]:
        if self._totals is None:
            found = totals(self._queues, self._workloads)
            self._above = _counted_in(found)
            self._totals = found
            self._unsettled.update(found)
        return self._totals

    def _charge(self, queue: str, sums: Sums, sign: int) -> None:
        """A queue's own pod groups add up to so much more, or less."""
        if self._totals is None or queue not in self._totals:
            return
        for name in self._path(queue):
            self._totals[name].sums.add(sums, sign=sign)
            self._unsettled.add(name)

    def _path(self, queue: str) -> Iterator[str]:
        """A queue and all in which it counts."""
        name: str | None = queue
        while name is not None:
            yield name
            name = self._above.get(name)


def _counted_in(found: Mapping[str, QueueTotals]) -> dict[str, str]:
    """The parent of each queue that is summed up in it."""
    return {
        child: name
        for name, total in found.items()
        for child in total.children
        if found[child].counts_in(total)
    }
