"""A cluster in one process: API server, devices, schedulers and binders."""

import asyncio
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import structlog

from deadlines import eventually, patience
from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import (
    BIND_REQUESTS,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    SCHEDULING_SHARDS,
    SERVICE_ACCOUNTS,
    TOPOLOGIES,
)
from kai.model import names
from kai.model.claims import claims_of
from kai.observe import new_registry
from kai.runtime import Host
from kai_binder.service import BinderService
from kai_binder.settings import BinderSettings
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_pod_grouper.service import PodGrouperService
from kai_pod_grouper.settings import PodGrouperSettings
from kai_podgroup_controller.service import PodGroupControllerService
from kai_podgroup_controller.settings import PodGroupControllerSettings
from kai_queue_controller.service import QueueControllerService
from kai_queue_controller.settings import QueueControllerSettings
from kai_scheduler.service import SchedulerService
from kai_scheduler.settings import SchedulerSettings

# The default formatter shows local variables, which in a scheduling cycle are the whole cluster.
_CONSOLE = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[structlog.processors.add_log_level, _CONSOLE])

DEFINITIONS = definitions(BIND_REQUESTS, POD_GROUPS, QUEUES, SCHEDULING_SHARDS, TOPOLOGIES)
RESERVATIONS = names.RESERVATION_NAMESPACE


@asynccontextmanager
async def in_this_process(service, kubeconfig):
    """A service on a client of its own, as the runtime would run it."""
    host = Host(name=service.name, settings=service.settings, metrics=new_registry())
    async with KubeClient.connect(str(kubeconfig), user_agent=f"kai-{service.name}") as client:
        host.client = client
        async with asyncio.TaskGroup() as tasks:
            host.tasks = tasks
            main = tasks.create_task(service.run(host), name=service.name)
            try:
                yield host
            finally:
                host.stopping.set()
                _, late = await asyncio.wait([main], timeout=patience())
                if late:
                    for task in asyncio.all_tasks():
                        task.print_stack()
                    main.cancel()
                assert not late, f"{service.name} does not end"
                host.stop_background()


