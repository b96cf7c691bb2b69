"""The service between an API server that keeps objects and a scheduler that publishes sessions."""

import asyncio
import gc
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.lease import LeaderElector
from kai.kube.resources import CORE_EVENTS, CRDS, LEASES, NAMESPACES, POD_GROUPS, PODS, QUEUES
from kai.model.decisions import Eviction, Outcome, PodRef
from kai.runtime import Host
from kai.wire.serving import serve
from kai.wire.session_codec import SessionUpdate, encode_update
from kai.wire.v1.session_pb2_grpc import SessionServiceServicer, add_SessionServiceServicer_to_server
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_podgroup_controller.service import PodGroupControllerService
from kai_podgroup_controller.settings import PodGroupControllerSettings

pytestmark = pytest.mark.integration


class Scheduler(SessionServiceServicer):
    """Publishes what a test tells it to; every watcher gets it all, from a full update on."""

    def __init__(self):
        self.updates, self.news, self.version = [], asyncio.Event(), 0
        self.kept = []

    def publish(self, *outcomes):
        self.version += 1
        self.updates.append(
            SessionUpdate(
                version=self.version, epoch=1, opened_at=0, full=self.version == 1, outcomes=outcomes
            )
        )
        self.news.set()

    def evict(self, name, message):
        """While nobody listens: who comes then is told everything as it is, and this if it asks for it."""
        ref = PodRef(uid=name, namespace="team", name=name, pod_group="team/train")
        self.version += 1
        self.kept.append((self.version, (Eviction(pod=ref, action="reclaim", message=message),)))

    async def WatchSessions(self, request, context):
        if request.with_evictions and self.kept:
            yield encode_update(
                SessionUpdate(version=self.version, epoch=1, opened_at=0, full=True, kept=tuple(self.kept))
            )
        seen = 0
        while True:
            await self.news.wait()
            self.news.clear()
            while seen < len(self.updates):
                yield encode_update(self.updates[seen])
                seen += 1

    @asynccontextmanager
    async def leading(self, client):
        register = lambda server: add_SessionServiceServicer_to_server(self, server)  # noqa: E731
        async with serve("127.0.0.1:0", [register], grace_seconds=0.0) as port:
            endpoint = f"127.0.0.1:{port}"
            elector = LeaderElector(client, "kai-scheduler", "kai-scheduler", "s", endpoint=endpoint)
            async with elector.term():
                yield self


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def admin(api, tmp_path):
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as client:
        for definition in definitions(POD_GROUPS, QUEUES):
            await client.create(CRDS, definition)
        for namespace in ("kai-scheduler", "team"):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield client


@asynccontextmanager
async def controller(kubeconfig, *arguments):
    settings = PodGroupControllerSettings.parse(["--enable-podgroup-webhook=false", *arguments])
    service = PodGroupControllerService(settings)
    host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
    agent = "controller-under-test"
    async with (
        KubeClient.connect(kubeconfig, user_agent=agent, registry=host.metrics) as host.client,
        asyncio.TaskGroup() as host.tasks,
    ):
        work = host.tasks.create_task(service.run(host))
        await eventually(host.health.ask, lambda checks: not checks.get("synced", "no check yet"))
        yield host
        host.stopping.set()
        await asyncio.wait([work])
        host.stop_background()


def writes(api):
    return {
        (entry["verb"], entry["resource"]): entry["count"]
        for entry in api.counts.report()
        if entry["userAgent"] == "controller-under-test" and entry["verb"] not in ("watch", "list", "get")
    }


def a_pod(name="worker", *, group="train"):
    return {
        "metadata": {"name": name, "annotations": {"pod-group-name": group}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
            ],
        },
    }


def a_group(name="train", **spec):
    return {"metadata": {"name": name}, "spec": {"queue": "q", "minMember": 1, **spec}}


async def bind(client, name):
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    await client.create_subresource(PODS, name, "binding", body, namespace="team")


async def status_of(client, name="train"):
    return (await client.get(POD_GROUPS, name, namespace="team")).get("status") or {}


async def until_status(client, condition, name="train"):
    return await eventually(
        lambda: status_of(client, name), condition, what=f"the status of {name} is as wanted"
    )


async def until_told(client):
    """What the pod's condition and the events say, once all of it is said."""

    async def told():
        pod = await client.get(PODS, "worker", namespace="team")
        conditions = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
        return conditions, await client.list(CORE_EVENTS, namespace="team")

    return await eventually(told, lambda seen: seen[0] and len(seen[1]) == 2, what="pod and events say why")


async def test_a_pod_placed_at_once_costs_one_status_write(api, admin, build, tmp_path):
    scheduler = Scheduler()
    async with scheduler.leading(admin), controller(str(tmp_path / "config")):
        await admin.create(POD_GROUPS, a_group(), namespace="team")
        await admin.create(PODS, a_pod(), namespace="team")
        scheduler.publish(build.outcome(Outcome.PLACED, message=""))
        await bind(admin, "worker")
        status = await until_status(admin, lambda status: "resourcesStatus" in status)
        amounts = {"cpu": "2", "memory": "1Gi"}
        assert status["resourcesStatus"] == {"requested": amounts, "allocated": amounts}
        await asyncio.sleep(1)
        assert writes(api) == {("patch", "podgroups/status"): 1}


