"""What a kernel and a kubelet say, as zones."""

import json

import pytest

from e2e.podresources import a_sysfs, container, devices, given, memory
from kai_numa_placement_exporter.placement import placement
from kai_numa_placement_exporter.sysfs import NoTopology, cpus_of, zones_by_cpu

ZONES = dict.fromkeys(range(4), 0) | dict.fromkeys(range(4, 8), 1)
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("5", [5]),
        ("0-1,4-5\n", [0, 1, 4, 5]),
        ("", []),
        ("\n", []),
    ],
)
def test_lists_of_cpus_are_read(text, cpus):
    assert list(cpus_of(text)) == cpus


@pytest.mark.parametrize("text", ["x", "0-", "-3", "0-3-5", "0;1", "1.5"])
def test_what_is_no_list_of_cpus_is_refused(text):
    with pytest.raises(NoTopology, match="no list of CPUs"):
        list(cpus_of(text))


def test_zones_are_read_from_the_kernel(tmp_path):
    assert zones_by_cpu(a_sysfs(tmp_path, "0-3", "4-7")) == ZONES


def test_a_zone_without_cpus_is_none_of_theirs(tmp_path):
    assert zones_by_cpu(a_sysfs(tmp_path, "0-1", "")) == {0: 0, 1: 0}


@pytest.mark.parametrize("cpulists", [(), ("",)], ids=["no zones", "no CPUs"])
def test_a_kernel_that_names_no_zone_is_told(tmp_path, cpulists):
    with pytest.raises(NoTopology, match="no NUMA node"):
        zones_by_cpu(a_sysfs(tmp_path, *cpulists))


def test_a_sys_that_is_not_there_is_told(tmp_path):
    with pytest.raises(NoTopology, match=r"cannot be read.*mounted there"):
        zones_by_cpu(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("containers", "zones"),
    [
        ([], []),
        ([container()], []),
        ([container(devices(GPU, "a", "b"))], [("node-0", {GPU: "2"})]),
        (
            [container(devices(GPU, "a", zones=(1,)), devices(GPU, "b"), cpus=[0, 1, 4])],
            [("node-0", {"cpu": "2", GPU: "1"}), ("node-1", {"cpu": "1", GPU: "1"})],
        ),
        (
            [container(devices(GPU, "a"), cpus=[0]), container(devices(GPU, "b"), cpus=[1])],
            [("node-0", {"cpu": "2", GPU: "2"})],
        ),
        (
            [container(memory("memory", 2**30), memory("hugepages-2Mi", 2**21, zones=(1,)))],
            [("node-0", {"memory": "1073741824"}), ("node-1", {"hugepages-2Mi": "2097152"})],
        ),
        ([container(devices(GPU, "a", zones=(0, 1)))], []),
        ([container(devices(GPU, "a", zones=()))], []),
        ([container(memory("memory", 2**30, zones=(0, 1)))], []),
        ([container(cpus=[64])], []),
        ([container(devices(GPU))], []),
    ],
    ids=[
        "no containers",
        "nothing of its own",
        "devices",
        "several zones, in order",
        "containers add up",
        "memory and huge pages",
        "a device between two zones",
        "a device that is near no zone",
        "memory from two zones",
        "a CPU that the kernel does not name",
        "devices without ids",
    ],
)
def test_what_belongs_to_one_zone_is_told(containers, zones):
    expected = [{"zone": zone, "amount": amount} for zone, amount in zones]
    found = placement(given("p", *containers), ZONES)
    assert (json.loads(found) if found else []) == expected


def test_the_same_is_told_in_the_same_words():
    one = given("p", container(devices(GPU, "a"), devices("b.com/nic", "x"), cpus=[5, 0]))
    other = given("p", container(devices("b.com/nic", "y"), devices(GPU, "c"), cpus=[1, 4]))
    assert placement(one, ZONES) == placement(other, ZONES)
