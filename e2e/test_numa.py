"""NUMA zones: a node takes only what its kubelet can align, as its NodeResourceTopology says."""

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections import Counter

import pytest
import yaml

from deadlines import patience
from e2e.harness import local_cluster
from e2e.manifests import a_job, a_pod, as_yaml, on
from e2e.page import bodies
from e2e.podresources import a_kubelet, a_sysfs, container, devices, given
from e2e.third_party.definitions import served
from e2e.troubles import restart
from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.kube.resources import PODS
from kai.model import names
from kai_local.kubelet.nodes import NodeShape, NumaShape, numa_manifest
from kai_local.operators.definitions import a_definition

GROUP, KIND = "topology.node.k8s.io", "NodeResourceTopology"
API_VERSION = f"{GROUP}/v1alpha2"
#: Two zones of 4 GPUs, 8 CPUs and 32 GiB each.
SHAPE = NodeShape(gpus=8, cpus=16, memory="64Gi")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Instead of the suite's cluster, one whose scheduler has the plugin, which is off by default."""
    folder, name = tmp_path_factory.mktemp("numa"), f"numa-{uuid.uuid4().hex[:8]}"
    plugins = [{"name": plugin} for plugin in (*DEFAULT_PLUGINS, "numa")]
    (folder / "scheduler.yaml").write_text(yaml.safe_dump({"tiers": [{"plugins": plugins}]}))
    flag = f"--flag=scheduler:scheduler-conf={folder / 'scheduler.yaml'}"
    with local_cluster(name, folder / "kubeconfig", "--nodes=1", flag):
        yield name, folder / "kubeconfig"


async def know_zones(cluster) -> None:
    """Define the kind, as exporters do; a scheduler that has missed it would look again in a minute."""
    if await cluster.client.discover(API_VERSION, KIND, max_age=0) is None:
        body = a_definition(GROUP, KIND, ["v1alpha2"], plural="noderesourcetopologies", scope="Cluster")
        await cluster.apply(as_yaml(body))
        await served(cluster, API_VERSION, KIND)
        await restart(cluster, "scheduler")


@pytest.fixture
async def zones(cluster, node):
    """Registers a node with two zones and says how to go there: ``await zones(policy="restricted")``."""
    await know_zones(cluster)
    made = []

    async def make(**kubelet):
        name = await node(SHAPE)
        await cluster.apply(as_yaml(numa_manifest(name, SHAPE, NumaShape(**kubelet))))
        made.append(name)
        return on(name)

    yield make
    for name in made:
        await cluster.delete(API_VERSION, KIND, name)


def gpus_by_zone(pods) -> Counter:
    """How many GPUs the scheduler takes them to have of each zone."""
    found: Counter = Counter()
    for pod in pods:
        for share in json.loads(pod.annotations.get(names.NUMA_PREDICTED, "[]")):
            found[share["zone"]] += int(share["amount"].get(names.NVIDIA_GPU, 0))
    return found


def guaranteed(pod, *, cpu, memory="1Gi"):
    resources = pod["spec"]["containers"][0]["resources"]
    amounts = {"cpu": cpu, "memory": memory}
    resources["limits"], resources["requests"] = resources.get("limits", {}) | amounts, amounts
    return pod


# --- what a policy lets in ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("policy", "gpus", "runs"),
    [
        ("single-numa-node", 4, {"node-0": 4}),
        ("single-numa-node", 5, None),
        ("restricted", 4, {"node-0": 4}),
        ("restricted", 5, {"node-0": 4, "node-1": 1}),
        ("best-effort", 5, {"node-0": 4, "node-1": 1}),
    ],
)
async def test_a_policy_decides_how_many_zones_a_pod_may_have(
    cluster, queue, zones, namespace, policy, gpus, runs
):
    there = await zones(policy=policy)
    await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), gpus=gpus, spec=there)))
    if runs is None:
        await cluster.waits(namespace, "p", saying="NUMA")
    else:
        assert gpus_by_zone(await cluster.running(namespace, count=1)) == runs