async def test_a_group_that_does_not_fit_shows_why_on_itself_its_pods_and_in_events(
    api, admin, build, tmp_path
):
    scheduler = Scheduler()
    async with scheduler.leading(admin), controller(str(tmp_path / "config")):
        await admin.create(POD_GROUPS, a_group(), namespace="team")
        await admin.create(PODS, a_pod(), namespace="team")
        scheduler.publish(build.outcome(message="0 of 1 pods fit", pod_messages={"team/worker": "too big"}))
        status = await until_status(admin, lambda status: "schedulingConditions" in status)
        assert status["schedulingConditions"][0]["message"] == "0 of 1 pods fit"

        found, events = await until_told(admin)
        assert (found[0]["status"], found[0]["reason"], found[0]["message"]) == (
            "False",
            "Unschedulable",
            "too big",
        )
        assert {(e["involvedObject"]["kind"], e["type"], e["message"]) for e in events} == {
            ("PodGroup", "Normal", "0 of 1 pods fit"),
            ("Pod", "Warning", "too big"),
        }

        await bind(admin, "worker")
        scheduler.publish(build.outcome(Outcome.SETTLED, message="", clear_conditions=True))
        await until_status(admin, lambda status: not status.get("schedulingConditions"))
        pod = await admin.get(PODS, "worker", namespace="team")
        assert {c["type"]: c["status"] for c in pod["status"]["conditions"]}["PodScheduled"] == "True"


async def test_a_restart_changes_nothing(api, admin, build, tmp_path):
    scheduler = Scheduler()
    async with scheduler.leading(admin):
        async with controller(str(tmp_path / "config")):
            await admin.create(POD_GROUPS, a_group(), namespace="team")
            await admin.create(PODS, a_pod(), namespace="team")
            scheduler.publish(build.outcome())
            await until_status(admin, lambda status: {"schedulingConditions", "resourcesStatus"} <= {*status})
            await until_told(admin)
        told = await admin.list(CORE_EVENTS, namespace="team")
        api.counts.reset()
        scheduler.news.set()
        async with controller(str(tmp_path / "config")):
            await asyncio.sleep(1.5)
        # What may have been lost, as it was said so lately, is tried once more under its own name.
        assert writes(api).keys() <= {("create", "events")}
        assert await admin.list(CORE_EVENTS, namespace="team") == told


async def test_an_eviction_while_nobody_leads_is_told_by_who_leads_next_and_by_nobody_after(
    api, admin, tmp_path
):
    await admin.create(POD_GROUPS, a_group(), namespace="team")
    scheduler = Scheduler()

    async def evictions():
        events = await admin.list(CORE_EVENTS, namespace="team")
        return sorted(event["message"] for event in events if event["reason"] == "Evict")

    async with scheduler.leading(admin):
        scheduler.evict("worker", "pod worker is evicted")
        async with controller(str(tmp_path / "config")):
            await eventually(evictions)
        scheduler.evict("other", "pod other is evicted")
        async with controller(str(tmp_path / "config")):
            await eventually(lambda: evictions(), lambda told: len(told) > 1)
    assert await evictions() == ["pod other is evicted", "pod worker is evicted"]


#: What becomes of the Lease is soon seen. What does not stop within the rest of a term ends the process,
#: which is that of all tests here, so terms are long.
FAST = ("--leader-elect", "--lease-duration=10m", "--lease-renew-deadline=5m", "--lease-retry-period=100ms")


async def test_only_the_leader_works_and_the_next_one_takes_over(api, admin, tmp_path):
    async with controller(str(tmp_path / "config"), *FAST):
        await admin.create(POD_GROUPS, a_group(), namespace="team")
    async with controller(str(tmp_path / "config"), *FAST):
        await admin.create(PODS, a_pod(), namespace="team")
        await bind(admin, "worker")
        await until_status(admin, lambda status: "resourcesStatus" in status)


async def test_what_a_term_kept_may_be_collected_when_it_is_lost(api, admin, tmp_path):
    async with controller(str(tmp_path / "config"), *FAST):
        await eventually(gc.get_freeze_count, lambda count: count > 0)
        lease = {"spec": {"holderIdentity": "another", "leaseTransitions": 7}}
        await admin.patch(LEASES, "kai-podgroup-controller", lease, namespace="kai-scheduler")
        await eventually(gc.get_freeze_count, lambda count: count == 0)


async def test_trouble_with_the_server_delays_but_loses_nothing(api, admin, build, tmp_path):
    scheduler = Scheduler()
    async with scheduler.leading(admin), controller(str(tmp_path / "config")):
        await admin.create(POD_GROUPS, a_group(), namespace="team")
        api.faults.rules += [
            Rule(count=2, verb="patch", resource="podgroups", status=500),
            Rule(count=1, verb="patch", resource="podgroups", status=429, retry_after=0),
            Rule(count=1, verb="patch", resource="podgroups", drop=True, after=True),
            Rule(count=3, verb="watch", resource="pods", status=503),
        ]
        api.hubs.close()
        await admin.create(PODS, a_pod(), namespace="team")
        scheduler.publish(build.outcome(Outcome.PLACED, message=""))
        await bind(admin, "worker")
        api.faults.compact()
        status = await until_status(admin, lambda status: "allocated" in status.get("resourcesStatus", {}))
        assert status["resourcesStatus"]["allocated"] == {"cpu": "2", "memory": "1Gi"}
        await admin.delete(PODS, "worker", namespace="team", grace_seconds=0)
        await until_status(admin, lambda status: not status["resourcesStatus"].get("requested"))
