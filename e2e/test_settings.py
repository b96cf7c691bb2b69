"""What an administrator may set otherwise than it is: devices to be named, spreading, limits of nodes."""

import json
import uuid

import pytest
import yaml

from e2e.harness import local_cluster
from e2e.manifests import a_claim, a_job, a_pod, a_volume, as_yaml, on, with_volume
from e2e.page import Page
from e2e.third_party import definitions
from e2e.third_party.cases import DEFINITIONS, Case
from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.kube.client import PatchKind
from kai.kube.errors import ApiError
from kai.kube.resources import CONFIG_MAPS, PODS, PVCS
from kai.model import names
from kai.model.rules.gpu_groups import gpu_groups
from kai_local.kubelet.nodes import NodeShape

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
HAMI = {"hamicore": {"enabled": True}}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Instead of the suite's cluster, one with these settings."""
    folder, name = tmp_path_factory.mktemp("settings"), f"settings-{uuid.uuid4().hex[:8]}"
    plugins = [{"name": plugin} for plugin in DEFAULT_PLUGINS if plugin not in ("gpupack", "gpusharingorder")]
    plugins.append({"name": "gpuspread"})
    for plugin in plugins:
        if plugin["name"] == "nodeplacement":
            plugin["arguments"] = {"gpu": "spread", "cpu": "spread"}
    configuration = {"actions": "allocate, reclaim, preempt", "tiers": [{"plugins": plugins}]}
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(configuration))
    flags = (
        f"scheduler:scheduler-conf={folder / 'scheduler.yaml'}",
        "scheduler:restrict-node-scheduling=true",
        "scheduler:full-hierarchy-fairness=false",
        "scheduler:schedule-csi-storage=true",
        "admission:block-nvidia-visible-devices=true",
        "pod-grouper:knative-gang-schedule=false",
        f"binder:plugins={json.dumps(HAMI)}",
    )
    with local_cluster(name, folder / "kubeconfig", "--nodes=1", *(f"--flag={flag}" for flag in flags)):
        yield name, folder / "kubeconfig"


# --- devices that containers name by themselves ---------------------------------------------------
def naming(pod, value):
    pod["spec"]["containers"][0]["env"] = [{"name": VARIABLE, "value": value}]
    return pod


@pytest.mark.parametrize("value", ["0", "0,1", "all", "GPU-1234"])
async def test_a_container_may_not_name_devices(cluster, namespace, value):
    with pytest.raises(ApiError, match=VARIABLE):
        await cluster.apply(as_yaml(naming(a_pod("p", namespace, "default-queue", gpus=1), value)))


@pytest.mark.parametrize("value", ["void", "none"])
async def test_a_container_may_say_that_it_wants_none(cluster, namespace, value):
    await cluster.apply(as_yaml(naming(a_pod("p", namespace, "default-queue"), value)))


async def test_containers_without_a_gpu_see_none(cluster, namespace):
    pod = a_pod("p", namespace, "default-queue", gpus=1)
    pod["spec"]["containers"].append({"name": "side", "image": "x"})
    [made] = await cluster.apply(as_yaml(pod))
    seen = {
        container["name"]: {entry["name"]: entry.get("value") for entry in container.get("env", [])}
        for container in made["spec"]["containers"]
    }
    assert seen == {"main": {}, "side": {VARIABLE: "void"}}


async def test_a_container_that_is_added_to_a_running_pod_sees_no_device_either(cluster, namespace):
    """As kubectl debug adds one, with an image of the user's choice."""

    async def debug(name, **entry):
        container = {"name": name, "image": "cuda", "env": [{"name": VARIABLE, **entry}]}
        return await cluster.client.patch(
            PODS,
            "p",
            {"spec": {"ephemeralContainers": [container]}},
            namespace=namespace,
            subresource="ephemeralcontainers",
            kind=PatchKind.STRATEGIC,
        )

    await cluster.apply(as_yaml(a_pod("p", namespace, "default-queue")))
    pod = await debug("debugger", value="all")
    assert pod["spec"]["ephemeralContainers"][0]["env"] == [{"name": VARIABLE, "value": "void"}]
    with pytest.raises(ApiError, match=VARIABLE):
        await debug("thief", valueFrom={"configMapKeyRef": {"name": "mine", "key": "devices"}})


# --- nodes for some pods only ---------------------------------------------------------------------
GPU_WORKER, CPU_WORKER = "node-role.kubernetes.io/gpu-worker", "node-role.kubernetes.io/cpu-worker"


async def test_each_kind_of_work_goes_to_its_kind_of_worker_only(cluster, queue, node, namespace):
    name = await queue()
    gpu = await node(NodeShape(gpus=2, labels={GPU_WORKER: "true"}))
    cpu = await node(NodeShape(gpus=0, labels={CPU_WORKER: "true"}))
    await cluster.apply(as_yaml(a_pod("gpu", namespace, name, gpus=1), a_pod("cpu", namespace, name)))
    pods = await cluster.running(namespace, count=2)
    assert {pod.metadata.name: pod.spec.node_name for pod in pods} == {"gpu": gpu, "cpu": cpu}
    await cluster.apply(as_yaml(a_pod("astray", namespace, name, spec=on(gpu))))
    assert await cluster.waits(namespace, "astray")


async def test_no_work_goes_to_a_node_that_is_no_worker(cluster, queue, node, namespace):
    where = await node(NodeShape(gpus=2))
    await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), gpus=1, spec=on(where))))
    assert await cluster.waits(namespace, "p")


