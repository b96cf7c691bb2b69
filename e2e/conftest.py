"""One cluster for the whole suite: the one that was given, else one of its own."""

import os
import uuid
from pathlib import Path

import pytest

from e2e.harness import Cluster, local_cluster
from e2e.manifests import a_queue, as_yaml
from kai.kube.client import KubeClient


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
    await cluster.delete("v1", "Namespace", name)
    await cluster.eventually(
        lambda: cluster.pods(name), lambda pods: not pods, within=30, what=f"namespace {name} is emptied"
    )
