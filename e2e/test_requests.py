"""What the services ask of the API server: little for a pod, nothing when idle.

Counted at the embedded API server, which knows each service by its user agent.
"""

import asyncio
import time
from collections import Counter

import pytest

import deadlines
from e2e.manifests import a_pod, as_yaml
from kai.kube.errors import NotFound
from kai.kube.events import SERIES_SECONDS

PODS = 40
BUDGET = 5
#: The event Bound and the condition PodBound, which can be switched off.
TELLING = 2
SERVICES = (
    "kai-admission",
    "kai-pod-grouper",
    "kai-podgroup-controller",
    "kai-queue-controller",
    "kai-scheduler",
    "kai-binder",
)


@pytest.fixture
async def counted(cluster):
    try:
        await cluster.client.raw("/kai.local/requests")
    except NotFound:
        pytest.skip("requests are counted at the embedded API server only")
    return cluster


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


async def test_a_pod_that_fits_costs_at_most_five_requests_and_two_that_tell_of_its_bind(counted, namespace):
    await quiet(counted)
    await counted.client.raw("/kai.local/requests", method="DELETE")
    for number in range(PODS):
        await counted.apply(as_yaml(a_pod(f"p{number}", namespace, "default-queue")))
    await counted.eventually(
        lambda: counted.pods(namespace),
        lambda pods: len(pods) == PODS and all(pod.status.phase == "Running" for pod in pods),
        what="all pods run",
    )
    requests = await quiet(counted)
    per_pod = sum(requests.values()) / PODS
    listing = "\n".join(f"{count:5} {' '.join(key)}" for key, count in sorted(requests.items()))
    assert per_pod <= BUDGET + TELLING, f"{per_pod:.2f} requests per pod\n{listing}"
    bindings = sum(count for (_, _, resource), count in requests.items() if resource == "pods/binding")
    groups = sum(
        count
        for (_, verb, resource), count in requests.items()
        if (verb, resource) == ("create", "podgroups")
    )
    marks = requests["kai-binder", "patch", "pods/status"]
    assert (bindings, groups, marks) == (PODS, PODS, PODS)


async def test_an_idle_system_only_watches_and_keeps_its_leases(counted):
    await quiet(counted)
    began = time.monotonic()
    await counted.client.raw("/kai.local/requests", method="DELETE")
    while requests := await quiet(counted, looks=20):
        # How often an event of earlier tests was repeated is written down within a minute, and then no more.
        assert {(verb, resource) for _, verb, resource in requests} == {("patch", "events")}, requests
        assert time.monotonic() - began < SERIES_SECONDS + deadlines.patience(), requests
        await counted.client.raw("/kai.local/requests", method="DELETE")
