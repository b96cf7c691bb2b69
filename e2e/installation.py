"""What an installation by the chart says of itself, and what administrators write there."""

from __future__ import annotations

import os
import sys
import time
from contextlib import asynccontextmanager, contextmanager

from deadlines import BASE_SECONDS, patience
from e2e.harness import REAL, chart_cluster
from kai.kube.errors import NotFound
from kai.kube.resources import CONFIGS, LEASES
from kai.model import names

HOME = names.NAMESPACE
#: Of the usual patience, for what is to be so within ten seconds where the machine is quick and idle.
SOON = 10.0 / BASE_SECONDS
#: What clients wait for, of Config and of shards.
AWAITED = ("Deployed", "Available", "DependenciesFulfilled")


@contextmanager
def an_installation(request, name):
    """For a fixture ``embedded``: one by the chart, as the suite's is on a real control plane."""
    if REAL or os.environ.get("KAI_E2E_KUBECONFIG"):
        yield request.getfixturevalue("embedded")
        return
    folder = request.getfixturevalue("tmp_path_factory").mktemp(name)
    with chart_cluster(name, folder, request.getfixturevalue("helm_program")) as made:
        yield made


async def ready(cluster, resource=CONFIGS, name="kai-config"):
    """What it says of being ready: status, reason, message; None while that is of an earlier generation."""
    found = await cluster.client.get(resource, name)
    conditions = (found.get("status") or {}).get("conditions") or ()
    told = next((one for one in conditions if one["type"] == "Ready"), {})
    current = told.get("observedGeneration") == found["metadata"]["generation"]
    return (told["status"], told["reason"], told["message"]) if current else None


async def until_ready(cluster, resource=CONFIGS, name="kai-config"):
    await cluster.eventually(
        lambda: ready(cluster, resource, name),
        lambda told: told is not None and told[0] == "True",
        what=f"{name} is ready",
    )


async def settled(cluster, resource=CONFIGS, name="kai-config"):
    """Wait until all that clients wait for is true of the newest generation."""

    async def told():
        found = await cluster.client.get(resource, name)
        return [
            one["type"]
            for one in (found.get("status") or {}).get("conditions") or ()
            if one["status"] == "True" and one["observedGeneration"] == found["metadata"]["generation"]
        ]

    await cluster.eventually(told, set(AWAITED).issubset, what=f"{name} is {', '.join(AWAITED)}")


async def change(cluster, resource, name, **spec):
    await cluster.client.patch(resource, name, {"spec": spec})


@asynccontextmanager
async def changed(cluster, resource, name, *, back, **spec):
    """As administrators have it, and as it was before when the block ends."""
    await change(cluster, resource, name, **spec)
    try:
        await until_ready(cluster, resource, name)
        yield
    finally:
        await change(cluster, resource, name, **back)
        await until_ready(cluster, resource, name)


async def there(cluster, resource, name, *, namespace=HOME):
    try:
        return await cluster.client.get(resource, name, namespace=namespace)
    except NotFound:
        return None


async def soon(cluster, look, accept, *, since, what):
    """Wait for what has to be so within ten seconds of ``since``, even if looking takes a while."""
    found = await cluster.eventually(look, accept, what=what, times=SOON)
    seconds = time.monotonic() - since
    assert seconds < patience(SOON), f"{what}: only after {seconds:.1f} s"
    sys.stdout.write(f"after {seconds:.1f} s: {what}\n")  # pytest -rP shows it
    return found


async def leader(cluster):
    """Which scheduler of the default shard leads: for a moment after a rollout nobody does, ready or not."""

    async def holder():
        return (await there(cluster, LEASES, names.SCHEDULER_NAME))["spec"].get("holderIdentity")

    return await cluster.eventually(holder, bool, what="a scheduler leads")
