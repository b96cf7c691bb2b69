"""An API server in this process, with our kinds and priority classes, and a pod-grouper on it."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder
from kai.kube.resources import CRDS, EVENTS, NAMESPACES, POD_GROUPS, PODS, PRIORITY_CLASSES
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_pod_grouper.service import assemble
from kai_pod_grouper.settings import PodGrouperSettings


class Cluster:
    """What a test sees of the cluster."""

    def __init__(self, server, client, folder):
        self.server = server
        self.client = client
        self.kubeconfig = str(server.write_kubeconfig(folder / "kubeconfig"))

    async def create(self, *bodies):
        """Create objects of any kind; gives the last."""
        for body in bodies:
            resource = await self.client.discover(body["apiVersion"], body["kind"])
            namespace = body["metadata"].get("namespace", "default") if resource.namespaced else ""
            created = await self.client.create(resource, body, namespace=namespace)
        return created

    async def install(self, group, version, kind, plural):
        """Serve a custom kind without a schema."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        await self.client.create(
            CRDS,
            {
                "metadata": {"name": f"{plural}.{group}"},
                "spec": {
                    "group": group,
                    "scope": "Namespaced",
                    "names": {
                        "kind": kind,
                        "plural": plural,
                        "singular": kind.lower(),
                        "listKind": f"{kind}List",
                    },
                    "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
                },
            },
        )
        await eventually(lambda: self.client.discover(f"{group}/{version}", kind, max_age=0))

    async def pods(self):
        return {pod["metadata"]["name"]: pod for pod in await self.client.list(PODS)}

    async def groups(self):
        return {group["metadata"]["name"]: group for group in await self.client.list(POD_GROUPS)}

    async def memberships(self):
        """Group, or ``group/subgroup``, of each pod that has one."""
        found = {}
        for name, pod in (await self.pods()).items():
            group = pod["metadata"].get("annotations", {}).get("pod-group-name")
            part = pod["metadata"].get("labels", {}).get("kai.scheduler/subgroup-name")
            if group is not None:
                found[name] = f"{group}/{part}" if part else group
        return found

    async def warnings(self):
        """Notes of our events by pod."""
        events = await self.client.list(EVENTS)
        return {
            event["regarding"]["name"]: event["note"]
            for event in events
            if event["reason"] == "PodGrouperWarning"
        }

    def fail(self, **rule):
        """Have the API server answer requests of the pod-grouper as a fault rule says."""
        self.server.faults.rules.append(Rule(user_agent="kai-pod-grouper", **rule))

    def requests(self):
        """How many of each request the pod-grouper sent, watches and discovery apart."""
        found = Counter()
        for entry in self.server.counts.report():
            if entry["userAgent"].startswith("kai-pod-grouper") and entry["verb"] not in ("watch", "list"):
                found[f"{entry['verb']} {entry['resource']}"] += entry["count"]
        return +found

    def reads_of(self, plural):
        """Reads of single objects of a kind, by anyone."""
        counts = self.server.counts.report()
        return sum(e["count"] for e in counts if e["verb"] == "get" and e["resource"] == plural)


@pytest.fixture
async def cluster(tmp_path):
    async with (
        ApiServer() as server,
        KubeClient.connect(str(server.write_kubeconfig(tmp_path / "config")), user_agent="test") as client,
    ):
        await client.create(NAMESPACES, {"metadata": {"name": "kai-scheduler"}})
        for definition in definitions(POD_GROUPS):
            await client.create(CRDS, definition)
        for name, value in (("train", 50), ("build", 100), ("inference", 125)):
            await client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        found = Cluster(server, client, tmp_path)
        await eventually(lambda: client.discover("scheduling.run.ai/v2alpha2", "PodGroup", max_age=0))
        yield found


@asynccontextmanager
async def a_pod_grouper(cluster, *, clock=None, registry=None, **settings):
    """A pod-grouper with its own connections; gives its reconciler.

    With a clock somebody has to look by it which pods are late.
    """
    registry = registry or CollectorRegistry()
    async with KubeClient.connect(cluster.kubeconfig, user_agent="kai-pod-grouper") as client:
        events = EventRecorder(client, controller="pod-grouper")
        watches, reconciler = assemble(
            client, PodGrouperSettings(**settings), events=events, registry=registry, clock=clock
        )
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(watches.run()), tasks.create_task(events.run())]
            await watches.wait_until_synced()
            running.append(tasks.create_task(reconciler.run(workers=10)))
            await eventually(lambda: reconciler.assignments.open)
            yield reconciler
            await events.drain()
            for task in running:
                task.cancel()
