"""What may go wrong on a node while the guide's models run, and what has to come of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import yaml

import deadlines
from e2e.guide.figures import measured
from e2e.guide.site import (
    RESERVATIONS,
    SYSTEM,
    WORK,
    Manifest,
    Site,
    condition,
    expect,
    group,
    has_ended,
    is_ready,
    state,
)
from e2e.guide.story import MOST_SECONDS, SERVICES, Step, seconds_to_ready, workload
from kai.engine.plugins.predicates.refusals import REASON as REFUSED_LATELY
from kai.kube.errors import NotFound
from kai.kube.resources import NODES, PODS

_MODELS: Final = ("vllm-test-07", "vllm-test-02", "vllm-test-05")


# --- who runs, and in which containers ---------------------------------------------------------
async def _models(site: Site) -> dict[str, Manifest]:
    """The pods of the three models by name of their Deployment, all ready."""
    return {name: (await site.ready(WORK, 1, app=name))[0] for name in _MODELS}


def _containers(pods: dict[str, Manifest]) -> dict[str, str]:
    return {name: state(pod)["containerID"] for name, pod in pods.items()}


async def _pod(site: Site, name: str, accept: Callable[[Manifest], object], what: str) -> Manifest:
    async def look() -> Manifest:
        found: Manifest = await site.client.get(PODS, name, namespace=WORK)
        return found

    return await deadlines.eventually(look, accept, what=f"pod {name} {what}", passing=(NotFound,))


async def _node_is(site: Site, node: str, ready: str) -> None:
    async def look() -> str:
        found: Any = await site.client.get(NODES, node)
        return str(condition(found, "Ready").get("status"))

    await deadlines.eventually(look, lambda told: told == ready, what=f"Ready of {node} is {ready}")


async def _make(site: Site, name: str, *, gpus: int = 0, **container: Any) -> None:
    """A pod of queue test that our scheduler places."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    main = {"name": "main", "image": "vllm/vllm-openai:latest", "imagePullPolicy": "IfNotPresent"}
    grace = container.pop("grace", 1)
    manifest = {
        "metadata": {"name": name, "namespace": WORK, "labels": {"kai.scheduler/queue": "test", "app": name}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": grace,
            "containers": [main | {"resources": limits} | container],
        },
    }
    await site.client.create(PODS, manifest, namespace=WORK)


async def _delete(site: Site, name: str) -> None:
    await site.kubectl("delete", "pod", f"--namespace={WORK}", name)


# --- kubelet and containerd ----------------------------------------------------------------------
async def node_parts_are_killed(site: Site) -> str:
    """kubelet and containerd begin anew; the containers know nothing of it."""
    before = _containers(await _models(site))
    held = await site.no_device_twice()
    for node in range(len(await site.nodes_of())):
        for part in ("kubelet", "containerd"):
            await _killed(site, f"{part}-{node}")
    await _make(site, "after", command=["sleep", "infinity"])
    (pod,) = await site.ready(WORK, 1, app="after")  # so both do their work again
    await _delete(site, "after")
    after = _containers(await _models(site))
    expect(after == before, f"other containers: {before}, {after}")
    await site.ready(SYSTEM, len(SERVICES) + 1)
    expect(await site.no_device_twice() == held, "other devices")
    return f"the same containers, the same devices; a new pod on {pod['spec']['nodeName']}"


async def node_is_silent(site: Site) -> str:
    """A kubelet that says nothing any more: its node gets no pods, and keeps what runs on it."""
    before = await _models(site)
    node = before["vllm-test-05"]["spec"]["nodeName"]
    (other,) = set(await site.nodes_of()) - {node}
    kubelet = site.process(f"kubelet-{node.rpartition('-')[2]}")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        await _node_is(site, node, "Unknown")
        await _make(site, "elsewhere", gpus=1, command=["sleep", "infinity"])
        (pod,) = await site.ready(WORK, 1, app="elsewhere")
        expect(pod["spec"]["nodeName"] == other, f"placed on {pod['spec']['nodeName']}, which is silent")
    finally:
        os.kill(kubelet, signal.SIGCONT)
    await _node_is(site, node, "True")
    after = await _models(site)
    expect(_containers(after) == _containers(before), "containers were begun anew")
    await _delete(site, "elsewhere")
    return f"{node} NotReady and back, its containers ran on; a pod came to {other} meanwhile"


