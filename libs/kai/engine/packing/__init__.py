"""Placement strategy ``headroom``: put a pod where it takes least from what the workload can still use.

The worth of a node is the amount of GPUs that pods like those of the workload could still take there, given
its CPU and memory; the score of a node for a pod falls with the worth that placing the pod would destroy. So
a hole that nobody fits into costs nothing more to fill around, whole GPUs are not left without CPU, and pods
without GPUs go where GPUs have no use for the CPU. It stands beside binpack and spread as a value of
``placementStrategy``, and as an argument of ``nodeplacement`` (where binpack gives 0 to 9, it gives more
than 0 up to 9, one node at a time)::

    workload = Workload.of(counts, capacity=gpus)      # Shape -> weight, e.g. pods by scheduling class
    headroom = Headroom(workload)                      # cheap; make a new one when the mix has changed
    score, device = headroom.score(free, request)      # by row of free; -inf where it does not fit

``free`` (:class:`FreeNodes`) are columns of what is free, or will be once releases are done: CPU, memory,
whole devices, and the free part of every device in use; any rows will do, all or one. ``device`` is the
column of the shared device to use, or -1 for a whole one. With the score of ``gpusharingorder`` off, nothing
else has to change: scores of a row depend on this row, the request and the workload only, so a class needs
to score again just the nodes that were touched.

With ``numba`` (the extra ``fast``) the loop over nodes is compiled; without it numpy gives the same figures.
"""

from kai.engine.packing.free import FreeNodes
from kai.engine.packing.headroom import Headroom
from kai.engine.packing.workload import Request, Shape, Workload

__all__ = ["FreeNodes", "Headroom", "Request", "Shape", "Workload"]
