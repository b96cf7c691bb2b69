"""What a pod prefers of a node whatever is on it: node affinity, and taints that it had better avoid.

Both are kube-scheduler's, but that what it works out among the nodes with room for the pod is worked out here
among all nodes that may take it, which does not change while pods come and go.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.kernel.static import StaticFilters
from kai.model.arrays import Floats, Mask
from kai.model.rules.taints import tolerates
from kai.snapshot.classes import TaskClass

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def preferences(static: StaticFilters, cls: TaskClass, allowed: Mask) -> Floats | None:
    """An addition to the order of nodes, as far as it differs between those allowed; None if it does not.

    ``[nodes]``; of nodes that are not allowed it means nothing. Costs time by the nodes for each term and
    each taint, so whoever asks keeps it with the class.
    """
    parts = [
        part * weight * Weight.PREFERENCE
        for part, weight in (
            (_affinity(static, cls, allowed), Weight.NODE_AFFINITY),
            (_untainted(static, cls, allowed), Weight.TAINTS),
        )
        if part is not None
    ]
    return np.sum(parts, axis=0) if parts else None


def _affinity(static: StaticFilters, cls: TaskClass, allowed: Mask) -> Floats | None:
    """The weights of all terms that a node satisfies, of the most that any does in hundredths."""
    terms = (cls.constraints.node_affinity or {}).get(_PREFERRED)
    if not terms:
        return None
    total = np.zeros(len(static.nodes))
    for term in terms:
        total += float(term.get("weight", 0)) * static.labels.terms([term.get("preference") or {}])
    most = total.max(where=allowed, initial=0.0)
    return total * (Weight.MOST / most) if most else None


def _untainted(static: StaticFilters, cls: TaskClass, allowed: Mask) -> Floats | None:
    """100 less the number of taints that the pod does not tolerate, of the most of any in hundredths."""
    if not static.avoided:
        return None
    count = np.zeros(len(static.nodes))
    for taint, tainted in static.avoided.items():
        if not any(tolerates(each, taint) for each in cls.constraints.tolerations):
            count += tainted
    most = count.max(where=allowed, initial=0.0)
    return Weight.MOST - count * (Weight.MOST / most) if most else None