# --- containers and images -----------------------------------------------------------------------
async def container_crashes(site: Site) -> str:
    """It is begun anew on its node, and keeps its device."""
    await _make(site, "crashing", gpus=1, command=["sh", "-c", "sleep 1; exit 3"])
    pod = await _pod(
        site, "crashing", lambda pod: state(pod).get("restartCount", 0) >= 2, "was begun anew twice"
    )
    expect(pod["status"]["phase"] == "Running", pod["status"]["phase"])
    devices = (await site.no_device_twice())[pod["metadata"]["uid"]]
    await _delete(site, "crashing")
    return (
        f"begun anew {state(pod)['restartCount']} times on {pod['spec']['nodeName']}, with {devices[0][:12]}…"
    )


async def image_is_nowhere(site: Site) -> str:
    """The pod waits for it on its node, and says so; once deleted, its device is free."""
    await _make(site, "no-image", gpus=1, image="localhost/nowhere:1")

    def waits(pod: Manifest) -> bool:
        return state(pod).get("state", {}).get("waiting", {}).get("reason") == "ImagePullBackOff"

    pod = await _pod(site, "no-image", waits, "waits for its image")
    expect(pod["spec"].get("nodeName"), "it was not bound")
    await _delete(site, "no-image")
    await site.gone(WORK, app="no-image")
    return f"ImagePullBackOff on {pod['spec']['nodeName']}, and gone when deleted"


async def containers_never_run(site: Site) -> str:
    """Both at once: each waits for what its kubelet waits between tries."""
    return "; ".join(await asyncio.gather(container_crashes(site), image_is_nowhere(site)))


async def grace_runs_out(site: Site) -> str:
    """What does not end when told is ended, and its device is given to the next."""
    await _make(
        site, "deaf", gpus=1, command=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], grace=2
    )
    (pod,) = await site.ready(WORK, 1, app="deaf")
    began = asyncio.get_running_loop().time()
    await _delete(site, "deaf")
    await site.gone(WORK, app="deaf")
    took = asyncio.get_running_loop().time() - began
    await _make(site, "next", gpus=1, command=["sleep", "infinity"])
    await site.ready(WORK, 1, app="next")
    await site.no_device_twice()
    await _delete(site, "next")
    return f"killed on {pod['spec']['nodeName']} after {took:.0f} s of deafness; the next one runs"


# --- devices -------------------------------------------------------------------------------------
@contextlib.asynccontextmanager
async def _marked(site: Site, node: str, folder: str, *devices: str) -> AsyncIterator[None]:
    """Devices of a node are ``unhealthy`` or ``broken`` while the block runs."""
    files = [site.folder(node) / folder / device for device in devices]
    for file in files:
        file.touch()
    try:
        yield
    finally:
        for file in files:
            file.unlink()


async def _allocatable(site: Site, node: str, count: int) -> None:
    async def look() -> str:
        found: Any = await site.client.get(NODES, node)
        return str(found["status"]["allocatable"].get("nvidia.com/gpu"))

    await deadlines.eventually(look, lambda told: told == str(count), what=f"{node} has {count} devices")


