"""The Node object that stands for this machine."""

from __future__ import annotations

import time
from typing import Any

import psutil

from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists
from kai.kube.resources import NODES
from kai_local.kubelet.nodes import node_status
from kai_local.parts.this_machine import KUBELET_PORT, NODE
from kai_local.processes.ports import LOOPBACK

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_PODS = "250"


async def register(client: KubeClient) -> None:
    """Make it, unless it is there. Nothing is scheduled to it: it is tainted as control planes are."""
    try:
        await client.create(NODES, manifest(time.time()))
    except AlreadyExists:
        return


def manifest(now: float) -> dict[str, Any]:
    """What it is: the cores and the memory that this machine has, and no GPU for anybody."""
    offered = {
        "cpu": str(psutil.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total // 2**20}Mi",
        "pods": _PODS,
    }
    status = node_status(NODE, LOOPBACK, now)
    status["nodeInfo"] |= {"containerRuntimeVersion": "processes://1", "kernelVersion": "this machine's"}
    status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": KUBELET_PORT}}
    return {
        # No hostname: who spreads pods over hosts would count it as an empty one, though it is tainted.
        "metadata": {"name": NODE, "labels": {_CONTROL_PLANE: ""}},
        "spec": {"taints": [{"key": _CONTROL_PLANE, "effect": "NoSchedule"}]},
        "status": status | {"capacity": offered, "allocatable": offered},
    }
