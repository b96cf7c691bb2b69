"""Scheduler and binders together, on a real gRPC connection and the embedded API server."""

import pytest

from kai.kube.resources import PODS
from kai.model import names

pytestmark = pytest.mark.integration


async def test_a_pod_is_bound_where_there_is_room(cluster):
    await cluster.node("full", gpus=0)
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p")
        assert await cluster.bound("p") == ["n1"]

        async def told():
            return await cluster.events("Scheduled")

        (event,) = await cluster.until(told)
    pod = await cluster.get("p")
    assert pod["metadata"]["annotations"][names.RECEIVED_RESOURCE_TYPE] == "Regular"
    assert event["note"] == "Successfully assigned pod default/p to node n1 at node-pool default"
    assert event["regarding"]["uid"] == pod["metadata"]["uid"]


async def test_ordinary_pods_cost_one_bind_two_events_and_a_condition_each_and_the_scheduler_nothing(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("warm-up")
        await cluster.bound("warm-up")

        async def told_of(pods):
            async def all_told():
                marked = cluster.requests("binder", "patch", "pods/status")
                events = await cluster.events("Scheduled"), await cluster.events("Bound")
                return [*map(len, events)] == [pods, pods] and marked == pods - before

            await cluster.until(all_told)

        before = 0
        await told_of(1)
        cluster.server.counts.reset()
        before = 1
        for number in range(6):
            await cluster.pod(f"p{number}")
        await told_of(7)
        report = [
            (entry["userAgent"].split("/")[0], entry["verb"], entry["resource"], entry["count"])
            for entry in cluster.server.counts.report()
            if entry["userAgent"].startswith("kai-")
            and entry["verb"] != "watch"
            and entry["resource"] != "leases"
        ]
    assert report == [
        ("kai-binder", "create", "events", 12),
        ("kai-binder", "create", "pods/binding", 6),
        ("kai-binder", "patch", "pods/status", 6),
    ]


async def test_each_pod_is_told_as_bound(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p")
        assert await cluster.bound("p") == ["n1"]

        async def condition():
            conditions = (await cluster.get("p"))["status"].get("conditions", [])
            return [(c["status"], c["reason"], c["message"]) for c in conditions if c["type"] == "PodBound"]

        (found,) = await cluster.until(condition)

        async def told():
            return await cluster.events("Bound")

        (event,) = await cluster.until(told)
    assert found == ("True", "Bound", "Pod bound successfully to node n1")
    assert (event["type"], event["note"]) == ("Normal", "Pod bound successfully to node n1")


async def test_an_idle_system_sends_nothing_but_watches_and_leases(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder():
        await cluster.pod("p")
        await cluster.bound("p")
        await cluster.phase("p", "Running")

        async def settled():
            before = cycles(scheduler)
            renewals = cluster.requests("scheduler", "update", "leases")
            await renewed(cluster, renewals + 4)
            return cycles(scheduler) == before

        await cluster.until(settled)
        cluster.server.counts.reset()
        await renewed(cluster, 4)
        kinds = {
            (entry["verb"], entry["resource"])
            for entry in cluster.server.counts.report()
            if entry["userAgent"].startswith("kai-")
        }
    assert kinds <= {("update", "leases"), ("get", "leases")}


def cycles(host):
    return host.metrics.get_sample_value("kai_cycles_total")


async def renewed(cluster, times):
    async def holds():
        return cluster.requests("scheduler", "update", "leases") >= times

    await cluster.until(holds)


async def test_a_gang_that_fits_is_bound_and_one_that_does_not_stays_whole(cluster):
    await cluster.node("n1", gpus=4)
    async with cluster.scheduler(), cluster.binder():
        await cluster.group("large", min_member=5)
        for number in range(5):
            await cluster.pod(f"large-{number}", group="large")
        await cluster.group("small", min_member=3)
        for number in range(3):
            await cluster.pod(f"small-{number}", group="small")
        await cluster.bound(*(f"small-{number}" for number in range(3)))
    bound = {pod["metadata"]["name"] for pod in await cluster.pods() if "nodeName" in pod["spec"]}
    assert bound == {f"small-{number}" for number in range(3)}


async def test_room_that_a_finished_pod_leaves_is_used(cluster):
    await cluster.node("n1", gpus=1)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("first")
        await cluster.bound("first")
        await cluster.pod("second")
        await cluster.phase("first", "Succeeded")
        assert await cluster.bound("second") == ["n1"]


async def test_without_binders_nothing_is_bound_and_the_first_one_binds_all(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler:
        for number in range(4):
            await cluster.pod(f"p{number}")

        async def decided():
            return scheduler.metrics.get_sample_value("kai_decisions_outstanding") == 4

        await cluster.until(decided)
        assert all("nodeName" not in pod["spec"] for pod in await cluster.pods())
        async with cluster.binder():
            await cluster.bound(*(f"p{number}" for number in range(4)))


async def test_a_pod_of_another_scheduler_is_left_alone_but_takes_room(cluster):
    await cluster.node("n1", gpus=1)
    await cluster.pod("theirs", schedulerName="default-scheduler", nodeName="n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("ours")
        await cluster.client.delete(PODS, "theirs", namespace="default", grace_seconds=0)
        assert await cluster.bound("ours") == ["n1"]
