"""The order of queues by what they hold of what they may hold."""

from __future__ import annotations

from kai.engine.fairness import FairOrder
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import QueueRanking


class FairQueues(FairOrder, QueueRanking):
    """Queues in need first, by the order that :class:`FairOrder` tells."""

    def __init__(self, handle: Handle) -> None:
        division = handle.division
        super().__init__(
            division.columns, shares=division.shares, priority=division.forest.priority, total=division.total
        )