class Cluster:
    """What the tests do with it."""

    def __init__(self, server, kubeconfig, client):
        self.server = server
        self.kubeconfig = kubeconfig
        self.client = client

    # --- processes -----------------------------------------------------------------------------
    def scheduler(self, **settings):
        told = {
            "grpc_listen": "127.0.0.1:0",
            "plugin_server_port": 0,
            "lease_retry_period": 0.2,
            "lease_duration": 2,
            "lease_renew_deadline": 1.5,
            "schedule_period": 0.2,
            **settings,
        }
        return in_this_process(SchedulerService(SchedulerSettings(**told)), self.kubeconfig)

    def podgroup_controller(self, **settings):
        told = {"enable_podgroup_webhook": False, "leader_elect": False, **settings}
        service = PodGroupControllerService(PodGroupControllerSettings(**told))
        return in_this_process(service, self.kubeconfig)

    def pod_grouper(self, **settings):
        """One that annotates nothing which a bind can say, unless it is told to."""
        told = {
            "grpc_listen": "127.0.0.1:0",
            "annotate_after": 3600,
            "lease_retry_period": 0.2,
            "lease_duration": 2,
            "lease_renew_deadline": 1.5,
            **settings,
        }
        return in_this_process(PodGrouperService(PodGrouperSettings(**told)), self.kubeconfig)

    def binder(self, **settings):
        return in_this_process(BinderService(BinderSettings(**settings)), self.kubeconfig)

    def queue_controller(self, **settings):
        told = {"enable_webhook": False, "leader_elect": False, "status_interval": 0.1, **settings}
        return in_this_process(QueueControllerService(QueueControllerSettings(**told)), self.kubeconfig)

    @asynccontextmanager
    async def process(self, module, *flags, metrics=0):
        """A service as a process of its own; killed at the end if the test has not done so."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, f"--kubeconfig={self.kubeconfig}", "--health-listen=127.0.0.1:0",
            f"--metrics-listen=127.0.0.1:{metrics}", *flags,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    @asynccontextmanager
    async def devices(self):
        """Reservation pods get devices while the block runs."""
        program = asyncio.create_task(play_reservation_program(self.client))
        try:
            yield
        finally:
            program.cancel()
            await asyncio.wait([program])

    def requests(self, agent, verb, resource):
        """How many requests of a kind came from a service."""
        return sum(
            entry["count"]
            for entry in self.server.counts.report()
            if entry["userAgent"].startswith(f"kai-{agent}")
            and (entry["verb"], entry["resource"]) == (verb, resource)
        )

    def fault(self, **rule):
        """Let the API server misbehave."""
        self.server.faults.rules.append(Rule(**rule))

    # --- objects -------------------------------------------------------------------------------
    async def node(self, name, *, gpus=8, labels=None):
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", names.NVIDIA_GPU: str(gpus)}
        body = {
            "metadata": {"name": name, "labels": {names.GPU_MEMORY_LABEL: "81920", **(labels or {})}},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await self.client.create(NODES, body)
        status = {"status": body["status"]}
        await self.client.patch(NODES, name, status, subresource="status")

    async def queue(self, name, parent=""):
        everything = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec = {"resources": dict.fromkeys(("cpu", "memory", "gpu"), everything)}
        if parent:
            spec["parentQueue"] = parent
        await self.client.create(QUEUES, {"metadata": {"name": name}, "spec": spec})

    async def group(self, name, *, namespace="default", min_member=1, queue="test", priority=""):
        spec = {"minMember": min_member, "queue": queue}
        if priority:
            spec["priorityClassName"] = priority
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        await self.client.create(POD_GROUPS, body, namespace=namespace)

    async def pod(self, name, *, group="", gpus=1, fraction=None, devices=1, namespace="default", **spec):
        """A pod as the pod-grouper and admission leave it; alone in its group unless one is named."""
        if not group:
            group = f"pg-{name}"
            await self.group(group, namespace=namespace)
        annotations = {names.POD_GROUP_ANNOTATION: group}
        resources = {"requests": {"cpu": "1"}}
        container = {"name": "main", "image": "x", "resources": resources}
        if fraction:
            annotations[names.GPU_FRACTION] = str(fraction)
            annotations[names.SHARED_GPU_CONFIGMAP] = f"{name}-abcdefg-shared-gpu"
            if devices > 1:
                annotations[names.GPU_FRACTION_NUM_DEVICES] = str(devices)
            key = {"name": f"{name}-abcdefg-shared-gpu-0", "key": names.NVIDIA_VISIBLE_DEVICES}
            container["env"] = [{"name": names.NVIDIA_VISIBLE_DEVICES, "valueFrom": {"configMapKeyRef": key}}]
        elif gpus:
            resources["limits"] = {names.NVIDIA_GPU: str(gpus)}
            resources["requests"][names.NVIDIA_GPU] = str(gpus)
        body = {
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **spec},
        }
        return await self.client.create(PODS, body, namespace=namespace)

    async def bare_pod(self, name, *, gpus=1, owner=None, **annotations):
        """A pod as its user leaves it: the pod-grouper has to find its group."""
        resources = {
            "requests": {"cpu": "1", names.NVIDIA_GPU: str(gpus)},
            "limits": {names.NVIDIA_GPU: str(gpus)},
        }
        metadata = {"name": name, "labels": {names.QUEUE_LABEL: "test"}, "annotations": annotations}
        if owner is not None:
            meta = owner["metadata"]
            metadata["ownerReferences"] = [
                {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
            ]
        container = {"name": "main", "image": "x", "resources": resources}
        spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}
        return await self.client.create(PODS, {"metadata": metadata, "spec": spec}, namespace="default")

    async def get(self, name, *, namespace="default", res=PODS):
        return await self.client.get(res, name, namespace=namespace)

    async def phase(self, name, phase, *, namespace="default"):
        patch = {"status": {"phase": phase}}
        await self.client.patch(PODS, name, patch, namespace=namespace, subresource="status")

    async def pods(self, namespace="default"):
        return await self.client.list(PODS, namespace=namespace)

    async def reservations(self):
        return await self.client.list(PODS, namespace=RESERVATIONS)

    async def grants(self):
        """By pod, on all reservation pods."""
        return {
            claim.pod: claim.grant
            for each in await self.reservations()
            for claim in claims_of(each["metadata"]["annotations"]).values()
        }

    async def events(self, reason):
        return [e for e in await self.client.list(EVENTS) if e.get("reason") == reason]

    async def config_map(self, name):
        return await self.client.get(CONFIG_MAPS, name, namespace="default")

    # --- waiting -------------------------------------------------------------------------------
    async def until(self, holds):
        """Ask until it holds; gives what it gave."""
        return await eventually(holds, passing=(errors.NotFound,), report=self.report)

    async def report(self):
        """The pods, for the message of a failure."""
        return "\n".join(
            f"{p['metadata']['name']} on {p['spec'].get('nodeName')}: {p.get('status', {}).get('conditions')}"
            for p in await self.client.list(PODS)
        )

    async def bound(self, *pods):
        """Wait until these pods are bound; their nodes."""

        async def holds():
            found = [(await self.get(name))["spec"].get("nodeName") for name in pods]
            return found if all(found) else None

        return await self.until(holds)


async def play_reservation_program(client):
    """What runs in reservation pods: tells a device, and a kubelet that says it runs."""
    given = {}
    while True:
        for pod in await client.list(PODS, namespace=RESERVATIONS):
            meta = pod["metadata"]
            if names.RESERVED_GPU in meta.get("annotations", {}) or meta.get("deletionTimestamp"):
                continue
            node = pod["spec"]["nodeName"]
            given[node] = given.get(node, 0) + 1
            patch = {"metadata": {"annotations": {names.RESERVED_GPU: f"GPU-{node}-{given[node]}"}}}
            try:
                await client.patch(PODS, meta["name"], patch, namespace=RESERVATIONS)
            except errors.NotFound:
                continue
        await asyncio.sleep(0.02)


@pytest.fixture
def runtime_config():
    """Which versions the API server has, where a test says so."""
    return ""


@pytest.fixture
async def cluster(tmp_path, runtime_config):
    """An empty cluster with our definitions, namespaces and a queue ``test``."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer(runtime_config=runtime_config))
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        client = await stack.enter_async_context(KubeClient.connect(str(kubeconfig), user_agent="test"))
        for definition in DEFINITIONS:
            await client.create(CRDS, definition)
        for namespace in (RESERVATIONS, names.NAMESPACE, names.SCALE_ADJUST_NAMESPACE):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        account = {"metadata": {"name": names.RESERVATION_SERVICE_ACCOUNT, "namespace": RESERVATIONS}}
        await client.create(SERVICE_ACCOUNTS, account, namespace=RESERVATIONS)
        cluster = Cluster(server, kubeconfig, client)
        await cluster.queue("top")
        await cluster.queue("test", parent="top")
        yield cluster


@pytest.fixture
async def devices(cluster):
    """Reservation pods get devices while the test runs."""
    async with cluster.devices():
        yield
