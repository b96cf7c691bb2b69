"""Tells on its own pod which GPU the device plugin gave it, then holds that GPU until it is stopped."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden
from kai.kube.resources import PODS
from kai.model import names
from kai.model.objects import ApiObject
from kai.runtime import FatalError, Host
from kai_resource_reservation.device import NoDevice, visible_device
from kai_resource_reservation.settings import ReservationSettings

_log = structlog.get_logger(__name__)


class ReservationService:
    """One per reservation pod."""

    name = "resource-reservation"
    needs_cluster = True

    def __init__(
        self, settings: ReservationSettings, *, find_device: Callable[[], str] = visible_device
    ) -> None:
        self.settings = settings
        self._find_device = find_device

    async def run(self, host: Host) -> None:
        """Tell, then wait."""
        try:
            await announce(
                host.client,
                name=self.settings.pod_name,
                namespace=self.settings.pod_namespace,
                find_device=self._find_device,
            )
        except NoDevice as error:
            raise FatalError(str(error)) from error
        await host.stopping.wait()


async def announce(client: KubeClient, *, name: str, namespace: str, find_device: Callable[[], str]) -> str:
    """Write the device on the pod, unless it is there already (we were restarted); gives the device.

    Raises:
        NoDevice: there is not exactly one.
        KubeError: the pod cannot be read or written.
    """
    pod = await client.get(PODS, name, namespace=namespace, type=ApiObject)
    if told := pod.annotations.get(names.RESERVED_GPU):
        return told
    device = find_device()
    patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {names.RESERVED_GPU: device}}}
    try:
        await client.patch(PODS, name, patch, namespace=namespace)
    except Forbidden:
        # A device is told once: the client may have told it before, and have heard of that in no answer.
        pod = await client.get(PODS, name, namespace=namespace, type=ApiObject)
        if pod.annotations.get(names.RESERVED_GPU) != device:
            raise
    _log.info("device announced", pod=f"{namespace}/{name}", device=device)
    return device
