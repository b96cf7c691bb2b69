"""What fragmentation leaves of free GPUs: how many pods of one size find all of theirs on one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: The sizes that are told of: GPUs of one pod.
SIZES: Final = (1, 2, 4, 8)


def free_slots(nodes_by_free: Sequence[int], size: int) -> int:
    """How many pods of ``size`` whole GPUs find room, beside nothing else.

    Args:
        nodes_by_free: how many nodes have 0, 1, 2 … devices free.
        size: GPUs of each pod, at least 1.
    """
    return sum(nodes * (free // size) for free, nodes in enumerate(nodes_by_free))
