"""Each process is ended (``kill -9``) just before and just after each of its requests, and all comes right.

The API server holds the request, carried out or not, so that the kill falls between it and what would have
come next. What came of it is looked at while the next process of its kind works, which is ended in turn.
"""

import itertools
import signal
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

import pytest

from deadlines import eventually, patience
from e2e.metrics import total
from kai.kube.resources import CONFIG_MAPS, POD_GROUPS, QUEUES
from kai.model import names
from kai.model.rules.gpu_groups import gpu_groups
from kai_local.processes.ports import LOOPBACK, free_ports

pytestmark = pytest.mark.integration

#: For how long nobody follows one that was killed; where a machine is slow it would lose a short Lease.
TERM_SECONDS = round(patience(1 / 20))
TERM = (
    f"--lease-duration={TERM_SECONDS}s",
    f"--lease-renew-deadline={0.8 * TERM_SECONDS:.1f}s",
    "--lease-retry-period=200ms",
)
#: Of those that nobody follows.
FOR_EVER = {"lease_duration": 600, "lease_renew_deadline": 500}
SCHEDULER = ("--grpc-listen=127.0.0.1:0", "--plugin-server-port=0", *TERM)


class Request(NamedTuple):
    """What the API server is asked."""

    verb: str
    resource: str
    subresource: str = ""


class Service(NamedTuple):
    """How one is started as a process of its own, and what it asks in turn for a pod of whole GPUs."""

    module: str
    flags: tuple[str, ...]
    requests: tuple[Request, ...]


BIND = Request("create", "pods", "binding")
SERVICES = {
    "pod-grouper": Service(
        "kai_pod_grouper",
        ("--grpc-listen=127.0.0.1:0", "--annotate-after=1h", *TERM),
        (Request("create", "podgroups"),),
    ),
    "binder": Service(
        "kai_binder", (), (BIND, Request("create", "events"), Request("patch", "pods", "status"))
    ),
    "podgroup-controller": Service(
        "kai_podgroup_controller",
        ("--enable-podgroup-webhook=false",),
        (Request("patch", "podgroups", "status"),),
    ),
    "queue-controller": Service(
        "kai_queue_controller",
        ("--enable-webhook=false", "--status-interval=100ms"),
        (Request("patch", "queues", "status"),),
    ),
}
#: What the binder asks for a pod that gets a part of a device which nobody has a part of yet.
SHARING = (Request("patch", "pods"), Request("create", "pods"), Request("create", "configmaps"), BIND)


def beside(cluster, *absent):
    """The services in this process, but for these."""
    there = {
        "scheduler": partial(cluster.scheduler, **FOR_EVER),
        "pod-grouper": partial(cluster.pod_grouper, **FOR_EVER),
        "binder": cluster.binder,
        "podgroup-controller": cluster.podgroup_controller,
        "queue-controller": cluster.queue_controller,
    }
    return [start() for name, start in there.items() if name not in absent]


async def killed(process):
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def killed_at(cluster, process, service, request, *, done, give):
    """End a process once it has asked this for the pod that is given: before it is done, or after."""
    cluster.fault(**request._asdict(), user_agent=f"kai-{service}", hang=True, after=done, count=-1)
    held = cluster.server.faults.held
    await give()
    await eventually(lambda: cluster.server.faults.held > held, what=f"{request} is held")
    await killed(process)
    cluster.server.faults.rules.clear()


# --- what has to be right -------------------------------------------------------------------------
async def all_is_right(cluster, pods):
    """These pods (uids by name) are bound, none twice or anew, and everybody says what is so."""
    if not pods:
        return
    await cluster.bound(*pods)
    found = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
    assert {name: pod["metadata"]["uid"] for name, pod in found.items()} == pods
    for pod in found.values():
        annotations = pod["metadata"]["annotations"]
        assert annotations[names.POD_GROUP_ANNOTATION]
        assert annotations[names.RECEIVED_RESOURCE_TYPE]
        [scheduled] = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
        assert scheduled["status"] == "True"
    gpus = round(sum(map(asked, found.values())), 3)
    expected = {"groups": (len(pods), gpus), "test": gpus, "top": gpus}
    await eventually(lambda: charged(cluster), lambda said: said == expected, what=f"{expected} is said")
    assert not await cluster.events("BindingError")
    groups = {group["metadata"]["name"] for group in await cluster.client.list(POD_GROUPS)}
    assert {pod["metadata"]["annotations"][names.POD_GROUP_ANNOTATION] for pod in found.values()} == groups


