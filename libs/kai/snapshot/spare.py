"""What is remembered to save work, of pods that are gone: forgotten when the cluster has shrunk by far.

:mod:`kai.model.remembered` says why. It is forgotten again for a while after: what is remembered anew while
the last of many are going lies between what was theirs, and keeps all of that from the system.
"""

from __future__ import annotations

from typing import Final

from kai.model import cel, remembered
from kai.snapshot.cluster import Cluster

#: A cluster that never had more pods has not shrunk by far.
FEW: Final = 16
#: How often it is forgotten again, and how long after the time before.
AGAIN: Final = 6
AFTER_SECONDS: Final = 20.0


class Shrinkage:
    """Tells when half of the pods are gone, and a few times after: so that it costs nothing by the pod."""

    def __init__(self) -> None:
        self._most = 0
        self._again = 0
        self._told = 0.0

    def is_over(self, count: int, now: float) -> bool:
        """Whether at most half are left of the most since the last time, or since the beginning.

        Also when that was so a while before ``now``, in Unix seconds.
        """
        self._most = max(self._most, count)
        if self._most > FEW and 2 * count <= self._most:
            self._most, self._again = count, AGAIN
        elif self._again and now >= self._told + AFTER_SECONDS:
            self._again -= 1
        else:
            return False
        self._told = now
        return True


def forget_spare(cluster: Cluster) -> None:
    """Forget all that is remembered to save work; what is needed of it is found anew."""
    cluster.kept.forget()
    cluster.budgets.forget_answers()
    cluster.classes.keep({task.cls for task in cluster.tasks.values()})
    cel.COMPILED.forget()
    remembered.forget()
