"""What the services ask of the API server: little for a pod, nothing when idle.

Counted at the embedded API server, which knows each service by its user agent.
"""

import asyncio
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

import deadlines
from e2e.harness import REAL, Cluster, local_cluster
from e2e.manifests import a_job, a_pod, as_yaml
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.events import SERIES_SECONDS
from kai_queue_controller.settings import QueueControllerSettings

QUEUE, QUEUES = "default-queue", 2  # and the one above it
SERVICES = (
    "kai-admission",
    "kai-pod-grouper",
    "kai-podgroup-controller",
    "kai-queue-controller",
    "kai-scheduler",
    "kai-binder",
)
NOT_READY = ("kai-podgroup-controller", "create", "events")
QUEUE_STATUS = ("kai-queue-controller", "patch", "queues/status")


# --- what is asked, until nothing more comes ------------------------------------------------------
def of_pods(pods: int, *, groups: int) -> Counter:
    """For so many pods of whole GPUs, in so many groups, that are placed at once."""
    return Counter(
        {
            ("kai-pod-grouper", "create", "podgroups"): groups,
            ("kai-binder", "create", "pods/binding"): pods,
            # Scheduled and Bound; the second and the condition PodBound can be switched off.
            ("kai-binder", "create", "events"): 2 * pods,
            ("kai-binder", "patch", "pods/status"): pods,
            ("kai-podgroup-controller", "patch", "podgroups/status"): groups,
            QUEUE_STATUS: QUEUES,
        }
    )


def of_sharing(*, reservation: bool) -> Counter:
    """For a pod with a part of a GPU: label, ConfigMaps, and who holds the device, or a claim on it."""
    more = {("kai-binder", "create", "configmaps"): 2, ("kai-binder", "patch", "pods"): 1}
    holding = ("kai-binder", "create" if reservation else "patch", "pods")
    return of_pods(1, groups=1) + Counter(more) + Counter({holding: 1})


class Case(NamedTuple):
    """What is created in a namespace, one after the other; how many pods that gives; and what it costs."""

    bodies: Callable[[str], list[dict]]
    pods: int
    costs: Counter
    #: Created one by one for longer than queues wait with their status.
    streams: bool = False
    #: Created by a controller: users may be told that the gang waits for its pods.
    slowly: bool = False


def whole(namespace: str, count: int) -> list[dict]:
    return [a_pod(f"p{number}", namespace, QUEUE, gpus=1) for number in range(count)]


def gang(namespace: str) -> list[dict]:
    return [a_job("gang", namespace, QUEUE, pods=GANG, gang=GANG, gpus=1)]


def sharer(namespace: str) -> list[dict]:
    return [a_pod(f"s-{uuid.uuid4().hex[:8]}", namespace, QUEUE, annotations={"gpu-fraction": "0.5"})]


STREAM, GANG = 40, 8
#: In this order: the last pod shares the device of the one before.
CASES = {
    "a pod at rest": Case(lambda namespace: whole(namespace, 1), 1, of_pods(1, groups=1)),
    "pods in a stream": Case(
        lambda namespace: whole(namespace, STREAM), STREAM, of_pods(STREAM, groups=STREAM), streams=True
    ),
    "a gang": Case(
        gang,
        GANG,
        of_pods(GANG, groups=1) + Counter({("kai-pod-grouper", "get", "jobs"): 1}),
        slowly=True,
    ),
    "the first pod of a shared GPU": Case(sharer, 1, of_sharing(reservation=True)),
    "another pod of a shared GPU": Case(sharer, 1, of_sharing(reservation=False)),
}


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    """Name and kubeconfig of a cluster that counts; no pod waits there so long that it is annotated."""
    if REAL:
        pytest.skip("requests are counted at the embedded API server only")
    name, kubeconfig = f"requests-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("requests") / "kubeconfig"
    with local_cluster(name, kubeconfig, "--nodes=8", "--flag=pod-grouper:annotate-after=1h"):
        yield name, kubeconfig


async def requests_of_services(cluster) -> Counter:
    """Requests by (service, verb, resource) since the counter was reset."""
    report = await cluster.client.raw("/kai.local/requests")
    return Counter(
        {
            (entry["userAgent"], entry["verb"], entry["resource"]): entry["count"]
            for entry in report["requests"]
            if entry["userAgent"].startswith(SERVICES)
        }
    )


def beside_upkeep(requests: Counter) -> Counter:
    """Without what an idle system may go on doing: renewing watches and keeping Leases."""
    return Counter(
        {
            (agent, verb, resource): count
            for (agent, verb, resource), count in requests.items()
            if verb != "watch" and resource != "leases"
        }
    )


async def quiet(cluster, *, looks: int = 10) -> Counter:
    """The requests so far, once none came during so many looks, half a second apart."""
    seen, unchanged = Counter(), 0
    while unchanged < looks:
        await asyncio.sleep(0.5)
        now = beside_upkeep(await requests_of_services(cluster))
        unchanged = unchanged + 1 if now == seen else 0
        seen = now
    return seen


async def test_what_is_placed_at_once_costs_just_what_it_has_to(counting):
    name, kubeconfig = counting
    wrong = []
    async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
        cluster = Cluster(kubeconfig=kubeconfig, client=client, name=name)
        for what, case in CASES.items():
            wrong += [f"{what}: {line}" for line in differences(case, *await cost(cluster, case))]
    assert not wrong, "\n".join(wrong)


async def cost(cluster: Cluster, case: Case) -> tuple[Counter, float]:
    """What was asked for a case, and the seconds until its pods ran."""
    namespace = f"n-{uuid.uuid4().hex[:8]}"
    await cluster.apply(f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}")
    await quiet(cluster)
    await cluster.client.raw("/kai.local/requests", method="DELETE")
    began = time.monotonic()
    await cluster.apply(as_yaml(*case.bodies(namespace)))
    await cluster.running(namespace, count=case.pods)
    seconds = time.monotonic() - began
    return await quiet(cluster), seconds


def differences(case: Case, found: Counter, seconds: float) -> list[str]:
    """Where what was asked is not what it costs."""
    expected = case.costs.copy()
    if case.streams:  # each queue is written once in an interval, however many pods came
        intervals = math.ceil(seconds / QueueControllerSettings().status_interval) + 1
        expected[QUEUE_STATUS] = min(found[QUEUE_STATUS], QUEUES * intervals)
    if case.slowly:
        expected[NOT_READY] = min(found[NOT_READY], 1)
    return [
        f"{found[key]} times {' '.join(key)}, not {expected[key]}"
        for key in sorted(found.keys() | expected.keys())
        if found[key] != expected[key]
    ]


# --- nothing happens ------------------------------------------------------------------------------
@pytest.fixture
async def counted(cluster):
    try:
        await cluster.client.raw("/kai.local/requests")
    except NotFound:
        pytest.skip("requests are counted at the embedded API server only")
    return cluster


async def test_an_idle_system_only_watches_and_keeps_its_leases(counted):
    await quiet(counted)
    began = time.monotonic()
    await counted.client.raw("/kai.local/requests", method="DELETE")
    while requests := await quiet(counted, looks=20):
        # How often an event of earlier tests was repeated is written down within a minute, and then no more.
        assert {(verb, resource) for _, verb, resource in requests} == {("patch", "events")}, requests
        assert time.monotonic() - began < SERIES_SECONDS + deadlines.patience(), requests
        await counted.client.raw("/kai.local/requests", method="DELETE")
