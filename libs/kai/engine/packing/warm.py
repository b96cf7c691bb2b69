"""``python -m kai.engine.packing.warm``: compile the loop over nodes into numba's cache, as images do once.

Types decide what is compiled; they are those that the engine passes.
"""

from __future__ import annotations

import numpy as np

from kai.engine.packing import FreeNodes, Headroom, Shape, Workload


def main() -> None:
    """Score one node for a pod, with whatever there is to score."""
    node = FreeNodes(np.ones(1), np.ones(1), np.ones(1), np.zeros((1, 1)), np.zeros(1, dtype=np.int64))
    Headroom(Workload.of({})).score(node, Shape(1.0, 1.0, 1))


if __name__ == "__main__":
    main()
