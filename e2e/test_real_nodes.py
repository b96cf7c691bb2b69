"""Real kubelets and containers on this machine: they run pods, and leave nothing whatever happens."""

import os
import signal
import stat

import pytest

from deadlines import eventually
from e2e import real_nodes
from e2e.harness import kai
from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden
from kai.kube.resources import NODES, PODS
from kai.model.objects import Node, Pod
from kai_local.node.runtime import PAUSE_IMAGE

NAME = "real-nodes"


@pytest.fixture
def files(monkeypatch, tmp_path):
    found = real_nodes.own_state(monkeypatch, tmp_path / "state", NAME)
    real_nodes.require(found)
    before = real_nodes.traces(found)
    yield found
    kai("local", "down", f"--name={NAME}", check=False)
    assert real_nodes.traces(found) == before


def up(kubeconfig, *flags):
    return kai(
        "local", "up", f"--name={NAME}", "--real", "--kubelets=2", "--nodes=1", "--gpus-per-node=2",
        "--no-services", f"--kubeconfig={kubeconfig}", "--detach", *flags,
    )  # fmt: skip


def a_pod(name, **spec):
    container = {"name": "main", "image": PAUSE_IMAGE, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeSelector": {"kai.local/node": "real"}, "containers": [container], **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def running(client, name):
    async def look():
        return await client.get(PODS, name, namespace="default", type=Pod)

    return await eventually(look, lambda pod: pod.status.phase == "Running", what=f"{name} runs")


async def made(client, manifest):
    # The controllers make the account of a namespace after that.
    await eventually(
        lambda: client.create(PODS, manifest, namespace="default"),
        what="a pod is taken",
        passing=(Forbidden,),
    )


async def test_pods_run_in_containers_beside_simulated_ones_and_nothing_is_left(files, tmp_path):
    before = real_nodes.traces(files)
    up(tmp_path / "kubeconfig")
    async with KubeClient.connect(str(tmp_path / "kubeconfig")) as client:
        nodes = {node.metadata.name: node for node in await client.list(NODES, type=Node)}
        assert sorted(nodes) == ["kubelet-0", "kubelet-1", "node-0"]
        assert nodes["kubelet-0"].status.allocatable["nvidia.com/gpu"] == "2"
        names = [f"pod-{number}" for number in range(4)]
        for name in names:
            await made(client, a_pod(name))
        placed = [(await running(client, name)).spec.node_name for name in names]
        assert sorted(placed) == ["kubelet-0", "kubelet-0", "kubelet-1", "kubelet-1"]
        await made(client, a_pod("simulated", nodeSelector={"kubernetes.io/hostname": "node-0"}))
        await running(client, "simulated")
    there = real_nodes.traces(files)
    assert sum("/pause" in (each["cmdline"] or ()) for each in there["processes"]) == 8  # one holds each pod
    assert there["interfaces"]
    assert there["cgroups"]
    for untouched in ("mounts", "rules", "settings", "folders"):
        assert there[untouched] == before[untouched]
    kai("local", "down", f"--name={NAME}")
    assert real_nodes.traces(files) == before


async def test_nothing_is_left_of_a_cluster_whose_processes_were_all_killed(files, tmp_path):
    before = real_nodes.traces(files)
    up(tmp_path / "kubeconfig")
    async with KubeClient.connect(str(tmp_path / "kubeconfig")) as client:
        await made(client, a_pod("pod"))
        await running(client, "pod")
    record = files.read()
    for process in (record.supervisor, *record.processes):
        process.identity.signal(signal.SIGKILL)
    assert real_nodes.traces(files)["processes"], "containers outlive those who have started them"
    kai("local", "down", f"--name={NAME}")
    assert real_nodes.traces(files) == before


async def test_nothing_is_left_of_a_start_that_failed(files, tmp_path, monkeypatch):
    before = real_nodes.traces(files)
    broken = tmp_path / "assets" / "kubelet"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho this kubelet does not start >&2\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", os.pathsep.join([str(broken.parent)]))
    with pytest.raises(AssertionError, match="this kubelet does not start"):
        up(tmp_path / "kubeconfig")
    assert real_nodes.traces(files) == before
