"""What others get from a scheduler: sessions, snapshots, metrics; and evictions."""

import asyncio
import io
import json
import threading
import zipfile

import aiohttp
import grpc
import pytest

from deadlines import within
from kai.engine.search.solver import Search, SearchResult
from kai.kube import errors
from kai.kube.reflector import Reflector, Upserted
from kai.kube.resources import CONFIG_MAPS, LEASES, POD_GROUPS, PODS, PRIORITY_CLASSES
from kai.model import names
from kai.model.decisions import Outcome, Reason
from kai.session.cache import SessionCache
from kai.session.server import free_port, redis_server
from kai.snapshot import codec
from kai.wire.channel import open_channel
from kai.wire.clients import connect_scheduler
from kai.wire.decisions import decode_batch
from kai.wire.errors import PeerUnavailable
from kai.wire.session_codec import decode_update
from kai.wire.sessions import watch_sessions
from kai.wire.v1.decision_pb2 import BindRequest, DecisionBatch, Hello
from kai.wire.v1.decision_pb2_grpc import DecisionServiceStub
from kai.wire.v1.session_pb2 import WatchSessionsResponse

pytestmark = pytest.mark.integration
LEASE = {"lease_name": names.SCHEDULER_NAME, "namespace": names.NAMESPACE}


async def first(updates, holds):
    async with within("the session wanted is told"):
        async for update in updates:
            if holds(update):
                return update
    raise AssertionError("the sessions ended")


async def test_sessions_tell_shares_outcomes_and_binds_over_a_change_of_leader(cluster):
    await cluster.node("n1", gpus=2)
    updates = watch_sessions(cluster.client, **LEASE)
    async with cluster.binder():
        async with cluster.scheduler():
            await first(updates, lambda update: update.full)
            await cluster.pod("fits")
            placed = await first(updates, lambda update: update.binds)
            await cluster.pod("large", gpus=5)
            refused = await first(
                updates, lambda update: any(o.pod_group == "default/pg-large" for o in update.outcomes)
            )
        async with cluster.scheduler():
            again = await first(updates, lambda update: update.full)
    (outcome,) = [o for o in refused.outcomes if o.pod_group == "default/pg-large"]
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert outcome.message
    assert placed.version < refused.version
    assert again.epoch > refused.epoch
    assert {share.queue for share in again.shares} == {"top", "test"}


async def test_who_records_and_comes_late_is_told_what_each_new_leader_did_before(cluster):
    await cluster.node("n1", gpus=2)
    placed = {}
    async with cluster.binder():
        for name in ("one", "two"):
            async with cluster.scheduler():
                await cluster.pod(name)
                await cluster.bound(name)
                updates = watch_sessions(cluster.client, **LEASE, from_first=True)
                placed[name] = await first(updates, lambda update: update.binds)
                await updates.aclose()
    assert placed["one"].epoch < placed["two"].epoch
    assert [each.binds for each in placed.values()] == [1, 1]


async def test_shares_are_told_without_what_became_of_every_group(cluster):
    await cluster.node("n1", gpus=2)
    async with cluster.scheduler(), connect_scheduler(cluster.client, **LEASE) as scheduler:
        shares = await scheduler.shares()
    assert {share.queue for share in shares} == {"top", "test"}


async def test_who_waits_is_told_in_the_order_of_service(cluster):
    await cluster.node("n1", gpus=2)
    async with cluster.scheduler(), connect_scheduler(cluster.client, **LEASE) as scheduler:
        await cluster.pod("large", gpus=5)
        await cluster.pod("larger", gpus=6)

        async def waiting():
            line = await scheduler.service_order()
            return line if len(line) == 2 else None

        line = await cluster.until(waiting)
    assert {(each.pod_group, each.queue) for each in line} == {
        ("default/pg-large", "test"),
        ("default/pg-larger", "test"),
    }
    assert (line[0].ahead_by, line[1].ahead_by) in (("age", ""), ("name", ""))


async def test_without_a_leader_asking_fails_with_a_reason(cluster):
    with pytest.raises(PeerUnavailable, match="no scheduler leads"):
        async with connect_scheduler(cluster.client, **LEASE, deadline=0.3):
            pass


