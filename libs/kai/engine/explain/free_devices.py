"""How free GPUs are spread over nodes, as a cycle leaves them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kai.model.arrays import Mask
from kai.snapshot.kept import Kept
from kai.snapshot.resources import GPU
from kai.snapshot.state import ClusterState

_READY: Final = Kept[Mask]()
_FOUND: Final = Kept[tuple[int, ...]]()


def nodes_by_free(state: ClusterState) -> tuple[int, ...]:
    """How many nodes that take pods have 0, 1, 2 … GPUs of which nothing is given away.

    Costs nothing where no node has changed since it was last asked.
    """
    table = state.nodes
    return _FOUND.get(state.kept, (table.epoch, table.log_end), lambda: _counted(state))


def _counted(state: ClusterState) -> tuple[int, ...]:
    ready = _READY.get(state.kept, state.nodes.epoch, lambda: _ready(state))
    return tuple(np.bincount(state.nodes.idle[ready, GPU].clip(min=0)).tolist())


def _ready(state: ClusterState) -> Mask:
    nodes = state.nodes.nodes
    return np.fromiter((node.ready for node in nodes), dtype=bool, count=len(nodes))
