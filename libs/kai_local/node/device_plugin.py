"""``python -m kai_local.node.device_plugin``: offers stand-in GPUs to the kubelet of a node.

A device is ill while a file of its name lies in the folder ``--unhealthy``. While one lies in ``--broken``,
it is said to be well and yet cannot be given to anybody. A container that is given devices finds their names
in ``NVIDIA_VISIBLE_DEVICES``, and a library that tells them as NVIDIA's own does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from kai.model import names
from kai.wire.kubelet import deviceplugin_pb2 as pb
from kai.wire.kubelet import deviceplugin_pb2_grpc as pb_grpc

#: Kubelets look nowhere else.
_FOLDER: Final = Path("/var/lib/kubelet/device-plugins")
_KUBELET: Final = "kubelet.sock"
_OWN: Final = "kai-local-gpu.sock"
_VERSION: Final = "v1beta1"
VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_LIBRARIES: Final = "/usr/lib/x86_64-linux-gnu"
_LOOK_EVERY: Final = 0.5
_REGISTER_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class DevicePlugin(pb_grpc.DevicePluginServicer):
    """Some devices, each of which is ill while a file of its name lies in ``unhealthy``, or ``broken``.

    ``library``: what a container with a device finds among its libraries.
    """

    def __init__(self, devices: Sequence[str], *, unhealthy: Path, broken: Path, library: Path) -> None:
        self._devices = tuple(devices)
        self._unhealthy = unhealthy
        self._broken = broken
        self._library = library

    async def GetDevicePluginOptions(self, request: pb.Empty, context: Any) -> pb.DevicePluginOptions:  # noqa: N802
        """Nothing beyond what is asked of all."""
        return pb.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802
        self, request: pb.Empty, context: Any
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        """All devices, at once and whenever the health of one has changed."""
        told = None
        while True:
            ill = self._named_in(self._unhealthy)
            if ill != told:
                told = ill
                _log.info("devices told", devices=len(self._devices), unhealthy=sorted(ill))
                yield pb.ListAndWatchResponse(
                    devices=[
                        pb.Device(ID=each, health="Unhealthy" if each in ill else "Healthy")
                        for each in self._devices
                    ]
                )
            await asyncio.sleep(_LOOK_EVERY)

    async def Allocate(self, request: pb.AllocateRequest, context: Any) -> pb.AllocateResponse:  # noqa: N802
        """What each container needs; a device that is none of ours is refused."""
        answers = []
        for wanted in request.container_requests:
            if unknown := set(wanted.devices_ids) - set(self._devices):
                await context.abort(grpc.StatusCode.NOT_FOUND, f"no devices of ours: {sorted(unknown)}")
            if broken := self._named_in(self._broken) & set(wanted.devices_ids):
                await context.abort(grpc.StatusCode.INTERNAL, f"devices do not answer: {sorted(broken)}")
            mount = pb.Mount(
                container_path=f"{_LIBRARIES}/{self._library.name}",
                host_path=str(self._library),
                read_only=True,
            )
            told = {VISIBLE: ",".join(sorted(wanted.devices_ids))}
            answers.append(pb.ContainerAllocateResponse(envs=told, mounts=[mount]))
        return pb.AllocateResponse(container_responses=answers)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: pb.PreferredAllocationRequest, context: Any
    ) -> pb.PreferredAllocationResponse:
        """Not asked: all are alike."""
        return pb.PreferredAllocationResponse()

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Any
    ) -> pb.PreStartContainerResponse:
        """Not asked: there is nothing to prepare."""
        return pb.PreStartContainerResponse()

    def _named_in(self, folder: Path) -> frozenset[str]:
        with contextlib.suppress(FileNotFoundError):
            return frozenset(path.name for path in folder.iterdir()) & frozenset(self._devices)
        return frozenset()


async def serve(plugin: pb_grpc.DevicePluginServicer, folder: Path = _FOLDER) -> None:
    """Offer the plugin's devices to the kubelet in ``folder`` until cancelled, anew to each that follows."""
    while True:
        with contextlib.suppress(FileNotFoundError, grpc.aio.AioRpcError):
            kubelet = (folder / _KUBELET).stat().st_ino
            await _serve_one(plugin, folder, kubelet)
        await asyncio.sleep(_LOOK_EVERY)


async def _serve_one(plugin: pb_grpc.DevicePluginServicer, folder: Path, kubelet: int) -> None:
    """Serve until the kubelet has begun anew: then it has removed our socket, and its own is another one."""
    own = folder / _OWN
    own.unlink(missing_ok=True)
    server = grpc.aio.server()
    pb_grpc.add_DevicePluginServicer_to_server(plugin, server)
    server.add_insecure_port(f"unix:{own}")
    await server.start()
    try:
        await _register(folder)
        _log.info("registered", resource=names.NVIDIA_GPU)
        while own.exists() and (folder / _KUBELET).stat().st_ino == kubelet:  # noqa: ASYNC110 - other's files
            await asyncio.sleep(_LOOK_EVERY)
    finally:
        await server.stop(None)


async def _register(folder: Path) -> None:
    request = pb.RegisterRequest(version=_VERSION, endpoint=_OWN, resource_name=names.NVIDIA_GPU)
    async with grpc.aio.insecure_channel(f"unix:{folder / _KUBELET}") as channel:
        await pb_grpc.RegistrationStub(channel).Register(request, timeout=_REGISTER_SECONDS)


def main() -> None:
    """Offer devices until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.node.device_plugin", description=__doc__)
    parser.add_argument("--unhealthy", type=Path, required=True)
    parser.add_argument("--broken", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("devices", nargs="*")
    given = parser.parse_args()
    plugin = DevicePlugin(
        given.devices, unhealthy=given.unhealthy, broken=given.broken, library=given.library
    )
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_until_ended(plugin))


async def _until_ended(plugin: DevicePlugin) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await serve(plugin)


if __name__ == "__main__":
    main()
