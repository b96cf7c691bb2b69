"""What somebody could change in a cluster, as data.

Each knows how it is made in a state, with which command people make it, and how it is said.

``change``     what all have in common; several at once
``queues``     quota, limit and weight of a queue; a queue that is deleted
``groups``     priority, preemptibility and minimum of a workload
``pods``       where a workload's pods may run, and what they ask for
``nodes``      nodes that are added, drained or removed
``workloads``  work that comes or goes
"""

from kai.simulate.changes.change import Change, ChangeRefused, made, make
from kai.simulate.changes.groups import SetMinimum, SetPreemptibility, SetPriority
from kai.simulate.changes.nodes import AddNodes, DrainNode, RemoveNode
from kai.simulate.changes.pods import (
    AddToleration,
    DropConstraint,
    SetGpuShare,
    SetNodeSelector,
    SetRequest,
)
from kai.simulate.changes.queues import RESOURCES, Bound, DeleteQueue, SetBounds
from kai.simulate.changes.workloads import AddWorkload, RemoveWorkload

__all__ = [
    "RESOURCES",
    "AddNodes",
    "AddToleration",
    "AddWorkload",
    "Bound",
    "Change",
    "ChangeRefused",
    "DeleteQueue",
    "DrainNode",
    "DropConstraint",
    "RemoveNode",
    "RemoveWorkload",
    "SetBounds",
    "SetGpuShare",
    "SetMinimum",
    "SetNodeSelector",
    "SetPreemptibility",
    "SetPriority",
    "SetRequest",
    "made",
    "make",
]
