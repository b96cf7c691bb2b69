"""Trouble with the API server, of either kind, brought about from outside.

Each has ``work`` done so that the trouble finds it under way, and returns when it is over. Answers that fail
go on until the services have met some of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from e2e.harness import REAL, Cluster
from e2e.manifests import as_yaml
from e2e.metrics import total
from kai.kube.errors import KubeError
from kai.kube.resources import PODS, Resource
from kai.model import names
from kai.model.objects import Pod

#: How many answers of the bad kind the services are to meet. A real API server refuses only who asks while it
#: answers another of theirs, and nobody says how often that happens once all is done.
ENOUGH = 1 if REAL else 10
#: How long a store hangs: longer than the API server waits for one answer, shorter than a Lease lasts.
HANGING_SECONDS = 8.0
_FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
Work = Callable[[], Awaitable[None]]
_FLOW = "flowcontrol.apiserver.k8s.io/v1"


async def process_id(cluster: Cluster, name: str) -> int:
    """Of the process of this name; where it is just being started anew, as soon as it runs."""

    async def look() -> int:
        [pid] = [process["pid"] for process in cluster.status()["processes"] if process["name"] == name]
        return pid or 0

    return await cluster.eventually(look, lambda pid: pid > 0, what=f"{name} runs")


async def kill(cluster: Cluster, name: str) -> None:
    """``kill -9``."""
    os.kill(await process_id(cluster, name), signal.SIGKILL)


async def restart(cluster: Cluster, name: str) -> None:
    """End a process in order, so that it gives back its Lease and its successor need not wait for that."""
    os.kill(await process_id(cluster, name), signal.SIGTERM)


async def played(cluster: Cluster, namespace: str, *, count: int, times: float) -> list[Pod]:
    """Wait until so many pods of a namespace are bound, and then until all run.

    That they are bound is ours. KWOK, which plays their nodes, may not notice after such a trouble that a
    watch of the time before tells it nothing any more; it is begun anew then, once.
    """
    await cluster.eventually(
        lambda: cluster.pods(namespace),
        lambda pods: len([pod for pod in pods if pod.spec.node_name]) == len(pods) == count,
        what=f"{count} pods of {namespace} bound, and no more there",
        times=times,
    )
    try:
        return await cluster.running(namespace, count=count)
    except AssertionError:
        if not REAL:
            raise
    await kill(cluster, "kwok")
    return await cluster.running(namespace, count=count)


async def _answered(cluster: Cluster, code: str) -> dict[str, float]:
    """How many answers with such a code each process tells to have had since it started, by address."""
    addresses = [one["address"] for one in cluster.status()["processes"] if one["address"]]
    return {address: await total([address], "kai_api_requests_total", code=code) for address in addresses}


async def _until_met(cluster: Cluster, code: str, last: dict[str, float]) -> None:
    """Wait until the services have had enough answers with such a code since they told the ``last``."""
    met = 0.0

    async def increase() -> float:
        nonlocal met
        for address, now in (await _answered(cluster, code)).items():
            before = last.get(address, 0.0)
            met += now - before if now >= before else now  # who starts anew counts from 0 again
            last[address] = now or before  # and whoever does not answer tells 0
        return met

    await cluster.eventually(increase, lambda count: count >= ENOUGH, what=f"the services meet {code}")


async def served(cluster: Cluster) -> None:
    """Wait until the API server answers, and takes what it is asked to write."""

    async def look() -> str:
        try:
            await cluster.client.list(PODS, namespace="default")
        except KubeError as error:
            return str(error)
        return ""

    await cluster.eventually(look, lambda error: not error, what="the API server answers")


async def server_is_killed(cluster: Cluster, work: Work) -> None:
    """The API server ends, and comes back as it was; all connections break."""
    await work()
    await kill(cluster, "apiserver")
    await served(cluster)


async def store_is_killed(cluster: Cluster, work: Work) -> None:
    """etcd ends, and comes back."""
    await work()
    await kill(cluster, "etcd")
    await served(cluster)
    await _wake_nodes(cluster)


async def history_is_lost(cluster: Cluster, work: Work) -> None:
    """Watches break, and what happened before is not known any more: to go on is answered with 410."""
    await work()
    if not REAL:
        await _fault(cluster, {"compact": True, "dropWatches": True})
        return
    await kill(cluster, "apiserver")
    await _compact(_address(cluster, "etcd"))
    await served(cluster)


async def requests_are_refused(cluster: Cluster, work: Work) -> None:
    """Whatever the services ask is answered with 429 for a while."""
    last = await _answered(cluster, "429")
    async with _no_share(cluster) if REAL else _bad_answers(cluster, 429):
        await work()
        await _until_met(cluster, "429", last)


async def requests_fail(cluster: Cluster, work: Work) -> None:
    """What the services ask is answered with 5xx, or not at all, for a while."""
    if not REAL:
        last = await _answered(cluster, "503")
        async with _bad_answers(cluster, 503):
            await work()
            await _until_met(cluster, "503", last)
        return
    await work()
    pid = await process_id(cluster, "etcd")
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(HANGING_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
    await served(cluster)
    await _wake_nodes(cluster)


TROUBLES: tuple[Callable[[Cluster, Work], Awaitable[None]], ...] = (
    server_is_killed,
    requests_are_refused,
    history_is_lost,
    requests_fail,
    *((store_is_killed,) if REAL else ()),
)


async def _wake_nodes(cluster: Cluster) -> None:
    """KWOK does not repeat a status that was refused; started anew it looks at all pods."""
    await kill(cluster, "kwok")


# --- a real control plane -------------------------------------------------------------------------
def _address(cluster: Cluster, name: str) -> str:
    [address] = [one["address"] for one in cluster.status()["processes"] if one["name"] == name]
    return str(address)


async def _compact(etcd: str) -> None:
    """Have etcd forget all revisions but the newest."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        async with session.post(f"{etcd}/v3/kv/range", json={"key": "AA=="}) as answer:
            revision = (await answer.json())["header"]["revision"]
        async with session.post(f"{etcd}/v3/kv/compaction", json={"revision": revision}) as answer:
            await answer.read()