@pytest.mark.parametrize(
    ("policy", "fits"), [("single-numa-node", False), ("restricted", False), ("best-effort", True)]
)
async def test_devices_left_in_two_zones_are_no_pair_where_alignment_is_strict(
    cluster, queue, zones, namespace, policy, fits
):
    name, there = await queue(), await zones(policy=policy)
    first = [a_pod(f"first-{i}", namespace, name, gpus=3, spec=there) for i in range(2)]
    await cluster.apply(as_yaml(*first))
    assert gpus_by_zone(await cluster.running(namespace, "first", count=2)) == {"node-0": 3, "node-1": 3}
    await cluster.apply(as_yaml(a_pod("pair", namespace, name, gpus=2, spec=there)))
    if fits:
        await cluster.running(namespace, "pair", count=1)
    else:
        await cluster.waits(namespace, "pair", saying="NUMA")


async def test_a_node_of_which_nothing_is_known_takes_what_it_has_room_for(cluster, queue, node, namespace):
    await know_zones(cluster)
    there = on(await node(SHAPE))
    await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), gpus=5, spec=there)))
    await cluster.running(namespace, count=1)


@pytest.mark.parametrize(
    ("cpu", "memory", "runs"),
    [("10", "1Gi", False), ("9500m", "1Gi", True), ("1", "40Gi", False)],
    ids=["more CPUs than a zone has", "CPUs that are not exclusive", "more memory than a zone has"],
)
async def test_cpu_and_memory_of_guaranteed_pods_are_aligned(
    cluster, queue, zones, namespace, cpu, memory, runs
):
    pod = guaranteed(a_pod("p", namespace, await queue(), spec=await zones()), cpu=cpu, memory=memory)
    await cluster.apply(as_yaml(pod))
    if runs:
        await cluster.running(namespace, count=1)
    else:
        await cluster.waits(namespace, "p", saying="NUMA")


async def test_cpu_of_other_pods_is_not_aligned(cluster, queue, zones, namespace):
    pod = a_pod("p", namespace, await queue(), spec=await zones())
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "10"}
    await cluster.apply(as_yaml(pod))
    await cluster.running(namespace, count=1)


async def test_what_was_seen_on_the_node_counts_before_what_was_foretold(cluster, queue, zones, namespace):
    name, there = await queue(), await zones()
    await cluster.apply(as_yaml(a_pod("first", namespace, name, gpus=2, spec=there)))
    assert gpus_by_zone(await cluster.running(namespace, "first", count=1)) == {"node-0": 2}
    seen = json.dumps([{"zone": "node-1", "amount": {names.NVIDIA_GPU: "2"}}])
    annotations = {names.NUMA_OBSERVED: seen}
    await cluster.client.patch(PODS, "first", {"metadata": {"annotations": annotations}}, namespace=namespace)
    await cluster.apply(as_yaml(a_pod("second", namespace, name, gpus=4, spec=there)))
    assert gpus_by_zone(await cluster.running(namespace, "second", count=1)) == {"node-0": 4}


async def test_the_pod_of_the_page_gets_one_zone_of_the_node_of_the_page(cluster, node, namespace):
    await know_zones(cluster)
    name = await node(SHAPE)
    topology, pod = bodies("numa.md")
    topology["metadata"]["name"], pod["metadata"]["namespace"] = name, namespace
    pod["spec"] |= on(name)
    await cluster.apply(as_yaml(topology, pod))
    try:
        (found,) = await cluster.running(namespace, "page-aligned", count=1)
        (share,) = json.loads(found.annotations[names.NUMA_PREDICTED])
        assert share["amount"] == {"cpu": "6", names.NVIDIA_GPU: "4"}
    finally:
        await cluster.delete(API_VERSION, KIND, name)


