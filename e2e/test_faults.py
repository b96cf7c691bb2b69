"""Processes die while 500 pods are placed: all end bound exactly once, and nothing is left behind."""

import asyncio
import uuid
from collections import Counter

import pytest

from e2e.harness import REAL, Cluster, local_cluster
from e2e.manifests import a_pod, a_queue, as_yaml
from e2e.troubles import kill, played
from kai.kube import errors
from kai.kube.client import KubeClient
from kai.model import names
from kai.model.rules.gpu_groups import gpu_groups

WHOLE, SHARED = 400, 100
NODES, GPUS_PER_NODE = 60, 8
VICTIMS = (
    "redis",
    "admission",
    "pod-grouper",
    "podgroup-controller",
    "apiserver",
    "queue-controller",
    "binder-1",
    *(("controllers", "etcd") if REAL else ("machinery",)),
    "scheduler",
    "binder-2",
    *(("kwok",) if REAL else ()),
)


@pytest.fixture
async def large_cluster(tmp_path):
    """A cluster with room for the load, of its own: its processes get killed."""
    name = f"faults-{uuid.uuid4().hex[:8]}"
    kubeconfig = tmp_path / "kubeconfig"
    size = (f"--nodes={NODES}", f"--gpus-per-node={GPUS_PER_NODE}", "--binders=2")
    with local_cluster(name, kubeconfig, *size):
        async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
            yield Cluster(kubeconfig=kubeconfig, client=client, name=name)


async def test_every_process_is_killed_in_turn_under_load(large_cluster):
    cluster = large_cluster
    await cluster.apply(
        as_yaml(a_queue("load"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "load"}})
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(submit(cluster))
        for number, victim in enumerate(VICTIMS, start=1):
            share = number * WHOLE // (len(VICTIMS) + 1)
            await cluster.eventually(
                lambda: bound(cluster),
                lambda n, share=share: n >= share,
                times=2,
                what=f"{share} pods bound",
            )
            await kill(cluster, victim)
    pods = await played(cluster, "load", count=WHOLE + SHARED, times=3)

    # The kubelet refuses a pod that its node has no device for, so a double booking would show as Failed.
    whole = Counter(pod.spec.node_name for pod in pods if pod.metadata.name.startswith("whole"))
    groups = Counter(group for pod in pods for group in gpu_groups(pod.labels))
    assert max(groups.values()) <= 2
    reservations = await cluster.pods(names.RESERVATION_NAMESPACE)
    assert {pod.labels[names.GPU_GROUP_LABEL] for pod in reservations} == set(groups)
    used = whole + Counter(pod.spec.node_name for pod in reservations)
    assert all(count <= GPUS_PER_NODE for count in used.values())
    uids = [pod.metadata.uid for pod in pods]
    assert len(set(uids)) == WHOLE + SHARED

    restarts = {process["name"]: process["restarts"] for process in cluster.status()["processes"]}
    assert all(restarts[victim] >= 1 for victim in VICTIMS)

    await asyncio.gather(*(cluster.delete("v1", "Pod", pod.metadata.name, namespace="load") for pod in pods))
    await cluster.eventually(
        lambda: cluster.pods(names.RESERVATION_NAMESPACE),
        lambda left: not left,
        what="no reservation is left",
    )


async def submit(cluster: Cluster) -> None:
    """All pods, a few at a time; like a controller it tries again while admission or the server is away."""
    bodies = [a_pod(f"whole-{i}", "load", "load", gpus=1) for i in range(WHOLE)]
    shared = [
        a_pod(f"shared-{i}", "load", "load", annotations={"gpu-fraction": "0.5"}) for i in range(SHARED)
    ]
    for i, body in enumerate(shared):
        bodies.insert(i * 5, body)
    slots = asyncio.Semaphore(8)

    async def one(body) -> None:
        async with slots:
            while True:
                try:
                    await cluster.apply(as_yaml(body))
                except errors.TransportError:
                    continue  # the client has waited already
                except errors.ServerError as error:
                    if "webhook" not in str(error):
                        raise
                    await asyncio.sleep(0.2)
                else:
                    return

    await asyncio.gather(*(one(body) for body in bodies))


async def bound(cluster: Cluster) -> int:
    return sum(bool(pod.spec.node_name) for pod in await cluster.pods("load"))
