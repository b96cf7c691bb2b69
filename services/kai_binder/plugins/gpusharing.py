"""Tells the container of a fraction pod which devices it may use, and which part of them."""

from __future__ import annotations

from typing import Final

from kai.kube.client import KubeClient
from kai.model import names
from kai_binder.errors import BindFailed
from kai_binder.plugins import config_maps
from kai_binder.work import Work

CDI_PREFIX: Final = "k8s.device-plugin.nvidia.com/gpu="


class GpuSharing:
    """Writes the capabilities ConfigMap and its companion for the environment."""

    name = "gpusharing"

    def __init__(self, client: KubeClient, *, cdi: bool) -> None:
        self._client = client
        self._cdi = cdi

    def concerns(self, work: Work) -> bool:
        """Fractions only."""
        return work.fraction

    async def pre_bind(self, work: Work) -> None:
        """Write both ConfigMaps."""
        target = config_maps.SharingTarget(work.pod)
        ids = [CDI_PREFIX + device if self._cdi else device for device in work.devices]
        visible = {names.NVIDIA_VISIBLE_DEVICES: ",".join(ids)}
        portion = {names.GPU_PORTION: work.portion, names.RUNAI_NUM_OF_GPUS: work.portion}
        by_reference = target.devices_by_reference
        await config_maps.write(
            self._client,
            work.pod,
            {
                target.capabilities: {**visible, **portion} if by_reference else portion,
                target.environment: {} if by_reference else visible,
            },
        )

    async def rollback(self, work: Work) -> None:
        """Delete both, if they are the pod's."""
        try:
            target = config_maps.SharingTarget(work.pod)
        except BindFailed:
            return
        await config_maps.delete(self._client, work.pod, [target.capabilities, target.environment])
