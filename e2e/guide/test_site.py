"""What the guide reads of a node, it reads right."""

import json

import pytest

from e2e.guide.site import NotAsTold, Site, port_of
from kai_local.box.state import ClusterFiles


def a_checkpoint(*given):
    entries = [
        {
            "PodUID": uid,
            "ContainerName": "c",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": {"-1": list(devices)},
        }
        for uid, *devices in given
    ]
    return json.dumps({"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": {}}, "Checksum": 1})


class Client:
    """Lists pods of these uids."""

    def __init__(self, *uids):
        self._uids = uids

    async def list(self, resource):
        return [{"metadata": {"uid": uid}, "status": {"phase": "Running"}} for uid in self._uids]


@pytest.fixture
def site(tmp_path):
    def make(*given, there=()):
        folder = tmp_path / "nodes" / "kubelet-0" / "kubelet" / "device-plugins"
        folder.mkdir(parents=True)
        (folder / "kubelet_internal_checkpoint").write_text(a_checkpoint(*given))
        return Site(
            ClusterFiles("guide", tmp_path), tmp_path / "kubeconfig", Client(*there), tmp_path / "helm"
        )

    return make


def test_devices_are_those_of_the_kubelets_checkpoint(site):
    assert site(("a", "GPU-0"), ("b", "GPU-1", "GPU-2")).devices("kubelet-0") == {
        "a": ["GPU-0"],
        "b": ["GPU-1", "GPU-2"],
    }


def test_a_kubelet_that_has_given_nothing_says_null(site):
    assert site().devices("kubelet-0") == {}


async def test_a_device_of_two_pods_is_not_as_told(site):
    with pytest.raises(NotAsTold, match="GPU-0"):
        await site(("a", "GPU-0"), ("b", "GPU-0"), there=("a", "b")).no_device_twice()


async def test_what_the_kubelet_remembers_of_pods_that_are_gone_counts_for_nothing(site):
    assert await site(("gone", "GPU-0"), ("b", "GPU-0"), there=("b",)).no_device_twice() == {"b": ["GPU-0"]}


async def test_pods_that_have_ended_or_are_going_are_none(site):
    def a_pod(name, phase, **metadata):
        return {"metadata": {"name": name, **metadata}, "status": {"phase": phase}}

    async def listed(resource, **asked):
        return [
            a_pod("on", "Running"),
            a_pod("over", "Failed"),
            a_pod("going", "Running", deletionTimestamp="now"),
        ]

    made = site()
    made.client.list = listed
    assert [pod["metadata"]["name"] for pod in await made.pods("team")] == ["on"]


def test_the_port_is_read_of_what_kubectl_says():
    assert port_of("Forwarding from 127.0.0.1:34567 -> 8000\n") == 34567
    with pytest.raises(NotAsTold, match="says 'error"):
        port_of("error: no such service")
