"""What is remembered to save work, of pods that are gone: forgotten when the cluster has shrunk by far.

:mod:`kai.model.remembered` says why.
"""

from __future__ import annotations

from typing import Final

from kai.model import cel, remembered
from kai.snapshot.cluster import Cluster

#: A cluster that never had more pods has not shrunk by far.
FEW: Final = 16


class Shrinkage:
    """Tells when half of the pods are gone: each time once, so that it costs nothing by the pod."""

    def __init__(self) -> None:
        self._most = 0

    def by_half(self, count: int) -> bool:
        """Whether at most half are left of the most since the last time, or since the beginning."""
        self._most = max(self._most, count)
        if self._most <= FEW or 2 * count > self._most:
            return False
        self._most = count
        return True


def forget_spare(cluster: Cluster) -> None:
    """Forget all that is remembered to save work; what is needed of it is found anew."""
    cluster.kept.forget()
    cluster.budgets.forget_answers()
    cluster.classes.keep({task.cls for task in cluster.tasks.values()})
    cel.COMPILED.forget()
    remembered.forget()