def asked(pod):
    """GPUs that a pod asks for."""
    share = pod["metadata"]["annotations"].get(names.GPU_FRACTION)
    [container] = pod["spec"]["containers"]
    return float(share) if share else int(container["resources"]["limits"][names.NVIDIA_GPU])


async def charged(cluster):
    """GPUs that pod groups hold, how many of them hold any, and what queues are charged."""
    groups, queues = await statuses(cluster, POD_GROUPS), await statuses(cluster, QUEUES)
    held = [gpus_of(group["status"].get("resourcesStatus", {})) for group in groups]
    return {
        "groups": (len(held), round(sum(held), 3)),
        **{queue["metadata"]["name"]: gpus_of(queue["status"]) for queue in queues},
    }


async def statuses(cluster, resource):
    """The objects that have one."""
    return [each for each in await cluster.client.list(resource) if each.get("status")]


def gpus_of(amounts):
    text = (amounts.get("allocated") or {}).get(names.NVIDIA_GPU, "0")
    return int(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)


# --- pods of whole GPUs ---------------------------------------------------------------------------
@pytest.mark.parametrize("name", SERVICES)
async def test_one_that_is_killed_at_any_of_its_requests_leaves_what_comes_right(cluster, name):
    await cluster.node("n1", gpus=16)
    service, pods = SERVICES[name], {}

    async def give():
        pod = await cluster.bare_pod(f"p{len(pods)}")
        pods[pod["metadata"]["name"]] = pod["metadata"]["uid"]

    async with AsyncExitStack() as others:
        for other in beside(cluster, name):
            await others.enter_async_context(other)
        for request, done in itertools.product(service.requests, (False, True)):
            async with cluster.process(service.module, *service.flags) as victim:
                await all_is_right(cluster, pods)
                await killed_at(cluster, victim, name, request, done=done, give=give)
        async with cluster.process(service.module, *service.flags):
            await all_is_right(cluster, pods)


async def decided(port, count):
    """Wait until the scheduler whose metrics are there has decided for so many pods that are not bound."""
    await eventually(
        lambda: total([f"http://{LOOPBACK}:{port}"], "kai_decisions_outstanding"),
        lambda found: found == count,
        what=f"{count} pods are decided for",
    )


async def test_a_scheduler_that_is_killed_before_a_binder_has_what_it_decided_is_followed_by_one(cluster):
    await cluster.node("n1", gpus=16)
    pods, [port] = {}, free_ports(1)
    async with AsyncExitStack() as others:
        for other in beside(cluster, "scheduler", "binder"):
            await others.enter_async_context(other)
        async with cluster.process("kai_scheduler", *SCHEDULER, metrics=port) as victim:
            for number in range(3):
                pod = await cluster.bare_pod(f"p{number}")
                pods[pod["metadata"]["name"]] = pod["metadata"]["uid"]
            await decided(port, len(pods))
            await killed(victim)
        async with cluster.scheduler(**FOR_EVER), cluster.binder():
            await all_is_right(cluster, pods)


async def test_a_scheduler_that_is_killed_while_a_bind_is_under_way_is_followed_by_one(cluster):
    await cluster.node("n1", gpus=16)
    pods = {}

    async def give():
        pod = await cluster.bare_pod(f"p{len(pods)}")
        pods[pod["metadata"]["name"]] = pod["metadata"]["uid"]

    async with AsyncExitStack() as others:
        for other in beside(cluster, "scheduler"):
            await others.enter_async_context(other)
        for done in (False, True):
            async with cluster.process("kai_scheduler", *SCHEDULER) as victim:
                await all_is_right(cluster, pods)
                await killed_at(cluster, victim, "binder", BIND, done=done, give=give)
                cluster.server.faults.release()
        async with cluster.scheduler(**FOR_EVER):
            await all_is_right(cluster, pods)


