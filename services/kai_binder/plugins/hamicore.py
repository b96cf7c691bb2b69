"""Tells HAMi-core, where it is installed, how much device memory a container may use."""

from __future__ import annotations

from kai.kube.client import KubeClient
from kai.kube.resources import NODES
from kai.model import names
from kai.model.decisions import BindDecision
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
        """Write the limit in MiB; nothing for a part of devices whose memory the node does not say."""
        limit = await self._limit_mib(work.decision)
        if limit is None:
            return
        target = config_maps.SharingTarget(work.pod)
        await config_maps.write(
            self._client, work.pod, {target.capabilities: {names.CUDA_DEVICE_MEMORY_LIMIT: f"{limit}m"}}
        )

    async def _limit_mib(self, decision: BindDecision) -> int | None:
        if decision.gpu_memory_mib:  # the portion is rounded up then: limits of one device could exceed it
            return decision.gpu_memory_mib
        node = await self._client.get(NODES, decision.node, type=ApiObject)
        total = shared_memory_mib(node.labels)
        if total is None or decision.gpu_portion <= 0:
            return None
        return int(total * decision.gpu_portion)

    async def rollback(self, work: Work) -> None:
        """The ConfigMap goes with those of GPU sharing."""
