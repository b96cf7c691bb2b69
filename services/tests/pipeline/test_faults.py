"""Processes die, servers refuse, answers are lost: every pod is bound once, and nothing leaks."""

import signal

import pytest

import kai_binder.executor
from deadlines import within
from kai.kube.resources import LEASES, NODES, PODS, PRIORITY_CLASSES
from kai.model import names
from kai.model.objects import Pod
from kai.session.cache import SessionCache
from kai.session.server import redis_server

pytestmark = pytest.mark.integration


async def test_a_binder_killed_amid_the_load_is_replaced_by_the_others(cluster):
    for number in range(6):
        await cluster.node(f"n{number}")
    pods = [f"p{number}" for number in range(40)]
    async with cluster.scheduler() as scheduler, cluster.process("kai_binder") as victim, cluster.binder():

        async def both_are_there():
            return scheduler.metrics.get_sample_value("kai_binders_connected") == 2

        await cluster.until(both_are_there)
        # Binds take a while, so that it has some in hand when it dies.
        cluster.fault(verb="create", resource="pods", subresource="binding", delay=0.3, count=20)
        for name in pods:
            await cluster.pod(name)
        victim.send_signal(signal.SIGKILL)
        await cluster.bound(*pods)
        assert scheduler.metrics.get_sample_value("kai_binds_total", {"result": "failed"}) == 0
    nodes = [pod["spec"]["nodeName"] for pod in await cluster.pods()]
    assert max(nodes.count(node) for node in set(nodes)) <= 8


async def test_a_stopped_leader_is_followed_by_the_standby_with_a_greater_epoch(cluster):
    await cluster.node("n1")
    async with cluster.binder():
        async with cluster.scheduler() as first:
            await cluster.pod("one")
            await cluster.bound("one")
            before = await cluster.get(names.SCHEDULER_NAME, res=LEASES, namespace=names.NAMESPACE)
            second = cluster.scheduler()
            await second.__aenter__()
            first.stopping.set()
        try:
            await cluster.pod("two")
            await cluster.bound("two")
            after = await cluster.get(names.SCHEDULER_NAME, res=LEASES, namespace=names.NAMESPACE)
        finally:
            await second.__aexit__(None, None, None)
    epochs = [int(lease["metadata"]["annotations"][names.EPOCH_ANNOTATION]) for lease in (before, after)]
    assert epochs[1] > epochs[0]


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "retry_after": 0, "count": 2},
        {"status": 500, "count": 2},
        {"status": 503, "count": 1},
        {"status": 409, "count": 1},
        {"status": 403, "count": 2},
        {"drop": True, "count": 1},
        {"drop": True, "after": True, "count": 1},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
async def test_a_bind_that_the_server_answers_badly_is_made_once(cluster, fault):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        cluster.fault(verb="create", resource="pods", subresource="binding", **fault)
        await cluster.pod("p")
        assert await cluster.bound("p") == ["n1"]

        async def told():
            return await cluster.events("Scheduled")

        assert len(await cluster.until(told)) == 1
        assert not await cluster.events("BindingError")


async def test_a_bind_of_which_nobody_could_tell_that_it_was_made_is_told_as_made(cluster):
    """The answer is lost, and the server is away for longer than a read is tried."""
    await cluster.node("n1")
    cluster.fault(verb="create", resource="pods", subresource="binding", drop=True, after=True)
    cluster.fault(verb="get", resource="pods", user_agent="kai-binder", status=400)
    async with cluster.scheduler() as scheduler, cluster.binder():
        await cluster.pod("p")

        async def is_told():
            pod = await cluster.client.get(PODS, "p", namespace="default", type=Pod)
            return {each.type: each.status for each in pod.status.conditions or ()}.get(names.POD_BOUND)

        assert await cluster.until(is_told) == "True"
        assert scheduler.metrics.get_sample_value("kai_binds_total", {"result": "failed"}) == 0
        await cluster.until(lambda: cluster.events("Scheduled"))
        assert not await cluster.events("BindingError")


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("after", [False, True], ids=["lost request", "lost answer"])
async def test_a_reservation_whose_creation_is_cut_off_is_made_once(cluster, after):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        cluster.fault(
            verb="create", resource="pods", subresource="", user_agent="kai-binder", drop=True, after=after
        )
        await cluster.pod("p", fraction=0.5)
        await cluster.bound("p")
    assert len(await cluster.reservations()) == 1