# --- pods that wait ----------------------------------------------------------------------------
#: What the podgroup-controller asks for a pod that has no room: the event comes behind what it is about.
TELLING = (
    Request("patch", "podgroups", "status"),
    Request("patch", "pods", "status"),
    Request("create", "events"),
)


async def test_a_controller_that_is_killed_while_it_tells_why_a_pod_waits_leaves_nothing_untold(cluster):
    await cluster.node("n1", gpus=16)
    pods = []

    async def give():
        pod = await cluster.bare_pod(f"p{len(pods)}", gpus=17)
        pods.append(pod["metadata"]["name"])

    service = SERVICES["podgroup-controller"]
    async with AsyncExitStack() as others:
        for other in beside(cluster, "podgroup-controller", "pod-grouper"):
            await others.enter_async_context(other)
        await others.enter_async_context(cluster.pod_grouper(annotate_after=0, **FOR_EVER))
        for request, done in itertools.product(TELLING, (False, True)):
            async with cluster.process(service.module, *service.flags) as victim:
                await all_is_told(cluster, pods)
                await killed_at(cluster, victim, "podgroup-controller", request, done=done, give=give)
        async with cluster.process(service.module, *service.flags):
            await all_is_told(cluster, pods)


async def all_is_told(cluster, pods):
    """Each pod says why it waits, and an event says it once of each and of its group."""
    expected = sorted(about for name in pods for about in (f"Pod {name}", f"PodGroup pg-{name}"))

    async def said():
        return sorted(pod["metadata"]["name"] for pod in await cluster.pods() if reason_of(pod))

    async def told():
        events = [event["regarding"] for event in await cluster.events("Unschedulable")]
        return sorted(f"{each['kind']} {each['name'][: len('pg-p0')]}" for each in events)

    await eventually(said, lambda found: found == sorted(pods), what="all pods say why they wait")
    await eventually(told, lambda found: found == expected, what=f"{expected} are told of once each")


def reason_of(pod):
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


# --- pods that share ------------------------------------------------------------------------------
async def test_a_binder_that_is_killed_at_any_request_for_a_shared_gpu_leaves_what_comes_right(
    cluster, devices
):
    await cluster.node("n1", gpus=16)
    pods = {}

    async def give():
        pod = await cluster.pod(f"p{len(pods)}", fraction=0.6)
        pods[pod["metadata"]["name"]] = pod["metadata"]["uid"]

    async with AsyncExitStack() as others:
        for other in beside(cluster, "binder"):
            await others.enter_async_context(other)
        for request, done in itertools.product(SHARING, (False, True)):
            async with cluster.process("kai_binder") as victim:
                await sharing_is_right(cluster, pods)
                await killed_at(cluster, victim, "binder", request, done=done, give=give)
        async with cluster.process("kai_binder"):
            await sharing_is_right(cluster, pods)


async def sharing_is_right(cluster, pods):
    """As of all pods; each has a device, its word on it and its ConfigMaps, and no other device is held."""
    await all_is_right(cluster, pods)
    groups = {pod["metadata"]["name"]: gpu_groups(pod["metadata"]["labels"]) for pod in await cluster.pods()}
    held = set(itertools.chain(*groups.values()))
    assert len(held) == len(pods) == sum(map(len, groups.values()))

    async def reserved():
        return {pod["metadata"]["labels"][names.GPU_GROUP_LABEL] for pod in await cluster.reservations()}

    await eventually(reserved, lambda found: found == held, what="what is held is reserved, and nothing else")
    assert {pod for pod, grant in (await cluster.grants()).items() if grant} == {f"default/{p}" for p in pods}
    maps = {each["metadata"]["name"] for each in await cluster.client.list(CONFIG_MAPS, namespace="default")}
    for name in pods:
        assert {f"{name}-abcdefg-shared-gpu-0", f"{name}-abcdefg-shared-gpu-0-evar"} <= maps
