"""One cluster for the whole suite: the one that was given, else one of its own."""

import os
import time
import uuid
from pathlib import Path

import pytest

from e2e.dra import Driver
from e2e.harness import REAL, ROOT, Cluster, local_cluster
from e2e.manifests import a_queue, as_yaml
from kai.kube.client import KubeClient
from kai.kube.resources import NODES, PODS
from kai.model.objects import Pod
from kai_local.kubelet.nodes import NodeShape, node_manifest, node_status, slice_manifest
from kai_local.processes.ports import LOOPBACK

#: What brings up no cluster, or always the same, comes out the same as in `make test`, which has run it.
_OF_MAKE_TEST = (
    "bench",
    "gate",
    "guide",
    "hostile",
    "images",
    "soak",
    "suites",
    "test_alerts.py",
    "test_real_nodes.py",
)
collect_ignore = [*_OF_MAKE_TEST] if REAL else []
#: At the end a worker that has one of them would keep all others waiting.
_LONG_FIRST = (
    "e2e/test_upgrade.py",
    "e2e/coming/test_coming.py",
    "e2e/test_usage_over_time.py",
    "e2e/test_faults.py",
)


def pytest_collection_modifyitems(items):
    """Begin with the files that ``KAI_E2E_FIRST`` names, and then with what takes long."""
    named = os.environ.get("KAI_E2E_FIRST", "").split()
    first = [ROOT / name for name in (*named, *_LONG_FIRST)]
    items.sort(key=lambda item: first.index(item.path) if item.path in first else len(first))


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """Name and kubeconfig of the suite's cluster; the name is empty for a cluster that was given."""
    if given := os.environ.get("KAI_E2E_KUBECONFIG"):
        yield "", Path(given)
        return
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubeconfig = tmp_path_factory.mktemp("e2e") / "kubeconfig"
    with local_cluster(name, kubeconfig, "--nodes=4", "--binders=2"):
        yield name, kubeconfig


@pytest.fixture
async def cluster(embedded):
    """The suite's cluster with an open client."""
    name, kubeconfig = embedded
    async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
        yield Cluster(kubeconfig=kubeconfig, client=client, name=name)


@pytest.fixture
async def queue(cluster):
    """Makes queues of the test's own, gone afterwards: ``await queue(parent="", gpus=4, limit=8)``."""
    made = []

    async def make(**shares) -> str:
        name = f"q-{uuid.uuid4().hex[:8]}"
        await cluster.apply(as_yaml(a_queue(name, **shares)))
        made.append(name)
        return name

    yield make
    for name in reversed(made):
        await cluster.delete("scheduling.run.ai/v2", "Queue", name)


@pytest.fixture
async def namespace(cluster):
    """A namespace of the test's own; everything in it is gone afterwards."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await cluster.apply(f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
    yield name
    await cluster.end_namespace(name)


@pytest.fixture
async def node(cluster):
    """Registers nodes of the test's own, gone afterwards: ``await node(NodeShape(gpus=2))``; the name.

    Pods go there that ask for its label ``kubernetes.io/hostname``, or for one of the shape's.
    """
    if not cluster.name:
        pytest.skip("needs simulated nodes")
    made = []

    async def make(shape: NodeShape) -> str:
        name = f"n-{uuid.uuid4().hex[:8]}"
        manifest = node_manifest(name, shape)
        manifest["status"] |= node_status(name, LOOPBACK, time.time())
        await cluster.client.create(NODES, manifest)
        made.append(name)
        await cluster.eventually(  # a real API server lets no pods there until a controller has seen it ready
            lambda: cluster.client.get(NODES, name),
            lambda found: not found["spec"].get("taints"),
            what=f"node {name} takes pods",
        )
        return name

    async def pods_there() -> list[Pod]:
        return [pod for pod in await cluster.client.list(PODS, type=Pod) if pod.spec.node_name in made]

    yield make
    for pod in await pods_there():
        await cluster.delete("v1", "Pod", pod.metadata.name, namespace=pod.metadata.namespace)
    await cluster.eventually(pods_there, lambda pods: not pods, what=f"{made} are empty")
    for name in made:
        await cluster.client.delete(NODES, name)


@pytest.fixture
async def driver(cluster, node):
    """Publishes devices of a driver of its own: ``await driver(2)`` on a new node, ``(2, 2)`` on two."""
    made = []

    async def publish(*devices: int, extended: bool = False, gpus: int = 0) -> Driver:
        name = f"gpu-{uuid.uuid4().hex[:6]}.example.com"
        label = f"e2e.example.com/{name}"
        found = Driver(name, {"nodeSelector": {label: "yes"}}, f"{name}/gpu" if extended else "")
        await cluster.apply(as_yaml(found.device_class()))
        made.append(("DeviceClass", name))
        for count in devices:
            where = await node(NodeShape(gpus=gpus, labels={label: "yes"}))
            published = slice_manifest(where, name, count)
            await cluster.apply(as_yaml(published))
            made.append(("ResourceSlice", published["metadata"]["name"]))
        return found

    yield publish
    for kind, name in reversed(made):
        await cluster.delete("resource.k8s.io/v1", kind, name)
