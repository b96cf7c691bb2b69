"""Who may have how much: fair share, queue order, and what reclaim may take from whom.

Everything here works on rows of queues and on vectors ``(CPU millicores, memory bytes, GPU devices)``;
``-1`` is unlimited for deserved amounts and limits. Nothing here knows pods, nodes or statements.

Once, when queues change::

    forest = QueueForest(parent, priority, rank)      # rank: position by (creation time, uid)

Once in a cycle, over columns that the engine keeps (:class:`QueueColumns`, arrays of shape ``[queues, 3]``)::

    divide_forest(forest, columns, total, k=1.0)      # fills columns.fair_share
    shares = QueueShares.of(columns)                  # allocatable shares and plain lists for scalar code

While deciding (``columns.allocated`` is read live, so charges and undone charges are seen at once)::

    order = FairOrder(columns, shares, priority, total)
    order.key(queue, job=(cpu, memory, gpu), victims=(0, 0, 0))    # smaller comes first

    rules = ReclaimRules(forest, columns, shares, multiplier=1.0)
    rules.can_reclaim(queue, request, firm=None)
    rules.may_be_victim(queue, request, victim_queue)
    claim = rules.open(queue, request, firm=None)           # copies the queue state
    mark = claim.mark()
    claim.add(victim_queue, cpu, memory, gpu)                      # False: this chunk may not be taken
    claim.accepts()                                                # the whole of what was added is fair
    claim.undo(mark)
"""

from kai.engine.fairness.division import divide, divide_forest
from kai.engine.fairness.order import FairOrder
from kai.engine.fairness.queues import QueueColumns, QueueForest, QueueShares, allocatable_share
from kai.engine.fairness.reclaim import ReclaimRules, Reclamation

__all__ = [
    "FairOrder",
    "QueueColumns",
    "QueueForest",
    "QueueShares",
    "ReclaimRules",
    "Reclamation",
    "allocatable_share",
    "divide",
    "divide_forest",
]
