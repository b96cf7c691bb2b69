"""Tells the container of a fraction pod which devices it may use, and which part of them."""

from __future__ import annotations

from typing import Final

from kai.kube.client import KubeClient
from kai.model import names
from kai.model.objects import Pod
from kai_binder.errors import BindFailed
from kai_binder.plugins import config_maps
from kai_binder.work import Work

CDI_PREFIX: Final = "k8s.device-plugin.nvidia.com/gpu="


async def devices_told(client: KubeClient, pod: Pod) -> frozenset[str]:
    """The devices that the container of a fraction pod was told to use; empty if that is not known."""
    try:
        target = config_maps.SharingTarget(pod)
    except BindFailed:
        return frozenset()
    name = target.capabilities if target.devices_by_reference else target.environment
    ids = (await config_maps.read(client, pod, name)).get(names.NVIDIA_VISIBLE_DEVICES, "")
    return frozenset(each.removeprefix(CDI_PREFIX) for each in ids.split(",") if each)


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
