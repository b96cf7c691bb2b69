"""NUMA alignment: what the kubelet's topology manager would make of a pod, kept with exact undo.

Amounts are integers: CPU in millicores, everything else in its own unit. Zones are numbered in natural order
of their names (``node-2`` before ``node-10``)::

    ledger = NumaLedger(ignore=("memory",))             # the plugin's ignoreList
    ledger.put(topology) ; ledger.drop("node")          # NodeResourceTopology; put forgets all charges
    request = numa_request(pod)                         # once per pod; None if it can never be aligned

    ledger.fit(request, "node")                         # ZoneAllocation; () if it needs none, None: rejected
    ledger.score(request, "node")                       # 0..100, to be added to the node's score

    mark = ledger.mark()
    ledger.charge("node", allocation)                   # allocated or pipelined, with what fit gave
    ledger.credit("node", allocation)                   # evicted
    ledger.undo(mark)

    ledger.recorded(pod, "node", assumed)               # the allocation of a pod that runs or is being bound
    ledger.describe("node", allocation)                 # for BindDecision.numa_zones
    ledger.available("node")                            # [{resource: amount}] by zone

With ``reconstructAvailable`` (the default) what is available is the allocatable amounts less what was
charged: charge the recorded placements of all active-allocated pods. Without it
``NumaLedger(trust_reported=True)`` starts from the reported availability, in which running pods are
contained: charge only what the cycle decides, and ``put`` again in the next.
"""

from kai.engine.numa.ledger import NumaLedger
from kai.engine.numa.request import NumaRequest, numa_request
from kai.engine.numa.topology import ZoneAllocation, ZoneShare

__all__ = ["NumaLedger", "NumaRequest", "ZoneAllocation", "ZoneShare", "numa_request"]
