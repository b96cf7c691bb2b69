"""Pods whose group the scheduler is told: bound once, with the annotation there, whoever dies on the way."""

import asyncio
import json
import os
import signal
import sys

import pytest

from kai.kube.resources import JOBS, POD_GROUPS, PODS
from kai.model import names

pytestmark = pytest.mark.integration
GROUPER = (
    "--grpc-listen=127.0.0.1:0",
    "--annotate-after=1h",
    "--lease-duration=2s",
    "--lease-renew-deadline=1500ms",
    "--lease-retry-period=200ms",
)
SCHEDULER = (
    "--grpc-listen=127.0.0.1:0",
    "--plugin-server-port=0",
    "--lease-duration=2s",
    "--lease-renew-deadline=1500ms",
    "--lease-retry-period=300ms",
)


async def listened_to(cluster, grouper):
    """Wait until a scheduler is told of groups."""

    async def listens():
        return grouper.metrics.get_sample_value("kai_podgrouper_listeners")

    await cluster.until(listens)


async def groups_of(cluster):
    """The group that each pod says it is in; all of them exist."""
    found = {
        pod["metadata"]["name"]: pod["metadata"]["annotations"].get(names.POD_GROUP_ANNOTATION)
        for pod in await cluster.pods()
    }
    exist = {group["metadata"]["name"] for group in await cluster.client.list(POD_GROUPS)}
    assert set(found.values()) <= exist | {None}
    return found


async def whole(cluster, *pods):
    """Each is bound, where there was room, and says in which group it is, of which there is one."""
    nodes = await cluster.bound(*pods)
    assert max(nodes.count(node) for node in set(nodes)) <= 8

    async def said():
        groups = await groups_of(cluster)
        return groups if all(groups.values()) else None

    groups = await cluster.until(said)
    assert len(set(groups.values())) == len(pods) == len(await cluster.client.list(POD_GROUPS))
    for pod in await cluster.pods():
        assert groups[pod["metadata"]["name"]] == f"pg-{pod['metadata']['name']}-{pod['metadata']['uid']}"


async def decided(cluster, scheduler, count):
    """Wait until so many pods have been decided about."""

    async def outstanding():
        return scheduler.metrics.get_sample_value("kai_decisions_outstanding") == count

    await cluster.until(outstanding)


async def test_a_pod_that_finds_room_costs_two_writes_and_is_bound_with_its_group(cluster):
    await cluster.node("n1")
    async with (
        cluster.scheduler(),
        cluster.binder(tell_bound=False),
        cluster.pod_grouper() as grouper,
    ):
        await listened_to(cluster, grouper)
        cluster.server.counts.reset()
        pods = [f"p{number}" for number in range(6)]
        for name in pods:
            await cluster.bare_pod(name)
        await whole(cluster, *pods)
        written = {
            (entry["userAgent"].split("/")[0], entry["verb"], entry["resource"]): entry["count"]
            for entry in cluster.server.counts.report()
            if entry["userAgent"].startswith("kai-")
            and entry["verb"] not in ("watch", "list", "get")
            and entry["resource"] not in ("leases", "events")
        }
    assert written == {
        ("kai-pod-grouper", "create", "podgroups"): 6,
        ("kai-binder", "create", "pods/binding"): 6,
    }


async def test_a_gang_is_bound_whole_before_any_of_its_pods_says_so(cluster):
    await cluster.node("n1", gpus=4)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    annotations = {"kai.scheduler/batch-min-member": "4"}
    metadata = {"name": "train", "labels": {names.QUEUE_LABEL: "test"}, "annotations": annotations}
    job = await cluster.client.create(
        JOBS, {"metadata": metadata, "spec": {"template": template}}, namespace="default"
    )
    async with cluster.scheduler() as scheduler, cluster.binder(), cluster.pod_grouper() as grouper:
        await listened_to(cluster, grouper)
        for number in range(3):
            await cluster.bare_pod(f"train-{number}", owner=job)

        async def seen():
            return await cluster.client.list(POD_GROUPS)

        await cluster.until(seen)
        await cluster.bare_pod("beside", gpus=0)
        await cluster.bound("beside")
        assert (scheduler.metrics.get_sample_value("kai_binds_total", {"result": "bound"}) or 0) <= 1
        await cluster.bare_pod("train-3", owner=job)
        await cluster.bound(*(f"train-{number}" for number in range(4)))
    groups = await groups_of(cluster)
    del groups["beside"]
    assert set(groups.values()) == {f"pg-train-{job['metadata']['uid']}"}
    assert cluster.requests("pod-grouper", "patch", "pods") == 0


async def test_a_pod_that_waits_says_its_group_after_a_moment(cluster):
    await cluster.node("n1", gpus=1)
    async with cluster.scheduler(), cluster.binder(), cluster.pod_grouper(annotate_after=0.1) as grouper:
        await listened_to(cluster, grouper)
        await cluster.bare_pod("large", gpus=2)

        async def said():
            return (await groups_of(cluster))["large"]

        await cluster.until(said)
    assert "nodeName" not in (await cluster.get("large"))["spec"]


