"""Dynamic resource allocation: which devices a pod's claims get on a node, kept with exact undo.

Facts come in as they change; nothing here watches anything::

    inventory = Inventory(labels_of_node)               # labels_of_node(name) -> labels, or None if unknown
    inventory.put_slice(slice) ; inventory.drop_slice(name)
    inventory.put_class(device_class) ; inventory.drop_class(name)
    inventory.forget_node(name)                         # its labels changed, or it left
    inventory.reaches_shared_gpus(node)                 # GPUs that belong to no node alone

    ledger = ClaimLedger(inventory)
    ledger.put_claim(claim) ; ledger.drop_claim("ns/name")

For each pod, once (again when its claims or the device classes change)::

    demand = ledger.demand(pod)                         # PodDemand; demand.gpus: GPUs that its claims ask for
    ledger.obstacle(demand, queue="q")                  # text of what no node can cure, or None

While deciding; a plan is good until the ledger changes::

    plan = ledger.fit(demand, node, offered={"nvidia.com/gpu"})      # Plan, or Unfit(reason)
    plan = ledger.fit(…, after_release=True)            # may wait for devices of releasing pods: plan.waits
    mark = ledger.mark()
    ledger.place(demand, plan)                          # allocated or pipelined there
    ledger.release(demand)                              # being evicted: its devices are about to be free
    ledger.remove(demand)                               # it is gone
    ledger.undo(mark)                                   # exactly as before

    ledger.adopt(demand)                                # at snapshot: a pod that runs, or is being bound
    ledger.counted_gpus(demand)                         # GPUs that others are charged for already
    plan.claim_allocations, plan.extended_claim         # for the BindDecision
"""

from kai.engine.dra.allocator import Unfit
from kai.engine.dra.inventory import DeviceId, Inventory
from kai.engine.dra.ledger import ClaimLedger, Plan
from kai.engine.dra.pods import PodDemand

__all__ = ["ClaimLedger", "DeviceId", "Inventory", "Plan", "PodDemand", "Unfit"]