@asynccontextmanager
async def _no_share(cluster: Cluster):
    """Give our services no share of the API server: it answers one request of theirs at a time, or none."""
    none = {
        "apiVersion": _FLOW,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "none"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 0,
                "lendablePercent": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        },
    }
    everybody = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    accounts = {
        "kind": "ServiceAccount",
        "serviceAccount": {"namespace": names.NAMESPACE, "name": "*"},
    }
    flow = {
        "apiVersion": _FLOW,
        "kind": "FlowSchema",
        "metadata": {"name": "services"},
        "spec": {
            "priorityLevelConfiguration": {"name": "none"},
            "matchingPrecedence": 2,
            "rules": [{"subjects": [accounts], "resourceRules": [everybody]}],
        },
    }
    await cluster.apply(as_yaml(none, flow))
    try:
        await cluster.eventually(
            lambda: cluster.client.get(_FLOW_SCHEMAS, "services"),
            lambda schema: bool(schema.get("status", {}).get("conditions")),
            what="the API server goes by the new flow schema",
        )
        yield
    finally:
        await cluster.delete(_FLOW, "FlowSchema", "services")
        await cluster.delete(_FLOW, "PriorityLevelConfiguration", "none")


# --- the embedded one -----------------------------------------------------------------------------
async def _fault(cluster: Cluster, what: dict) -> None:
    await cluster.client.raw("/kai.local/faults", method="POST", body=what)


@asynccontextmanager
async def _bad_answers(cluster: Cluster, status: int):
    services = ("kai-scheduler", "kai-binder", "kai-pod", "kai-queue")
    rules = [{"count": -1, "user_agent": agent, "status": status} for agent in services]
    await _fault(cluster, {"rules": rules})
    try:
        yield
    finally:
        await cluster.client.raw("/kai.local/faults", method="DELETE")
