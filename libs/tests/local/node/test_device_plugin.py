"""The device plugin, as a kubelet meets it; and its library, as the bindings of NVIDIA do."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from deadlines import eventually
from kai.wire.kubelet import deviceplugin_pb2 as pb
from kai.wire.kubelet import deviceplugin_pb2_grpc as pb_grpc
from kai_local.node import nvml
from kai_local.node.device_plugin import DevicePlugin, serve

DEVICES = ("GPU-0", "GPU-1")
TELL = """
import pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
print(*[pynvml.nvmlDeviceGetUUID(handle) for handle in handles])
try:
    pynvml.nvmlDeviceGetHandleByIndex(len(handles))
except pynvml.NVMLError as error:
    print(error)
pynvml.nvmlShutdown()
"""


class Kubelet(pb_grpc.RegistrationServicer):
    """Takes note of who registers."""

    def __init__(self) -> None:
        self.registered: list[pb.RegisterRequest] = []

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.Empty:
        self.registered.append(request)
        return pb.Empty()


@asynccontextmanager
async def a_kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    """A kubelet as it begins: what lies in the folder of plugins is removed."""
    for socket in folder.iterdir():
        socket.unlink()
    kubelet, server = Kubelet(), grpc.aio.server()
    pb_grpc.add_RegistrationServicer_to_server(kubelet, server)
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    await server.start()
    yield kubelet
    await server.stop(None)


@pytest.fixture
async def offered(tmp_path: Path) -> AsyncIterator[Path]:
    """The folder of plugins, where one offers its devices."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    plugin = DevicePlugin(
        DEVICES, unhealthy=tmp_path / "unhealthy", broken=tmp_path / "broken", library=tmp_path / nvml.LIBRARY
    )
    task = asyncio.create_task(serve(plugin, folder))
    yield folder
    task.cancel()
    await asyncio.wait([task])


@asynccontextmanager
async def asking(folder: Path) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(f"unix:{folder}/kai-local-gpu.sock") as channel:
        yield pb_grpc.DevicePluginStub(channel)


async def test_it_registers_with_each_kubelet_that_follows(offered: Path) -> None:
    for _ in range(2):
        async with a_kubelet(offered) as kubelet:
            await eventually(lambda kubelet=kubelet: kubelet.registered)
            assert kubelet.registered[0].resource_name == "nvidia.com/gpu"
            assert kubelet.registered[0].version == "v1beta1"


async def test_a_device_is_told_to_be_ill_and_well_again(offered: Path, tmp_path: Path) -> None:
    async with a_kubelet(offered) as kubelet:
        await eventually(lambda: kubelet.registered)
        async with asking(offered) as plugin:
            told = plugin.ListAndWatch(pb.Empty())
            assert {each.ID: each.health for each in (await told.read()).devices} == dict.fromkeys(
                DEVICES, "Healthy"
            )
            (tmp_path / "unhealthy").mkdir()
            (tmp_path / "unhealthy" / "GPU-1").touch()
            assert [each.health for each in (await told.read()).devices] == ["Healthy", "Unhealthy"]
            (tmp_path / "unhealthy" / "GPU-1").unlink()
            assert [each.health for each in (await told.read()).devices] == ["Healthy", "Healthy"]


async def test_a_container_is_told_its_devices_and_given_the_library(offered: Path, tmp_path: Path) -> None:
    async with a_kubelet(offered) as kubelet:
        await eventually(lambda: kubelet.registered)
        async with asking(offered) as plugin:
            wanted = [pb.ContainerAllocateRequest(devices_ids=["GPU-1"])]
            (given,) = (
                await plugin.Allocate(pb.AllocateRequest(container_requests=wanted))
            ).container_responses
            assert dict(given.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}
            (mount,) = given.mounts
            assert (mount.host_path, mount.read_only) == (str(tmp_path / nvml.LIBRARY), True)


@pytest.mark.parametrize("device", ["GPU-7", "GPU-1"])
async def test_a_device_that_is_nobodys_or_broken_is_refused(
    offered: Path, tmp_path: Path, device: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "GPU-1").touch()
    async with a_kubelet(offered) as kubelet:
        await eventually(lambda: kubelet.registered)
        async with asking(offered) as plugin:
            wanted = [pb.ContainerAllocateRequest(devices_ids=[device])]
            with pytest.raises(grpc.aio.AioRpcError, match=device):
                await plugin.Allocate(pb.AllocateRequest(container_requests=wanted))


@pytest.mark.parametrize(
    ("visible", "told"), [("GPU-1", "GPU-1"), ("GPU-0,GPU-1", "GPU-0 GPU-1"), ("", ""), ("void", "")]
)
def test_nvidias_own_bindings_tell_the_devices_of_a_container(
    tmp_path: Path, visible: str, told: str
) -> None:
    nvml.build(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", TELL],
        env={"NVIDIA_VISIBLE_DEVICES": visible, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == ([told, "Invalid Argument"], "")