async def device_becomes_ill(site: Site) -> str:
    """In use: who is deleted comes again on another device, and nobody gets the ill one."""
    pods = await _models(site)
    ill = group(pods["vllm-test-05"])
    (reservation,) = [pod for pod in await site.pods(RESERVATIONS) if group(pod) == ill]
    node = reservation["spec"]["nodeName"]
    device = reservation["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
    async with _marked(site, node, "unhealthy", device):
        await _allocatable(site, node, 1)
        await _delete(site, pods["vllm-test-05"]["metadata"]["name"])
        (again,) = await site.ready(WORK, 1, app="vllm-test-05")
        held = await site.no_device_twice()
        expect(
            all(device not in devices for devices in held.values()), f"the ill device was given again: {held}"
        )
    await _allocatable(site, node, 2)
    return f"{device[:12]}… of {node} ill, again on {again['spec']['nodeName']}, and left alone"


async def node_refuses(site: Site) -> str:
    """Broken devices that their plugin calls well: the nodes are left alone for a while, and that is told."""
    pods = await _models(site)
    used = {device for devices in (await site.no_device_twice()).values() for device in devices}
    broken = {
        node: [device for device in site.registered(node) if device not in used]
        for node in await site.nodes_of()
    }
    async with contextlib.AsyncExitStack() as stack:
        for node, devices in broken.items():
            await stack.enter_async_context(_marked(site, node, "broken", *devices))
        await site.apply("refused.yaml")
        said = await _explained(site, "refused")
        await _told(site, REFUSED_LATELY)
        failed = [pod for pod in await site.client.list(PODS, namespace=WORK) if has_ended(pod)]
        reasons = {pod["status"].get("reason") for pod in failed}
        expect(reasons == {"UnexpectedAdmissionError"}, reasons)
        expect(len(failed) < 20, f"{len(failed)} pods were refused, one after the other")
        await site.kubectl("delete", "deployment", f"--namespace={WORK}", "refused")
    expect(_containers(await _models(site)) == _containers(pods), "models were disturbed")
    return f"{len(failed)} pods refused, then: {said}"


async def _told(site: Site, words: str) -> None:
    """An event of a pod or its group says so."""

    async def look() -> list[str]:
        events = await site.kubectl("get", "events", f"--namespace={WORK}", "-o", "json")
        return [event["message"] for event in json.loads(events)["items"]]

    def accept(messages: list[str]) -> bool:
        return any(words in message for message in messages)

    await deadlines.eventually(look, accept, what=f"an event says that a {words}")


async def _explained(site: Site, subject: str) -> str:
    """What ``kai explain`` says once it speaks of nodes that refuse; the reason."""

    async def look() -> str:
        options = (f"--kubeconfig={site.kubeconfig}", "explain", subject, f"--namespace={WORK}")
        command = (sys.executable, "-m", "kai_cli", *options)
        return await site.run(*command)

    text = await deadlines.eventually(
        look, lambda said: "NodesSetAside" in said, what="explain tells of nodes set aside", times=2
    )
    return next(line.strip() for line in text.splitlines() if "NodesSetAside" in line)


# --- pressure ------------------------------------------------------------------------------------
async def node_is_under_pressure(site: Site) -> str:
    """A tainted node gets nothing, and the taint goes with the pressure. Whom it ends comes again."""
    nodes = await site.nodes_of()
    working = {pod["spec"]["nodeName"] for pod in (await _models(site)).values()}
    node = next((node for node in nodes if node not in working), nodes[0])
    (other,) = set(nodes) - {node}
    for kind, threshold in (("memory-pressure", "memory.available"), ("disk-pressure", "nodefs.available")):
        await _kubelet_with(site, node, {threshold: "99%"})
        try:
            await _tainted(site, node, kind, wanted=True)
            await _make(site, kind, command=["sleep", "infinity"])
            (pod,) = await site.ready(WORK, 1, app=kind)
            expect(pod["spec"]["nodeName"] == other, f"{kind}: placed on {pod['spec']['nodeName']}")
            await _delete(site, kind)
        finally:
            await _kubelet_with(site, node, {})
        await _tainted(site, node, kind, wanted=False)
    await _models(site)
    await site.ready(SYSTEM, len(SERVICES) + 1)
    return f"of memory and of disk on {node}: pods went to {other}"


async def _kubelet_with(site: Site, node: str, thresholds: dict[str, str]) -> None:
    """Begin a kubelet anew, to which less than that is pressure, though not yet a reason to evict anybody."""
    file = site.folder(node) / "kubelet.yaml"
    told = yaml.safe_load(file.read_text())
    told["evictionSoft"] = thresholds
    told["evictionSoftGracePeriod"] = dict.fromkeys(thresholds, "1h")
    file.write_text(yaml.safe_dump(told, sort_keys=False))
    await _killed(site, f"kubelet-{node.rpartition('-')[2]}")


async def _killed(site: Site, name: str) -> None:
    """Kill a process of the cluster; returns when there is another one in its place."""
    killed = site.process(name)
    os.kill(killed, signal.SIGKILL)
    await deadlines.eventually(
        lambda: site.process(name), lambda now: now not in (0, killed), what=f"{name} runs again"
    )


async def _tainted(site: Site, node: str, kind: str, *, wanted: bool) -> None:
    async def look() -> list[str]:
        found: Any = await site.client.get(NODES, node)
        return [taint["key"] for taint in found["spec"].get("taints") or ()]

    def accept(keys: list[str]) -> bool:
        return (f"node.kubernetes.io/{kind}" in keys) is wanted

    await deadlines.eventually(
        look, accept, what=f"{node} {'has' if wanted else 'has no'} taint {kind}", times=2
    )


# --- the product itself --------------------------------------------------------------------------
async def reservation_is_evicted(site: Site) -> str:
    """Who shares a device that nobody holds any more is ended, comes again, and nobody else is disturbed."""
    before = await _models(site)
    shared = group(before["vllm-test-07"])
    sharing = {name for name, pod in before.items() if group(pod) == shared}
    (reservation,) = [pod for pod in await site.pods(RESERVATIONS) if group(pod) == shared]
    name = reservation["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": RESERVATIONS},
    }
    await site.client.create_subresource(PODS, name, "eviction", eviction, namespace=RESERVATIONS)

    async def look() -> dict[str, Manifest]:
        found = {name: await site.pods(WORK, app=name) for name in _MODELS}
        return {name: pods[0] for name, pods in found.items() if len(pods) == 1 and is_ready(pods[0])}

    def accept(pods: dict[str, Manifest]) -> bool:
        others = {name for name in pods if pods[name]["metadata"]["uid"] != before[name]["metadata"]["uid"]}
        return len(pods) == len(_MODELS) and sharing <= others

    after = await deadlines.eventually(
        look, accept, what=f"{', '.join(sorted(sharing))} are others, and ready"
    )
    undisturbed = {name: before[name] for name in before if name not in sharing}
    expect(_containers(undisturbed).items() <= _containers(after).items(), "others were ended, too")
    await site.no_device_twice()
    return f"{' and '.join(sorted(sharing))} came again on {after['vllm-test-07']['spec']['nodeName']}"


