"""Tells HAMi-core, where it is installed, how much device memory a container may use."""

from __future__ import annotations

from kai.kube.client import KubeClient
from kai.kube.resources import NODES
from kai.model import names
from kai.model.objects import ApiObject
from kai.model.rules.gpus import shared_memory_mib
from kai_binder.plugins import config_maps
from kai_binder.work import Work


class HamiCore:
    """Adds ``CUDA_DEVICE_MEMORY_LIMIT`` to the capabilities ConfigMap. Enforcing it is not ours."""

    name = "hamicore"

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def concerns(self, work: Work) -> bool:
        """Fractions only."""
        return work.fraction

    async def pre_bind(self, work: Work) -> None:
        """Write the limit in MiB; nothing where the node does not say how much memory its devices have."""
        node = await self._client.get(NODES, work.decision.node, type=ApiObject)
        total = shared_memory_mib(node.labels)
        if total is None or work.decision.gpu_portion <= 0:
            return
        limit = f"{int(total * work.decision.gpu_portion)}m"
        target = config_maps.SharingTarget(work.pod)
        await config_maps.write(
            self._client, work.pod, {target.capabilities: {names.CUDA_DEVICE_MEMORY_LIMIT: limit}}
        )

    async def rollback(self, work: Work) -> None:
        """The ConfigMap goes with those of GPU sharing."""
