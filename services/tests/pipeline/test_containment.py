"""Whatever one object does to the scheduler, everybody else is served, and its owner is told."""

import itertools
from contextlib import asynccontextmanager

import aiohttp
import pytest
import structlog

from kai.engine.framework import session as sessions
from kai.engine.framework.session import Session
from kai.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, STORAGE_CLASSES
from kai.model import names
from kai.runtime.health import HealthServer
from kai.session.cache import SessionCache
from kai.session.server import redis_server
from kai.snapshot import codec
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from kai.wire.clients import connect_scheduler
from kai.wire.errors import PeerUnavailable
from kai_scheduler import decisions, leadership
from kai_scheduler.sessions import SessionLog

pytestmark = pytest.mark.integration
DRIVER = "gpu.example.com"


async def devices_for_claims(cluster, node):
    await cluster.client.create(DEVICE_CLASSES, {"metadata": {"name": "any"}, "spec": {}})
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{at}"} for at in range(4)],
    }
    await cluster.client.create(RESOURCE_SLICES, {"metadata": {"name": node}, "spec": spec})


async def a_claim(cluster, name, **request):
    exactly = {"deviceClassName": "any", "count": 1, **request}
    body = {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    await cluster.client.create(RESOURCE_CLAIMS, body, namespace="default")


def claiming(name):
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}


def sample(host, name, **labels):
    return host.metrics.get_sample_value(f"kai_{name}", labels)


async def verbose(host):
    """What ``/readyz?verbose`` says, and its status."""
    server = HealthServer(host.health, host.metrics)
    await server.start(health_listen="127.0.0.1:0", metrics_listen="127.0.0.1:0")
    try:
        where, port = server.health_address
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://{where}:{port}/readyz?verbose") as answer,
        ):
            return answer.status, await answer.text()
    finally:
        await server.close()


async def test_pods_with_claims_are_served_long_after_the_first_snapshot(cluster):
    await cluster.node("n1")
    await devices_for_claims(cluster, "n1")
    async with (
        redis_server() as url,
        SessionCache.connect(url, shard=names.DEFAULT_SHARD) as cache,
        cluster.scheduler(redis_url=url, snapshot_period=0.1) as scheduler,
        cluster.binder(),
    ):
        for number in range(4):
            await a_claim(cluster, f"c{number}")
            await cluster.pod(f"p{number}", **claiming(f"c{number}"))
            await cluster.bound(f"p{number}")

        head = await cache.head()
        kept = codec.decode(await cache.snapshot(head.snapshot))
        assert any(pod.spec.resource_claims for pod in kept.each_pod())
        async with asking(cluster) as client:
            _, data = await client.snapshot()
            newest = codec.decode(data)
        assert {pod.metadata.name for pod in newest.each_pod()} == {"p0", "p1", "p2", "p3"}
        assert not sample(scheduler, "cycle_failures_total")
        assert not sample(scheduler, "cut_off_total", what="snapshot")