async def services_are_deleted(site: Site) -> str:
    """One after the other; each comes again, work runs on, and new work is placed."""
    before = _containers(await _models(site))
    there = await site.pods(SYSTEM)
    for pod in there:
        name = pod["metadata"]["name"]
        await site.kubectl("delete", "pod", f"--namespace={SYSTEM}", name)
        after = await site.ready(SYSTEM, len(SERVICES) + 1)
        _measure_start(site, workload(name), after)
    await _make(site, "afterwards", gpus=1, command=["sleep", "infinity"])
    await site.ready(WORK, 1, app="afterwards")
    await _delete(site, "afterwards")
    expect(_containers(await _models(site)) == before, "models were disturbed")
    await site.no_device_twice()
    return f"{len(there)} pods deleted and there again; new work runs"


def _measure_start(site: Site, name: str, pods: list[Manifest]) -> None:
    """What the newest pod of a workload took to be ready, with nothing else of the product starting."""
    of_it = [pod for pod in pods if workload(pod["metadata"]["name"]) == name]
    newest = max(of_it, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    what = f"from start to ready, alone: {name}"
    site.figures.append(measured(what, seconds_to_ready(newest), "s", most=MOST_SECONDS))


async def all_is_given_back(site: Site) -> str:
    """Each pod was bound once; and nothing is held for anybody when all work is gone."""
    bound = await _times_bound(site)
    expect(bound and set(bound.values()) == {1}, f"bound: {bound}")
    await site.kubectl("delete", "namespace", WORK)
    await site.gone(RESERVATIONS)
    await deadlines.eventually(site.no_device_twice, lambda held: not held, what="no pod holds a device")
    return f"each of {len(bound)} pods was bound once; no reservation, and no device with anybody"


async def _times_bound(site: Site) -> Counter[str]:
    """How often each pod that there was in the namespace of work was bound, by what its events tell."""
    events = json.loads(await site.kubectl("get", "events", f"--namespace={WORK}", "-o", "json"))
    times: Counter[str] = Counter()
    for event in events["items"]:
        if event["reason"] == "Bound":
            told = (event.get("series") or {}).get("count") or event.get("count") or 1
            times[event["involvedObject"]["uid"]] += told
    return times


TROUBLE: Final = (
    Step("kubelets and containerd are killed", node_parts_are_killed),
    Step("a node falls silent", node_is_silent),
    Step("a container crashes, and an image is nowhere", containers_never_run),
    Step("a pod's grace runs out", grace_runs_out),
    Step("a device becomes ill in use", device_becomes_ill),
    Step("a reservation is evicted", reservation_is_evicted),
    Step("a node is under pressure", node_is_under_pressure),
    # Behind all that waits for room: nodes that refuse are left alone for 30 s.
    Step("nodes refuse pod after pod", node_refuses),
    Step("each service is deleted", services_are_deleted),
    Step("all is given back", all_is_given_back),
)
