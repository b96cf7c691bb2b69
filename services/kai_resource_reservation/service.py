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


class AnotherDevice(Exception):
    """The container has another device than its pod tells: what was told is held by nobody any more."""


class ReservationService:
    """One per reservation pod."""

    name = "resource-reservation"
    needs_cluster = True

    def __init__(
        self, settings: ReservationSettings, *, find_device: Callable[[], str] = visible_device
    ) -> None:
        self.settings = settings
        self._find_device = find_device
        #: Whether it ended because the device that the pod tells is not the one that it holds.
        self.lost_device = False

    async def run(self, host: Host) -> None:
        """Tell, then wait; returns at once if the device is not the one that was told."""
        try:
            await announce(
                host.client,
                name=self.settings.pod_name,
                namespace=self.settings.pod_namespace,
                find_device=self._find_device,
            )
        except NoDevice as error:
            raise FatalError(str(error)) from error
        except AnotherDevice as error:
            self.lost_device = True
            _log.error("the reserved device is lost", reason=str(error))
            return
        await host.stopping.wait()


async def announce(client: KubeClient, *, name: str, namespace: str, find_device: Callable[[], str]) -> str:
    """Write the device on the pod, unless it is there already (we were restarted); gives the device.

    A kubelet that has lost its records, or a machine in the place of another, may give a pod that lives on
    another device than before.

    Raises:
        NoDevice: there is not exactly one.
        AnotherDevice: the pod tells another one.
        KubeError: the pod cannot be read or written.
    """
    pod = await client.get(PODS, name, namespace=namespace, type=ApiObject)
    device = find_device()
    if told := pod.annotations.get(names.RESERVED_GPU):
        if told != device:
            raise AnotherDevice(f"{told} was told, and {device} is what this container was given")
        return device
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
