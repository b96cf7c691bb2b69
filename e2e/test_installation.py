"""What a user sees of the installation itself: its pods, and those that other schedulers would place."""

import os
import signal

import pytest

from e2e.harness import REAL
from e2e.manifests import a_pod, as_yaml
from e2e.troubles import process_id
from kai.kube.resources import PODS
from kai.model import names


async def system_pods(cluster) -> list[dict]:
    found = await cluster.client.list(PODS, namespace=names.NAMESPACE)
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def restarts(pods: list[dict]) -> list[int]:
    """Of all whose container is ready; -1 for the others."""
    states = [one for pod in pods for one in pod["status"].get("containerStatuses") or [{"ready": False}]]
    return [one["restartCount"] if one["ready"] else -1 for one in states]


async def test_a_pod_that_names_no_scheduler_runs(cluster, namespace):
    pod = a_pod("plain", namespace, "")
    del pod["spec"]["schedulerName"]
    pod["metadata"]["labels"] = {}
    await cluster.apply(as_yaml(pod))
    [found] = await cluster.running(namespace, count=1)
    assert found.spec.node_name in await cluster.worker_nodes()


@pytest.mark.skipif(not REAL, reason="without a real control plane the services are no pods")
async def test_pods_of_the_installation_outlive_what_runs_them(cluster, queue, namespace):
    before = await cluster.eventually(
        lambda: system_pods(cluster),
        lambda pods: len(pods) > 1 and min(restarts(pods)) >= 0,
        what="the installation is ready",
    )
    os.kill(await process_id(cluster, "node-agent"), signal.SIGKILL)
    told = sum(restarts(before)) + len(before)
    after = await cluster.eventually(
        lambda: system_pods(cluster),
        lambda pods: min(restarts(pods)) >= 0 and sum(restarts(pods)) >= told,
        what="every pod tells that it was started again",
    )
    addresses = [{pod["metadata"]["uid"]: pod["status"]["podIP"] for pod in pods} for pods in (before, after)]
    assert addresses[0] == addresses[1]
    await cluster.apply(as_yaml(a_pod("part", namespace, await queue(), annotations={"gpu-fraction": "0.5"})))
    await cluster.running(namespace, count=1)