async def test_a_job_that_cycles_fail_over_is_told_so_and_others_are_bound(cluster, monkeypatch):
    judged = Session.over_capacity

    def poisoned(self, job, tasks):
        if job.name == "pg-poison":
            raise RecursionError("too deep")
        return judged(self, job, tasks)

    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder(), cluster.podgroup_controller():
        monkeypatch.setattr(Session, "over_capacity", poisoned)
        await cluster.pod("poison")
        for number in range(3):
            await cluster.pod(f"p{number}")
        await cluster.bound("p0", "p1", "p2")

        async def told():
            return await cluster.events("SetAside")

        (event,) = await cluster.until(told)
        assert event["type"] == "Warning"
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("PodGroup", "pg-poison")
        assert "RecursionError" in event["note"]

        async def condition():
            pod = await cluster.get("poison")
            found = [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
            return found and "RecursionError" in found[0]["message"]

        await cluster.until(condition)

        # Not at every moment: after a pause it is tried again, and a cycle may end before it is its turn.
        async def shown():
            status, text = await verbose(scheduler)
            assert status == 200
            faults = sample(scheduler, "faults", kind="PodGroup", reason="SetAside")
            return faults == 1 and "PodGroup default/pg-poison: SetAside" in text

        await cluster.until(shown)
        assert sample(scheduler, "set_aside_total", kind="PodGroup") >= 1
        monkeypatch.setattr(Session, "over_capacity", judged)
        await cluster.bound("poison")

        async def well():
            return not sample(scheduler, "faults", kind="PodGroup", reason="SetAside")

        await cluster.until(well)
        assert not sample(scheduler, "cycle_failures_total")


@asynccontextmanager
async def asking(cluster):
    async with connect_scheduler(
        cluster.client, lease_name=names.SCHEDULER_NAME, namespace=names.NAMESPACE
    ) as scheduler:
        yield scheduler


@pytest.mark.parametrize("part", ["snapshot", "publication", "message"])
async def test_what_is_only_told_to_others_hurts_no_decision(cluster, monkeypatch, part):
    def broken(*args, **more):
        raise TypeError("cannot be told")

    owner, name = {
        "snapshot": (codec, "cut"),
        "publication": (SessionLog, "record"),
        "message": (SessionLog, "_encode"),
    }[part]
    monkeypatch.setattr(owner, name, broken)
    what = "snapshot" if part == "snapshot" else "publication"
    await cluster.node("n1")
    async with (
        redis_server() as url,
        cluster.scheduler(redis_url=url, snapshot_period=0.05) as scheduler,
        cluster.binder(),
    ):
        number = itertools.count()

        async def failed_again():
            name = f"p{next(number)}"
            await cluster.pod(name, gpus=0)
            await cluster.bound(name)
            return (sample(scheduler, "cut_off_total", what=what) or 0) >= 2

        await cluster.until(failed_again)
        assert not sample(scheduler, "cycle_failures_total")
        status, text = await verbose(scheduler)
        assert status == 200
        assert f"{what} failed" in text
        assert "cannot be told" in text


async def test_an_object_that_cannot_be_told_to_others_is_named(cluster, monkeypatch):
    taken = ClusterState.apply

    def poisoned(self, kind, obj):
        taken(self, kind, obj)
        if kind is Kind.STORAGE_CLASS and obj["metadata"]["name"] == "odd":
            self.objects[kind]["odd"][("no", "text")] = 1  # which no bound lets in

    monkeypatch.setattr(ClusterState, "apply", poisoned)
    await cluster.node("n1")
    for name in ("before", "odd", "zz-after"):
        await cluster.client.create(STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": "x"})
    with structlog.testing.capture_logs() as logged:
        async with (
            redis_server() as url,
            cluster.scheduler(redis_url=url, snapshot_period=0.05) as scheduler,
            cluster.binder(),
        ):
            await cluster.pod("p0")
            await cluster.bound("p0")

            async def shown():
                _, text = await verbose(scheduler)
                return "snapshot failed" in text and "StorageClass odd: TypeError" in text

            await cluster.until(shown)
            async with asking(cluster) as client:
                with pytest.raises(PeerUnavailable, match=r"the snapshot cannot be cut: StorageClass odd: "):
                    await client.snapshot()
            assert not sample(scheduler, "cycle_failures_total")
    told = [each for each in logged if each["event"] == "cut off" and each["what"] == "snapshot"]
    assert {each["object"] for each in told} == {"StorageClass odd"}


async def test_a_decision_that_cannot_be_published_is_named(cluster, monkeypatch):
    told = leadership.encode_batch

    def picky(batch):
        if any(each.decision.pod.name == "odd" for each in batch.assignments):
            raise OverflowError("int too large")
        return told(batch)

    monkeypatch.setattr(leadership, "encode_batch", picky)
    await cluster.node("n1")
    async with redis_server() as url, cluster.scheduler(redis_url=url) as scheduler, cluster.binder():
        for name in ("before", "odd"):
            await cluster.pod(name)
        await cluster.bound("before", "odd")

        async def shown():
            _, text = await verbose(scheduler)
            return "publication failed" in text and "Pod default/odd: OverflowError" in text

        await cluster.until(shown)


async def test_a_question_that_fails_is_answered_with_why_and_changes_nothing(cluster, monkeypatch):
    def broken(*args, **more):
        raise ZeroDivisionError("no answer")

    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder(), asking(cluster) as client:
        await cluster.pod("p0")
        await cluster.bound("p0")
        monkeypatch.setattr(codec, "cut", broken)
        with pytest.raises(PeerUnavailable, match=r"the snapshot cannot be cut.*no answer"):
            await client.snapshot()
        await cluster.pod("p1")
        await cluster.bound("p1")
        assert sample(scheduler, "cut_off_total", what="snapshot") == 1


async def test_a_decision_that_cannot_be_told_keeps_no_other_back_and_is_made_again(cluster, monkeypatch):
    told = decisions.encode_batch

    def picky(batch):
        if any(each.decision.pod.name == "odd" for each in batch.assignments):
            raise OverflowError("int too large")
        return told(batch)

    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder():
        monkeypatch.setattr(decisions, "encode_batch", picky)
        for name in ("odd", "p0", "p1"):
            await cluster.pod(name)
        await cluster.bound("p0", "p1")

        async def failed():
            return sample(scheduler, "binds_total", result="failed")

        await cluster.until(failed)
        monkeypatch.undo()
        await cluster.bound("odd")


async def test_cycles_that_nothing_cures_are_tried_again_until_they_succeed(cluster, monkeypatch):
    def broken(opened):
        raise ZeroDivisionError("of ours")

    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder():
        await cluster.pod("p0")
        await cluster.bound("p0")
        monkeypatch.setattr(sessions, "Plugins", broken)
        await cluster.pod("p1")

        async def failures():
            return (sample(scheduler, "cycle_failures_total") or 0) >= 2

        await cluster.until(failures)
        status, text = await verbose(scheduler)
        assert status == 200
        assert "cycle failed" in text
        assert not sample(scheduler, "faults", kind="PodGroup", reason="SetAside")
        monkeypatch.undo()
        await cluster.bound("p1")