async def test_a_snapshot_is_what_decisions_were_made_of(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p")
        await cluster.bound("p")
        async with connect_scheduler(cluster.client, **LEASE) as scheduler:
            version, data = await scheduler.snapshot()
            assert await scheduler.snapshot(version=version) == (version, data)
            with pytest.raises(PeerUnavailable, match="NOT_FOUND"):
                await scheduler.snapshot(version=version + 1000)
    assert codec.decode(data).pods.keys.split("\n") == ["default/p"]


async def test_history_and_what_is_in_flight_are_in_redis(cluster):
    await cluster.node("n1")
    async with (
        redis_server() as url,
        SessionCache.connect(url, shard="default") as cache,
        cluster.scheduler(redis_url=url),
    ):
        await cluster.pod("p")

        async def in_flight():
            return await cache.in_flight()

        (decision,) = (await cluster.until(in_flight)).values()
        history = await cache.history()
        head = await cache.head()
        snapshot = codec.decode(await cache.snapshot(head.snapshot))
    assert head.digest == snapshot.digest
    assert (decision.pod, decision.node) == ("default/p", "n1")
    (entry,) = [entry for entry in history if entry.decisions]
    assert decode_update(WatchSessionsResponse.FromString(entry.update)).binds == 1
    batch = decode_batch(DecisionBatch.FromString(entry.decisions))
    assert [item.decision.pod.name for item in batch.assignments] == ["p"]


async def test_a_peer_that_claims_a_later_leader_is_turned_away_and_ends_no_term(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder():

        async def endpoint():
            lease = await cluster.get(names.SCHEDULER_NAME, res=LEASES, namespace=names.NAMESPACE)
            return lease["metadata"].get("annotations", {}).get(names.ENDPOINT_ANNOTATION)

        async with open_channel(await cluster.until(endpoint)) as channel:
            call = DecisionServiceStub(channel).Bind()
            await call.write(BindRequest(hello=Hello(binder_id="b", epoch=2**63 - 1)))
            async with within("the peer is turned away"):
                assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION
        await cluster.pod("p")
        assert await cluster.bound("p") == ["n1"]
        assert scheduler.metrics.get_sample_value("kai_leading") == 1


async def test_a_binder_that_is_not_heard_any_more_is_cut_off(cluster, monkeypatch):
    monkeypatch.setattr("kai_scheduler.decisions.SILENCE_SECONDS", 0.2)
    async with cluster.scheduler() as scheduler:

        async def endpoint():
            lease = await cluster.get(names.SCHEDULER_NAME, res=LEASES, namespace=names.NAMESPACE)
            return lease["metadata"].get("annotations", {}).get(names.ENDPOINT_ANNOTATION)

        async with open_channel(await cluster.until(endpoint)) as channel:
            call = DecisionServiceStub(channel).Bind()
            await call.write(BindRequest(hello=Hello(binder_id="b")))
            async with within("the scheduler closes the stream"):
                while await call.read() is not grpc.aio.EOF:
                    pass
        assert scheduler.metrics.get_sample_value("kai_binders_connected") == 0


async def test_the_debug_server_gives_the_objects_as_the_original_does(cluster):
    await cluster.node("n1")
    port = free_port()
    async with cluster.scheduler(plugin_server_port=port):
        await cluster.pod("p")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            async with http.get("/get-snapshot") as answer:
                archive = zipfile.ZipFile(io.BytesIO(await answer.read()))
            async with http.get("/anything-else") as missing:
                assert missing.status == 404
    document = json.loads(archive.read("snapshot.json"))
    assert [pod["metadata"]["name"] for pod in document["rawObjects"]["pods"]] == ["p"]
    assert document["rawObjects"]["nodeResourceTopologies"] == []
    assert document["schedulerParams"]["schedulerName"] == "kai-scheduler"


async def test_metrics_have_the_names_that_dashboards_know(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder():
        await cluster.pod("p")
        await cluster.bound("p")

        async def told():
            return value("kai_task_bind_latency_milliseconds_count") == 1

        def value(name, **labels):
            return scheduler.metrics.get_sample_value(name, labels)

        await cluster.until(told)
        assert value("kai_e2e_scheduling_latency_milliseconds") > 0
        assert value("kai_action_scheduling_latency_milliseconds", action="allocate") > 0
        assert value("kai_task_scheduling_latency_milliseconds_count") == 1
        queue = {"queue_name": "test", "queue_metadata_name": "test", "queue_display_name": "test"}
        assert value("kai_queue_fair_share_gpu", **queue) > 0
        assert value("kai_binders_connected") == 1
        assert value("kai_scenario_search_job_budget_configured_seconds") == 240


# --- evictions ---------------------------------------------------------------------------------
async def a_full_node(cluster):
    """A running pod of low priority on the only device, and one of high priority that wants it."""
    for name, value in (("low", 50), ("high", 90)):
        await cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    await cluster.node("n1", gpus=1)
    await cluster.group("pg-low", priority="low")
    await cluster.pod("victim", group="pg-low")
    await cluster.bound("victim")
    await cluster.phase("victim", "Running")
    await cluster.group("pg-high", priority="high")
    await cluster.pod("winner", group="pg-high")


async def test_a_victim_is_deleted_and_the_winner_takes_its_place(cluster):
    async with cluster.scheduler(update_pod_eviction_condition=True) as scheduler, cluster.binder():
        await a_full_node(cluster)

        async def going():
            pod = await cluster.get("victim")
            return pod if "deletionTimestamp" in pod["metadata"] else None

        victim = await cluster.until(going)
        (condition,) = [c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert "winner" in condition["message"] or "pg-high" in condition["message"]
        await cluster.client.delete(PODS, "victim", namespace="default", grace_seconds=0)
        assert await cluster.bound("winner") == ["n1"]
        group = await cluster.client.get(POD_GROUPS, "pg-low", namespace="default")
        labels = {
            "podgroup": "pg-low",
            "namespace": "default",
            "uid": group["metadata"]["uid"],
            "nodepool": "default",
            "action": "preempt",
        }
        assert scheduler.metrics.get_sample_value("kai_pod_group_evicted_pods_total", labels) == 1


async def test_a_pod_that_comes_during_a_long_search_is_bound_before_its_end(cluster, monkeypatch):
    searching = threading.Event()

    def never_done(search):
        searching.set()
        while not search.deadline.passed:
            threading.Event().wait(0.01)
        return SearchResult.DEADLINE, None

    monkeypatch.setattr(Search, "run", never_done)
    monkeypatch.setattr(Search, "first_victim", lambda search: None)
    async with cluster.scheduler() as scheduler, cluster.binder():
        await a_full_node(cluster)
        await cluster.until(lambda: asyncio.to_thread(searching.wait, 0.1))
        await cluster.node("n2", gpus=0)
        await cluster.pod("modest", gpus=0)
        assert await cluster.bound("modest") == ["n2"]
        value = scheduler.metrics.get_sample_value
        assert value("kai_scenario_search_gave_way_total", {"action": "preempt"})


async def test_a_pod_that_is_not_let_go_is_left_alone_for_a_while_and_then_asked_again(cluster):
    async with cluster.scheduler(eviction_api=True) as scheduler, cluster.binder():
        cluster.fault(verb="create", resource="pods", subresource="eviction", status=429, count=1)
        await a_full_node(cluster)

        def told(update):
            reasons = {each.reason for outcome in update.outcomes for each in outcome.explanations}
            return Reason.EVICTION_REFUSED in reasons

        await first(watch_sessions(cluster.client, **LEASE), told)

        async def evicted():
            try:
                return "deletionTimestamp" in (await cluster.get("victim"))["metadata"]
            except errors.NotFound:
                return True

        await cluster.until(evicted)
        value = scheduler.metrics.get_sample_value
        await cluster.until(lambda: value("kai_evictions_total", {"action": "preempt"}))
        assert value("kai_evictions_total", {"action": "preempt"}) == 1  # what was refused was none


async def test_where_no_pod_is_to_wait_for_config_maps_none_are_read(cluster):
    await cluster.node("n1")
    other = {"metadata": {"name": "there"}, "data": {}}
    await cluster.client.create(CONFIG_MAPS, other, namespace="default")
    async with cluster.scheduler(wait_for_config_maps=False), cluster.binder():
        await cluster.pod("p", volumes=[{"name": "v", "configMap": {"name": "not-there"}}])
        assert await cluster.bound("p") == ["n1"]
    for verb in ("get", "list", "watch"):
        assert not cluster.requests("scheduler", verb, "configmaps")


async def test_config_maps_are_read_without_their_content(cluster):
    config_map = {"metadata": {"name": "c"}, "data": {"large": "x" * 1000}}
    await cluster.client.create(CONFIG_MAPS, config_map, namespace="default")
    told = []
    reflector = Reflector(
        cluster.client,
        CONFIG_MAPS,
        dict,
        namespace="default",
        field_selector="metadata.name=c",
        metadata_only=True,
    )
    task = asyncio.create_task(reflector.run(told.append))
    await reflector.synced.wait()
    later = {"metadata": {"annotations": {"a": "b"}}}
    await cluster.client.patch(CONFIG_MAPS, "c", later, namespace="default")

    async def both():
        return [change.obj for change in told if isinstance(change, Upserted)][1:]

    (changed,) = await cluster.until(both)
    task.cancel()
    await asyncio.wait([task])
    assert changed["metadata"]["annotations"] == {"a": "b"}
    assert not any("data" in change.obj for change in told if isinstance(change, Upserted))