# --- what the exporter tells ----------------------------------------------------------------------
@contextlib.contextmanager
def exporting(cluster, node, socket, sysfs):
    """The exporter on a node whose kubelet answers at this socket."""
    flags = (
        f"--kubeconfig={cluster.kubeconfig}", f"--node-name={node}", f"--podresources-socket={socket}",
        f"--sysfs-root={sysfs}", "--health-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0",
    )  # fmt: skip
    command = [sys.executable, "-m", "kai_numa_placement_exporter", *flags]
    process = subprocess.Popen(command, env=dict(os.environ))
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(timeout=patience()) == 0


async def test_what_a_kubelet_did_counts_for_those_who_come_later(cluster, queue, zones, namespace, tmp_path):
    """A kubelet that chose another zone than was foretold is believed: the next pod goes elsewhere."""
    name, there = await queue(), await zones()
    node = there["nodeSelector"]["kubernetes.io/hostname"]
    await cluster.apply(as_yaml(a_pod("first", namespace, name, gpus=2, spec=there)))
    assert gpus_by_zone(await cluster.running(namespace, "first", count=1)) == {"node-0": 2}
    async with a_kubelet(tmp_path / "kubelet.sock") as kubelet:
        two = container(devices(names.NVIDIA_GPU, "GPU-4", "GPU-5", zones=(1,)))
        kubelet.pods = [given("first", two, namespace=namespace)]
        with exporting(cluster, node, tmp_path / "kubelet.sock", a_sysfs(tmp_path, "0-7", "8-15")):

            async def observed():
                (pod,) = await cluster.pods(namespace, "first")
                return json.loads(pod.annotations.get(names.NUMA_OBSERVED, "[]"))

            seen = [{"zone": "node-1", "amount": {names.NVIDIA_GPU: "2"}}]
            await cluster.eventually(observed, lambda found: found == seen, what="the exporter tells")
            await cluster.apply(as_yaml(a_pod("second", namespace, name, gpus=4, spec=there)))
            second = await cluster.running(namespace, "second", count=1)
    assert gpus_by_zone(second) == {"node-0": 4}


# --- who has to make room -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pods", "gpus", "left"),
    [(1, 1, 3), (1, 2, 3), (1, 3, 2), (1, 4, 2), (2, 2, 2), (2, 4, 0)],
    ids=lambda value: str(value),
)
async def test_reclaim_frees_what_can_be_aligned(cluster, queue, zones, namespace, pods, gpus, left):
    """Four pods of two GPUs fill both zones; for three or four GPUs both pods of one zone have to go."""
    parent = await queue(gpus=8, limit=8)
    other, own = await queue(parent=parent, gpus=0), await queue(parent=parent, gpus=8)
    there = await zones()
    await cluster.apply(
        as_yaml(*(a_pod(f"theirs-{i}", namespace, other, gpus=2, spec=there) for i in range(4)))
    )
    await cluster.running(namespace, "theirs", count=4)
    await cluster.apply(as_yaml(a_job("ours", namespace, own, pods=pods, gang=pods, gpus=gpus, spec=there)))
    ours = await cluster.running(namespace, "ours", count=pods)
    theirs = await cluster.running(namespace, "theirs", count=left)
    taken = gpus_by_zone([*ours, *theirs])
    assert sum(taken.values()) == pods * gpus + left * 2
    assert max(taken.values()) <= 4
    for pod in ours:
        assert len(gpus_by_zone([pod])) == 1


async def test_preemption_takes_one_pod_where_that_frees_a_zone(cluster, queue, zones, namespace):
    name, there = await queue(), await zones()
    await cluster.apply(as_yaml(*(a_pod(f"low-{i}", namespace, name, gpus=4, spec=there) for i in range(2))))
    await cluster.running(namespace, "low", count=2)
    urgent = a_pod("urgent", namespace, name, gpus=3, spec=there, labels={"priorityClassName": "build"})
    await cluster.apply(as_yaml(urgent))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "low", count=1)
