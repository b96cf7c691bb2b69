"""``python -m kai_local.node.joined KUBECONFIG NODES GPUS``: wait for all real nodes, with their devices."""

from __future__ import annotations

import asyncio
import sys

from kai.kube.client import KubeClient
from kai.kube.resources import NODES
from kai.model import names, quantity
from kai.model.objects import Node
from kai_local.node.kubelet import REAL_LABEL, REAL_VALUE
from kai_local.processes.slowness import slowness

_PATIENCE = 90.0
_LOOK_EVERY = 0.2


def main() -> None:
    """Status 1, with what is wrong with which, if they are not ready in time."""
    kubeconfig, count, gpus = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if late := asyncio.run(_wait(kubeconfig, count, gpus)):
        sys.exit(late)


async def _wait(kubeconfig: str, count: int, gpus: int) -> str:
    """What is missing in the end; empty if all are ready."""
    late = "nothing was seen"
    try:
        async with asyncio.timeout(_PATIENCE * slowness()), KubeClient.connect(kubeconfig) as client:
            while late:
                nodes = [
                    node
                    for node in await client.list(NODES, type=Node)
                    if node.labels.get(REAL_LABEL) == REAL_VALUE
                ]
                late = _late(nodes, count, gpus)
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError:
        return late
    return ""


def _late(nodes: list[Node], count: int, gpus: int) -> str:
    for node in nodes:
        ready = next((each for each in node.status.conditions or () if each.type == "Ready"), None)
        if ready is None or ready.status != "True":
            return f"node {node.metadata.name} is not ready: {ready.message if ready else 'it says nothing'}"
        there = quantity.whole(str((node.status.allocatable or {}).get(names.NVIDIA_GPU, "0")))
        if there != gpus:
            return f"node {node.metadata.name} offers {there} of {gpus} devices"
    return "" if len(nodes) == count else f"{len(nodes)} of {count} kubelets have registered their node"


if __name__ == "__main__":
    main()
