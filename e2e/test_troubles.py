"""The API server in trouble under load: everything is bound once, and nobody believes what is not so."""

import asyncio
import base64
import functools
import uuid
from collections import Counter

import pytest

from e2e.harness import Cluster, local_cluster
from e2e.manifests import a_job, a_pod, a_queue, as_yaml
from e2e.metrics import total
from e2e.troubles import TROUBLES, played
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import POD_GROUPS, PODS, QUEUES, Resource
from kai.model import names
from kai.model.objects import Pod, PodGroup, Queue
from kai.model.rules.gpu_groups import gpu_groups
from kai.snapshot import codec
from kai.wire.channel import TlsFiles
from kai.wire.clients import connect_scheduler

NODES, GPUS_PER_NODE = 25, 8
#: Of each load: whole GPUs, halves of GPUs, and a gang.
WHOLE, HALVES, GANG = 16, 6, 6
SECRETS = Resource("", "v1", "secrets", "Secret")


@pytest.fixture
async def cluster(tmp_path):
    """A cluster of its own."""
    name = f"trouble-{uuid.uuid4().hex[:8]}"
    kubeconfig = tmp_path / "kubeconfig"
    size = (f"--nodes={NODES}", f"--gpus-per-node={GPUS_PER_NODE}", "--binders=2")
    with local_cluster(name, kubeconfig, *size):
        async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
            yield Cluster(kubeconfig=kubeconfig, client=client, name=name)


async def test_all_is_bound_once_and_known_whatever_befalls_the_api_server(cluster, tmp_path):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "load"}}
    await cluster.apply(as_yaml(a_queue("load"), namespace))
    for number, trouble in enumerate(TROUBLES, start=1):
        await trouble(cluster, functools.partial(submit, cluster, f"load-{number}"))
        pods = await played(cluster, "load", count=number * (WHOLE + HALVES + GANG), times=2)

    assert_nothing_is_double(pods, await cluster.pods(names.RESERVATION_NAMESPACE))
    await cluster.eventually(
        lambda: differences(cluster, tmp_path),
        lambda found: not found,
        what="the scheduler knows what a fresh list says",
    )
    await cluster.eventually(
        lambda: charged(cluster),
        lambda found: found == {"status": charge(pods), "groups": charge(pods)},
        what=f"the queue and its groups are charged {charge(pods)} GPUs",
    )
    addresses = [one["address"] for one in cluster.status()["processes"] if one["address"]]
    assert await total(addresses, "kai_api_relists_total") > 0
    assert await total(addresses, "kai_state_corrections") == 0


async def submit(cluster: Cluster, load: str) -> None:
    """A load, all at once, and nobody waits for it."""
    bodies = [a_pod(f"{load}-whole-{i}", "load", "load", gpus=1) for i in range(WHOLE)]
    halves = {"gpu-fraction": "0.5"}
    bodies += [a_pod(f"{load}-half-{i}", "load", "load", annotations=halves) for i in range(HALVES)]
    bodies.append(a_job(f"{load}-gang", "load", "load", pods=GANG, gang=GANG, gpus=1))
    await asyncio.gather(*(cluster.apply(as_yaml(body)) for body in bodies))


def assert_nothing_is_double(pods: list[Pod], reservations: list[Pod]) -> None:
    """Every device has one user, or two halves; a pod without device would have failed."""
    groups = Counter(group for pod in pods for group in gpu_groups(pod.labels))
    assert max(groups.values()) <= 2
    assert {pod.labels[names.GPU_GROUP_LABEL] for pod in reservations} == set(groups)
    used = Counter(pod.spec.node_name for pod in [*pods, *reservations] if not gpu_groups(pod.labels))
    used += Counter(pod.spec.node_name for pod in reservations if gpu_groups(pod.labels))
    assert max(used.values()) <= GPUS_PER_NODE


async def differences(cluster: Cluster, folder) -> set:
    """What the scheduler believes and is not so, and what it does not know."""
    snapshot = codec.decode(await state_of_scheduler(cluster, folder))
    known = {believed(pod) for pod in snapshot.each_pod()}
    known |= {(group.key, group.spec.queue, group.spec.min_member) for group in snapshot.pod_groups}
    known |= {(queue.key, queue.metadata.generation) for queue in snapshot.queues}
    pods, groups, queues = await asyncio.gather(
        cluster.client.list(PODS, type=Pod),
        cluster.client.list(POD_GROUPS, type=PodGroup),
        cluster.client.list(QUEUES, type=Queue),
    )
    true = {believed(pod) for pod in pods}
    true |= {(group.key, group.spec.queue, group.spec.min_member) for group in groups}
    true |= {(queue.key, queue.metadata.generation) for queue in queues}
    return known ^ true


def believed(pod: Pod) -> tuple:
    """What matters of a pod."""
    meta = pod.metadata
    group = pod.annotations.get(names.POD_GROUP_ANNOTATION, "")
    return pod.key, meta.uid, pod.spec.node_name, pod.status.phase, group, tuple(sorted(pod.labels.items()))


async def state_of_scheduler(cluster: Cluster, folder) -> bytes:
    where = {"lease_name": names.SCHEDULER_NAME, "namespace": names.NAMESPACE}
    tls = await tls_files(cluster, folder)
    async with connect_scheduler(cluster.client, **where, tls=tls) as scheduler:
        _, data = await scheduler.snapshot()
        return data


async def tls_files(cluster: Cluster, folder) -> TlsFiles | None:
    """What an installation by the chart keeps for the command line; None without."""
    try:
        secret = await cluster.client.get(SECRETS, "kai-cli-grpc-tls-secret", namespace=names.NAMESPACE)
    except NotFound:
        return None
    for name, data in secret["data"].items():
        (folder / name).write_bytes(base64.b64decode(data))
    return TlsFiles(
        ca=folder / "ca.crt",
        cert=folder / "tls.crt",
        key=folder / "tls.key",
        namespace=names.NAMESPACE,
    )


def charge(pods: list[Pod]) -> float:
    """GPUs of these pods."""
    return sum(0.5 if "gpu-fraction" in pod.annotations else 1 for pod in pods)


async def charged(cluster: Cluster) -> dict[str, float]:
    """GPUs that the queue is charged, by its own status and by those of the pod groups."""
    queue = await cluster.client.get(QUEUES, "load")
    groups = await cluster.client.list(POD_GROUPS, namespace="load")
    allocated = [group.get("status", {}).get("resourcesStatus", {}).get("allocated", {}) for group in groups]
    return {
        "status": gpus(queue.get("status", {}).get("allocated", {})),
        "groups": sum(map(gpus, allocated)),
    }


def gpus(amounts: dict[str, str]) -> float:
    from kai.model.resource_lists import parsed

    return float(sum(parsed(amount) for name, amount in amounts.items() if "gpu" in name))
