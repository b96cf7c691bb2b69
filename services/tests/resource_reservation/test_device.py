"""The program in a reservation pod: tells one device, exactly one, and only once."""

import asyncio
import sys
from types import SimpleNamespace

import pytest

from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden
from kai.kube.resources import NAMESPACES, PODS
from kai.model import names
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_resource_reservation.device import NoDevice, visible_device
from kai_resource_reservation.service import announce
from kai_resource_reservation.settings import ReservationSettings


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
            yield SimpleNamespace(server=server, client=client)


@pytest.mark.integration
async def test_the_device_is_written_on_the_pod_once(cluster):
    first = await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-1")
    # Restarted, the container might see another one: what was told counts.
    second = await announce(cluster.client, name="p", namespace="ns", find_device=lambda: "GPU-2")
    written = await cluster.client.get(PODS, "p", namespace="ns")
    assert (first, second) == ("GPU-1", "GPU-1")
    assert written["metadata"]["annotations"][names.RESERVED_GPU] == "GPU-1"


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