async def test_a_pod_goes_only_where_there_is_storage_for_its_claim(cluster, queue, node, namespace):
    """The test is the storage driver: it says how much it has, and makes the volume where it is told to."""
    driver, where = f"{namespace}.example.com", await node(NodeShape(gpus=0, labels={CPU_WORKER: "true"}))
    storage = {"apiVersion": "storage.k8s.io/v1"}
    capacity = {
        **storage,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "free", "namespace": namespace},
        "storageClassName": namespace,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": where}},
        "capacity": "1Gi",
    }
    claim = a_claim("data", namespace, storage_class=namespace, size="2Gi")
    await cluster.apply(
        as_yaml(
            {**storage, "kind": "CSIDriver", "metadata": {"name": driver}, "spec": {"storageCapacity": True}},
            {
                **storage,
                "kind": "StorageClass",
                "metadata": {"name": namespace},
                "provisioner": driver,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            capacity,
            claim,
            with_volume(a_pod("p", namespace, await queue()), "data"),
        )
    )
    await cluster.waits(namespace, "p")
    await cluster.apply(as_yaml(capacity | {"capacity": "3Gi"}))

    async def told() -> str:
        body = await cluster.client.get(PVCS, "data", namespace=namespace)
        return body["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", "")

    await cluster.eventually(told, lambda at: at == where, what="the driver is told the node")
    handle = {"csi": {"driver": driver, "volumeHandle": "v"}}
    made = a_volume(namespace, node=where, storage_class=namespace, size="2Gi", source=handle)
    made["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "name": "data", "namespace": namespace}
    await cluster.apply(as_yaml(made))
    await cluster.running(namespace, count=1)
    for kind, name in (("StorageClass", namespace), ("CSIDriver", driver)):
        await cluster.delete("storage.k8s.io/v1", kind, name)
    await cluster.delete("v1", "PersistentVolume", namespace)


# --- spreading ------------------------------------------------------------------------------------
async def test_work_is_spread_over_nodes(cluster, queue, node, namespace):
    nodes = {await node(NodeShape(gpus=4, labels={GPU_WORKER: "true"})) for _ in range(3)}
    name = await queue()
    for number in range(3):
        await cluster.apply(as_yaml(a_pod(f"p{number}", namespace, name, gpus=1)))
        await cluster.running(namespace, count=number + 1)
    assert {pod.spec.node_name for pod in await cluster.pods(namespace)} == nodes


async def test_parts_are_spread_over_devices(cluster, queue, node, namespace):
    there, name = on(await node(NodeShape(gpus=2, labels={GPU_WORKER: "true"}))), await queue()
    for number in range(2):
        part = a_pod(f"p{number}", namespace, name, annotations={"gpu-fraction": "0.3"}, spec=there)
        await cluster.apply(as_yaml(part))
        pods = await cluster.running(namespace, count=number + 1)
    assert len({group for pod in pods for group in gpu_groups(pod.labels)}) == 2


# --- queues ---------------------------------------------------------------------------------------
async def test_only_leaf_queues_are_compared_without_fairness_at_all_levels(cluster, queue, node, namespace):
    """The lender's department is within its quota and ours has none; see the same in test_reclaim."""
    await node(NodeShape(gpus=4, labels={GPU_WORKER: "true"}))
    rich, poor = await queue(gpus=4), await queue(gpus=0)
    other, own = await queue(parent=rich, gpus=0), await queue(parent=poor, gpus=2)
    await cluster.apply(as_yaml(*(a_pod(f"theirs-{i}", namespace, other, gpus=1) for i in range(4))))
    await cluster.running(namespace, "theirs", count=4)
    await cluster.apply(as_yaml(a_job("ours", namespace, own, pods=2, gang=2, gpus=1)))
    await cluster.running(namespace, "ours", count=2)
    await cluster.running(namespace, "theirs", count=2)


# --- groups ---------------------------------------------------------------------------------------
async def test_pods_of_a_knative_revision_are_groups_of_their_own_where_gangs_are_off(
    cluster, queue, node, namespace
):
    await know(cluster)
    await node(NodeShape(gpus=0, labels={CPU_WORKER: "true"}))
    name = "Knative Service, a gang of its least scale"
    case = Case.load(name, namespace=namespace, queue=await queue())
    await case.submit(cluster)
    pods = await cluster.running(namespace, count=2)
    assert len({pod.annotations[names.POD_GROUP_ANNOTATION] for pod in pods}) == 2


async def know(cluster) -> None:
    await definitions.install(cluster, {"serving.knative.dev": DEFINITIONS["serving.knative.dev"]})


# --- HAMi-core ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("annotations", "limit"),
    [({"gpu-fraction": "0.5"}, "5000m"), ({"gpu-memory": "2500"}, "2500m")],
    ids=["by fraction", "by memory"],
)
async def test_a_part_of_a_device_is_told_its_memory(cluster, queue, node, namespace, annotations, limit):
    shape = NodeShape(gpus=1, gpu_memory_mib=10000, labels={GPU_WORKER: "true"})
    there = on(await node(shape))
    await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), annotations=annotations, spec=there)))
    await cluster.running(namespace, count=1)
    assert await limits(cluster, namespace) == [limit]


async def limits(cluster, namespace):
    """What containers are told of the memory that they may use."""
    found = [one.get("data") or {} for one in await cluster.client.list(CONFIG_MAPS, namespace=namespace)]
    return [data[LIMIT] for data in found if LIMIT in data]


async def test_the_pod_of_the_page_is_told_what_the_page_says(cluster, node, namespace):
    await node(NodeShape(gpus=1, gpu_memory_mib=40960, labels={GPU_WORKER: "true"}))
    page = Page(cluster, namespace)
    await page.apply("gpu-sharing.md", of=lambda body: body["metadata"]["name"] == "page-bounded")
    await page.running("page-bounded")
    assert await limits(cluster, namespace) == ["10240m"]