async def explained(cluster, *what):
    """What ``kai explain`` tells."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kai_cli", "explain", *what, "--namespace=default", "--output=json",
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, _ = await process.communicate()
    return json.loads(told)


async def test_a_pod_that_does_not_say_its_group_yet_is_explained_by_who_knows_it(cluster):
    await cluster.node("n1", gpus=1)
    async with cluster.scheduler(), cluster.pod_grouper() as grouper:
        await listened_to(cluster, grouper)
        await cluster.bare_pod("large", gpus=2)

        async def grouped():
            return await cluster.client.list(POD_GROUPS)

        [group] = await cluster.until(grouped)
        name = group["metadata"]["name"]

        async def known():
            found = [await explained(cluster, "pod/large"), await explained(cluster, f"podgroup/{name}")]
            return found if all(each["reason"]["code"] == "TooLarge" for each in found) else None

        found = await cluster.until(known)
        assert await groups_of(cluster) == {"large": None}
    assert [(each["kind"], each["podGroup"]) for each in found] == [("Pod", name), ("PodGroup", name)]


# --- kill -9 between any two steps ---------------------------------------------------------------
PODS_OF_A_LOAD = [f"p{number}" for number in range(12)]


async def test_a_grouper_that_dies_while_it_makes_groups_leaves_none_without_its_pod(cluster):
    for number in range(2):
        await cluster.node(f"n{number}")
    async with cluster.scheduler(), cluster.binder():
        async with cluster.process("kai_pod_grouper", *GROUPER) as victim:
            await cluster.bare_pod(PODS_OF_A_LOAD[0])
            await cluster.bound(PODS_OF_A_LOAD[0])
            # Some are made though nobody hears of it, some are not made.
            cluster.fault(verb="create", resource="podgroups", delay=0.4, after=True, count=4)
            cluster.fault(verb="create", resource="podgroups", delay=0.4, count=8)
            for name in PODS_OF_A_LOAD[1:]:
                await cluster.bare_pod(name)

            async def begun():
                return len(await cluster.client.list(POD_GROUPS)) > 1

            await cluster.until(begun)
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
        async with cluster.pod_grouper():
            await whole(cluster, *PODS_OF_A_LOAD)


async def test_pods_of_which_a_grouper_told_are_bound_with_their_group_after_its_death(cluster):
    for number in range(2):
        await cluster.node(f"n{number}")
    async with cluster.scheduler() as scheduler:
        async with cluster.process("kai_pod_grouper", *GROUPER) as victim:
            for name in PODS_OF_A_LOAD:
                await cluster.bare_pod(name)
            await decided(cluster, scheduler, len(PODS_OF_A_LOAD))
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
        async with cluster.binder():
            await whole(cluster, *PODS_OF_A_LOAD)


async def test_pods_of_which_a_scheduler_was_told_say_their_group_after_its_death(cluster):
    for number in range(2):
        await cluster.node(f"n{number}")
    async with cluster.pod_grouper() as grouper:
        async with cluster.process("kai_scheduler", *SCHEDULER) as victim:
            await listened_to(cluster, grouper)
            for name in PODS_OF_A_LOAD:
                await cluster.bare_pod(name)

            async def grouped():
                return len(await cluster.client.list(POD_GROUPS)) == len(PODS_OF_A_LOAD)

            await cluster.until(grouped)
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
        async with cluster.scheduler(), cluster.binder():
            await whole(cluster, *PODS_OF_A_LOAD)


@pytest.mark.parametrize("service", ["kai_scheduler", "kai_binder"])
async def test_one_that_dies_amid_the_binds_leaves_each_pod_bound_once_with_its_group(cluster, service):
    for number in range(2):
        await cluster.node(f"n{number}")
    flags = SCHEDULER if service == "kai_scheduler" else ()
    survivor, heir = (cluster.binder, cluster.scheduler)[:: 1 if flags else -1]
    async with survivor(), cluster.pod_grouper() as grouper:
        async with cluster.process(service, *flags) as victim:
            await listened_to(cluster, grouper)
            cluster.fault(
                verb="create", resource="pods", subresource="binding", delay=0.3, after=True, count=4
            )
            cluster.fault(verb="create", resource="pods", subresource="binding", delay=0.3, count=8)
            for name in PODS_OF_A_LOAD:
                await cluster.bare_pod(name)

            async def begun():
                return any("nodeName" in pod["spec"] for pod in await cluster.pods())

            await cluster.until(begun)
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
        async with heir():
            await whole(cluster, *PODS_OF_A_LOAD)


async def test_a_pod_that_was_told_and_replaced_by_another_of_its_name_is_not_taken_for_it(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.pod_grouper() as grouper:
        await listened_to(cluster, grouper)
        first = await cluster.bare_pod("p")
        await decided(cluster, scheduler, 1)
        await cluster.client.delete(PODS, "p", namespace="default", grace_seconds=0)
        second = await cluster.bare_pod("p")
        async with cluster.binder():
            await cluster.bound("p")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert await groups_of(cluster) == {"p": f"pg-p-{second['metadata']['uid']}"}