async def test_a_reservation_that_gets_no_device_is_given_up_and_tried_again(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder(resource_reservation_allocation_timeout=0.3):
        await cluster.pod("p", fraction=0.5)

        async def told():
            return await cluster.events("BindingError")

        (event, *_) = await cluster.until(told)
        assert "got no device within 0.3 s" in event["note"]
        async with cluster.devices():
            await cluster.bound("p")
    assert len(await cluster.reservations()) == 1


@pytest.mark.parametrize(
    ("closed", "told"),
    [
        ({"unschedulable": True}, "node n1 was cordoned while pod default/p was prepared for it"),
        (
            {"taints": [{"key": "repair", "effect": "NoSchedule"}]},
            "node n1 was given the taint repair:NoSchedule while pod default/p was prepared for it",
        ),
    ],
    ids=["cordoned", "tainted"],
)
async def test_a_node_that_is_closed_while_a_device_is_waited_for_gets_no_pod(
    cluster, monkeypatch, closed, told
):
    monkeypatch.setattr(kai_binder.executor, "LONG_SECONDS", 0.0)
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p", fraction=0.5)
        await cluster.until(cluster.reservations)
        await cluster.client.patch(NODES, "n1", {"spec": closed})
        async with cluster.devices():

            async def failed():
                return await cluster.events("BindingError")

            (event, *_) = await cluster.until(failed)
            assert told in event["note"]
            assert "nodeName" not in (await cluster.get("p"))["spec"]
            await cluster.client.patch(NODES, "n1", {"spec": dict.fromkeys(closed)})
            await cluster.bound("p")


async def test_a_node_that_is_closed_while_a_pod_waits_for_its_gang_gets_it_no_more(cluster, monkeypatch):
    monkeypatch.setattr(kai_binder.executor, "LONG_SECONDS", 0.0)
    for name in ("n1", "n2"):
        await cluster.node(name, gpus=1)
    await cluster.group("gang", min_member=2)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("whole", group="gang")
        await cluster.pod("shared", group="gang", fraction=0.5)
        (reservation,) = await cluster.until(cluster.reservations)
        (chosen,) = {"n1", "n2"} - {reservation["spec"]["nodeName"]}
        await cluster.client.patch(NODES, chosen, {"spec": {"unschedulable": True}})
        async with cluster.devices():
            await cluster.bound("shared")

            async def failed():
                return await cluster.events("BindingError")

            (event, *_) = await cluster.until(failed)
            assert f"node {chosen} was cordoned while pod default/whole was prepared for it" in event["note"]
            await cluster.client.patch(NODES, chosen, {"spec": {"unschedulable": None}})
            assert await cluster.bound("whole") == [chosen]


async def test_a_pod_replaced_by_another_of_its_name_is_not_bound_for_it(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler:
        await cluster.pod("p")

        async def decided():
            return scheduler.metrics.get_sample_value("kai_decisions_outstanding") == 1

        await cluster.until(decided)
        await cluster.client.delete(PODS, "p", namespace="default", grace_seconds=0)
        await cluster.pod("p", group="other-group-that-does-not-exist")
        async with cluster.binder() as binder:

            async def rejected():
                return binder.metrics.get_sample_value("kai_binder_results_total", {"result": "rejected"})

            await cluster.until(rejected)
    assert "nodeName" not in (await cluster.get("p"))["spec"]


async def test_scheduling_goes_on_when_redis_goes_and_comes_back(cluster, tmp_path):
    await cluster.node("n1")
    socket = tmp_path / "redis.sock"
    async with cluster.scheduler(redis_url=f"unix://{socket}") as scheduler, cluster.binder():

        def up():
            return scheduler.metrics.get_sample_value("kai_session_cache_up")

        async def is_up():
            return up() == 1

        async with redis_server(unix_socket=socket):
            await cluster.pod("one")
            await cluster.bound("one")
            await cluster.until(is_up)

        async def is_down():
            await cluster.client.patch(NODES, "n1", {"metadata": {"labels": {"poke": "x"}}})
            return up() == 0

        await cluster.pod("two")
        await cluster.bound("two")
        await cluster.until(is_down)
        async with (
            redis_server(unix_socket=socket),
            SessionCache.connect(f"unix://{socket}", shard="default") as cache,
        ):
            await cluster.pod("three")
            await cluster.bound("three")

            async def published():
                return await cache.head()

            head = await cluster.until(published)
            lease = await cluster.get(names.SCHEDULER_NAME, res=LEASES, namespace=names.NAMESPACE)
            assert head.epoch == int(lease["metadata"]["annotations"][names.EPOCH_ANNOTATION])


async def test_a_scheduler_that_the_server_does_not_know_any_more_ends(cluster):
    await cluster.node("n1")
    async with cluster.process(
        "kai_scheduler", "--grpc-listen=127.0.0.1:0", "--plugin-server-port=0"
    ) as process:

        async def leads():
            lease = await cluster.get(names.SCHEDULER_NAME, res=LEASES, namespace=names.NAMESPACE)
            return lease["metadata"].get("annotations", {}).get(names.ENDPOINT_ANNOTATION)

        await cluster.until(leads)
        cluster.fault(user_agent="kai-scheduler", status=401, count=-1)
        async with within("the scheduler ends"):
            assert await process.wait() == 1


@pytest.mark.usefixtures("devices")
async def test_a_scheduler_killed_amid_the_load_leaves_nothing_bound_twice_or_held_in_vain(cluster):
    for number in range(4):
        await cluster.node(f"n{number}", gpus=4)
    pods = [f"p{number}" for number in range(12)]
    fractions = [f"f{number}" for number in range(6)]
    flags = (
        "--grpc-listen=127.0.0.1:0",
        "--plugin-server-port=0",
        "--lease-duration=2",
        "--lease-retry-period=0.3",
    )
    async with cluster.binder():
        async with cluster.process("kai_scheduler", *flags, "--lease-renew-deadline=1.5") as victim:
            await cluster.pod("first")
            await cluster.bound("first")
            cluster.fault(verb="create", resource="pods", subresource="binding", delay=0.2, count=10)
            for name in pods:
                await cluster.pod(name)
            for name in fractions:
                await cluster.pod(name, fraction=0.5)
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
        async with cluster.scheduler():
            await cluster.bound(*pods, *fractions)
    used = {}
    for pod in await cluster.pods():
        labels, node = pod["metadata"].get("labels", {}), pod["spec"]["nodeName"]
        device = labels.get(names.GPU_GROUP_LABEL, pod["metadata"]["name"])
        part = 0.5 if names.GPU_GROUP_LABEL in labels else 1.0
        used.setdefault(node, {}).setdefault(device, []).append(part)
    assert all(len(on_node) <= 4 for on_node in used.values())
    assert all(sum(parts) <= 1.0 for on_node in used.values() for parts in on_node.values())
    groups = {group for on_node in used.values() for group in on_node if not group.startswith(("p", "first"))}

    async def none_in_vain():
        held = {pod["metadata"]["labels"][names.GPU_GROUP_LABEL] for pod in await cluster.reservations()}
        return held == groups

    async with cluster.binder():
        await cluster.until(none_in_vain)


@pytest.mark.parametrize(
    "fault", [{"delay": 4.0}, {"status": 429, "retry_after": 4}], ids=["slow", "too many requests"]
)
async def test_statuses_and_events_that_a_server_is_slow_to_take_hold_up_no_bind(cluster, fault):
    await cluster.node("n1", gpus=8)
    await cluster.node("n2", gpus=8)
    async with cluster.scheduler(), cluster.binder(), cluster.podgroup_controller():
        for subresource, resource in (("status", ""), ("", "events")):
            cluster.fault(subresource=subresource, resource=resource, user_agent="kai-", count=-1, **fault)
        writes = list(cluster.server.faults.rules)
        for number in range(16):
            await cluster.pod(f"large-{number}", gpus=9)

        async def writes_wait():
            statuses, events = (-1 - rule.count for rule in writes)
            return statuses >= 8 and events >= 1

        await cluster.until(writes_wait)
        for number in range(16):
            await cluster.pod(f"fits-{number}")
        await cluster.bound(*(f"fits-{number}" for number in range(16)))

        async def told(name):
            conditions = (await cluster.get(name))["status"].get("conditions") or []
            return [each for each in conditions if each["reason"] == "Unschedulable"]

        cluster.server.faults.rules.clear()
        for number in range(16):
            await cluster.until(lambda number=number: told(f"large-{number}"))


async def test_a_pod_whose_bind_fails_is_charged_no_longer_than_it_is_tried(cluster):
    await cluster.node("n1", gpus=8)

    async with cluster.scheduler() as scheduler, cluster.binder():
        cluster.fault(verb="create", resource="pods", subresource="binding", status=422, count=-1)
        await cluster.pod("never", gpus=8)

        async def failed_again():
            return (scheduler.metrics.get_sample_value("kai_binds_total", {"result": "failed"}) or 0) >= 2

        await cluster.until(failed_again)
        await cluster.client.delete(PODS, "never", namespace="default")
        cluster.server.faults.rules.clear()
        await cluster.pod("next", gpus=8)
        assert await cluster.bound("next") == ["n1"]


async def test_while_an_eviction_takes_its_time_nobody_else_is_evicted_for_the_same_pod(cluster):
    """Known of other schedulers: preemption acts twice while the API server is slow."""
    await cluster.node("n1", gpus=2)
    for name, value in (("low", 10), ("high", 60)):
        await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    async with cluster.scheduler(), cluster.binder():
        for name in ("v1", "v2"):
            await cluster.group(name, priority="low")
            await cluster.pod(name, group=name)
            await cluster.bound(name)
            await cluster.phase(name, "Running")
        cluster.fault(verb="delete", resource="pods", user_agent="kai-scheduler", delay=3.0, count=-1)
        await cluster.group("urgent", priority="high")
        await cluster.pod("urgent", group="urgent")

        async def leaving():
            return [
                pod["metadata"]["name"]
                for pod in await cluster.pods()
                if "deletionTimestamp" in pod["metadata"]
            ]

        number = 0
        while not (gone := await leaving()):  # each pod that is bound meanwhile is a cycle in which it waits
            number += 1
            await cluster.pod(f"other-{number}", gpus=0)
            await cluster.bound(f"other-{number}")
        assert number > 1
        [victim] = gone
        await cluster.client.delete(PODS, victim, namespace="default", grace_seconds=0)
        await cluster.bound("urgent")
        assert await leaving() == []
        assert cluster.requests("scheduler", "delete", "pods") == 1
        [spared] = {"v1", "v2"} - {victim}
        assert (await cluster.get(spared))["status"]["phase"] == "Running"
