"""The program in a reservation pod: tells one device, exactly one, only once, and ends if it gets another."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden
from kai.kube.resources import NAMESPACES, PODS
from kai.model import names
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_resource_reservation.device import NoDevice, visible_device
from kai_resource_reservation.service import AnotherDevice, announce
from kai_resource_reservation.settings import ReservationSettings

#: The module ``pynvml`` on a machine with one device.
DRIVER = """
class NVMLError(Exception):
    pass

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(handle): return "{device}"
"""


class NVMLError(Exception):
    pass


def nvml(*uuids, broken=False):
    """A driver that sees these devices."""
    state = SimpleNamespace(open=0)

    def init():
        if broken:
            raise NVMLError("driver not loaded")
        state.open += 1

    def shutdown():
        state.open -= 1

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=init,
        nvmlShutdown=shutdown,
        nvmlDeviceGetCount=lambda: len(uuids),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: uuids[handle],
        state=state,
    )


def test_the_one_visible_device_is_told_by_its_uuid():
    driver = nvml("GPU-abc")
    assert visible_device(driver) == "GPU-abc"
    assert driver.state.open == 0


@pytest.mark.parametrize("uuids", [(), ("GPU-a", "GPU-b")])
def test_none_or_several_devices_are_an_error(uuids):
    driver = nvml(*uuids)
    with pytest.raises(NoDevice, match=f"{len(uuids)} GPUs are visible"):
        visible_device(driver)
    assert driver.state.open == 0


def test_a_driver_that_cannot_be_asked_is_an_error():
    with pytest.raises(NoDevice, match="driver not loaded"):
        visible_device(nvml(broken=True))


@pytest.mark.parametrize("missing", ["POD_NAME", "POD_NAMESPACE"])
async def test_without_an_identity_the_program_ends_with_1(monkeypatch, missing):
    for variable in {"POD_NAME", "POD_NAMESPACE"} - {missing}:
        monkeypatch.setenv(variable, "x")
    monkeypatch.delenv(missing, raising=False)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kai_resource_reservation", stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert f"{missing} is not set" in errors.decode()


def test_the_identity_comes_from_the_downward_api(monkeypatch):
    monkeypatch.setenv("POD_NAME", "p")
    monkeypatch.setenv("POD_NAMESPACE", "ns")
    settings = ReservationSettings.parse([])
    settings.require_identity()
    assert (settings.pod_name, settings.pod_namespace) == ("p", "ns")


@pytest.fixture
async def cluster(tmp_path):
    """A server with a pod ``ns/p``, and a client of it."""
    async with ApiServer() as server:
        kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
        async with KubeClient.connect(kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
            await client.create(PODS, pod, namespace="ns")
            yield SimpleNamespace(server=server, client=client, kubeconfig=kubeconfig)


async def told(client):
    """The device that the pod tells."""
    pod = await client.get(PODS, "p", namespace="ns")
    return pod["metadata"].get("annotations", {}).get(names.RESERVED_GPU)


@asynccontextmanager
async def the_program(cluster, folder, *, device):
    """The program in the pod, on a machine whose driver shows one device."""
    (folder / "pynvml.py").write_text(DRIVER.format(device=device))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kai_resource_reservation",
        "--health-listen=127.0.0.1:0",
        "--metrics-listen=127.0.0.1:0",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "KUBECONFIG": cluster.kubeconfig,
            "POD_NAME": "p",
            "POD_NAMESPACE": "ns",
        },
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.integration
async def test_the_device_is_written_on_the_pod_once(cluster):
    first = await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-1")
    written = await cluster.client.get(PODS, "p", namespace="ns")
    second = await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-1")
    assert (first, second) == ("GPU-1", "GPU-1")
    assert written["metadata"]["annotations"][names.RESERVED_GPU] == "GPU-1"
    assert await cluster.client.get(PODS, "p", namespace="ns") == written


@pytest.mark.integration
async def test_another_device_than_was_told_is_refused_and_not_told(cluster):
    await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-1")
    with pytest.raises(AnotherDevice, match="GPU-1 was told, and GPU-2 is what this container was given"):
        await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-2")
    assert await told(cluster.client) == "GPU-1"


@pytest.mark.integration
async def test_a_program_that_is_stopped_is_started_again_unless_it_has_lost_its_device(cluster, tmp_path):
    """A kubelet starts anew what ends with a failure, and what ends without has ended for good."""
    async with the_program(cluster, tmp_path, device="GPU-1") as first:
        await eventually(lambda: told(cluster.client), what="the device on the pod")
        first.send_signal(signal.SIGTERM)
        async with within("the program ends"):
            assert await first.wait() == 143
    async with the_program(cluster, tmp_path, device="GPU-2") as second, within("the program ends"):
        assert await second.wait() == 0


@pytest.mark.integration
async def test_a_write_whose_answer_is_lost_is_a_write_though_it_is_refused_the_second_time(cluster):
    """The policies of the chart let the device be told once."""
    cluster.server.faults.rules += [
        Rule(verb="patch", resource="pods", drop=True, after=True),
        Rule(verb="patch", resource="pods", status=403),
    ]
    assert await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-1") == "GPU-1"


@pytest.mark.integration
async def test_a_write_that_is_refused_at_once_is_none(cluster):
    cluster.server.faults.rules.append(Rule(verb="patch", resource="pods", status=403))
    with pytest.raises(Forbidden):
        await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-1")
