"""The program in a reservation pod, on a machine that has an NVIDIA driver and one GPU."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys

import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai.kube.resources import NAMESPACES, PODS
from kai.model import names
from kai_local.apiserver.serving.server import ApiServer
from kai_resource_reservation.device import NoDevice, visible_device


def listed_devices():
    """The UUIDs that the driver's own program lists."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.split()


DEVICES = listed_devices()
on_one_gpu = pytest.mark.skipif(
    len(DEVICES) != 1, reason=f"needs one NVIDIA GPU; this machine has {len(DEVICES)}"
)


@on_one_gpu
def test_the_device_is_the_one_that_the_driver_lists():
    assert [visible_device()] == DEVICES


@pytest.mark.skipif(bool(DEVICES), reason="this machine has an NVIDIA driver")
def test_a_machine_without_a_driver_is_told_as_that():
    with pytest.raises(
        NoDevice, match=r"NVML cannot be asked: .+; does the container have the NVIDIA runtime\?"
    ):
        visible_device()


@on_one_gpu
@pytest.mark.integration
async def test_the_program_tells_its_device_and_holds_it_until_it_is_stopped(tmp_path):
    async with ApiServer() as server:
        kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
        async with KubeClient.connect(kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
            await client.create(PODS, pod, namespace="ns")
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kai_resource_reservation",
                "--health-listen=127.0.0.1:0",
                "--metrics-listen=127.0.0.1:0",
                env={**os.environ, "KUBECONFIG": kubeconfig, "POD_NAME": "p", "POD_NAMESPACE": "ns"},
            )

            async def told():
                pod = await client.get(PODS, "p", namespace="ns")
                return pod["metadata"].get("annotations", {}).get(names.RESERVED_GPU)

            assert [await eventually(told, what="the device on the pod")] == DEVICES
            assert process.returncode is None
            process.send_signal(signal.SIGTERM)
            async with within("the program ends"):
                assert await process.wait() == 143
