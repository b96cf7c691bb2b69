"""The guide, step by step: what an administrator does, and what has to come of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

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
    port_of,
    state,
)
from e2e.images.claims import ROOT
from kai.kube.resources import NODES, QUEUES

#: The pods of the product, and the Redis that the chart brings.
SERVICES: Final = (
    *("admission", "binder", "kai-operator", "kai-scheduler-default", "pod-grouper"),
    *("podgroup-controller", "queue-controller"),
)
_REDIS: Final = "kai-redis"
#: Without the operator: what serves each pod.
_SIX: Final = tuple(name for name in SERVICES if name != "kai-operator")
_MOST_MEBIBYTES: Final = 600
#: Of all images that they are made from, as a node keeps and tells them: compressed.
_MOST_OF_IMAGES: Final = 400
#: From start to ready.
MOST_SECONDS: Final = 10
_USER: Final = "10000"
_COLUMNS: Final = (
    "custom-columns=NAME:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName,"
    "GROUP:.metadata.labels.runai-gpu-group,PART:.metadata.annotations.gpu-fraction"
)
_MODEL: Final = "Qwen/Qwen2.5-0.5B-Instruct"
_ASK: Final = {"model": _MODEL, "prompt": "one device for two", "max_tokens": 2}
#: By the name of the Service, from inside a pod.
_ASK_BY_NAME: Final = f"""
import urllib.request
print(urllib.request.urlopen("http://vllm.{WORK}/v1/models", timeout=20).read().decode())
"""
_EXTERNAL: Final = "Detected pod with no owner but with podgroup annotation"


@dataclass(frozen=True, slots=True)
class Step:
    """What is done; gives what is to be told of it, or raises :class:`AssertionError`."""

    title: str
    play: Callable[[Site], Awaitable[str]]


# --- installation ------------------------------------------------------------------------------
async def install(site: Site) -> str:
    """As the guide says; registry and tag are where the images are here."""
    await site.kubectl("create", "namespace", SYSTEM)
    values = {
        "global.gpuSharing": "true",
        "global.resourceReservation.runtimeClassName": "nvidia",
        "global.registry": "localhost",
        "global.tag": "dev",
    }
    chart = str(ROOT / "helm" / "kai-scheduler")
    command = (str(site.helm), "upgrade", "--install", "kai-scheduler", chart, f"--namespace={SYSTEM}")
    settings = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    await site.run(*command, f"--kubeconfig={site.kubeconfig}", *settings)
    return f"helm upgrade --install with {', '.join(list(values)[:2])}"


async def services_run(site: Site) -> str:
    """Seven pods in containers, ready; all of them begin at once."""
    pods = await _of_the_product(site)
    again = {name: state(pod)["restartCount"] for name, pod in pods.items() if state(pod)["restartCount"]}
    expect(not again, f"restarted: {again}")
    took = {name: seconds_to_ready(pod) for name, pod in pods.items()}
    latest = max(took, key=lambda name: took[name])
    what = f"from start to ready, all at once; the latest, {latest}"
    site.figures.append(measured(what, took[latest], "s", most=MOST_SECONDS))
    return f"{len(pods)} Running; from start to ready {min(took.values())} to {took[latest]} s ({latest})"


async def are_confined(site: Site) -> str:
    """Probes, no root, nothing to write to: as their manifests say, and as they find it themselves."""
    pods = await _of_the_product(site)
    for name, pod in pods.items():
        (container,) = pod["spec"]["containers"]
        expect({"livenessProbe", "readinessProbe"} <= set(container), f"{name} has no probes")
        context = pod["spec"]["securityContext"] | container["securityContext"]
        expect(context.get("runAsNonRoot"), f"{name} may be root")
        expect(context.get("readOnlyRootFilesystem"), f"{name} may write into its image")
    looks = await asyncio.gather(*(_seen_inside(site, pod) for pod in pods.values()))
    for name, (user, refused) in zip(pods, looks, strict=True):
        expect(user == _USER, f"{name} runs as {user}")
        expect("Read-only file system" in refused, f"{name}: {refused}")
    return f"each as user {_USER}, with probes and a read-only root"


async def need_little_memory(site: Site) -> str:
    """Memory as the kubelets count it, and images as they tell them."""
    images = await _images_of_the_product(site)
    large = sum(images.values())
    site.figures.append(measured("images of all services", large, "MiB", most=_MOST_OF_IMAGES))
    expect(large < _MOST_OF_IMAGES, f"the images have {large:.0f} MiB: {images}")
    used: dict[str, float] = {}
    for node in await site.nodes_of():
        told = json.loads(await site.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))
        for pod in told["pods"]:
            if pod["podRef"]["namespace"] == SYSTEM:
                bytes_ = sum(each["memory"]["workingSetBytes"] for each in pod["containers"])
                used[workload(pod["podRef"]["name"])] = bytes_ / 2**20
    six = sum(used[name] for name in _SIX)
    site.figures.append(measured("memory of the six", six, "MiB", most=_MOST_MEBIBYTES))
    expect(six < _MOST_MEBIBYTES, f"the six need {six:.0f} MiB: {used}")
    largest = max(_SIX, key=lambda name: used[name])
    return (
        f"the six {six:.0f} MiB, of which {largest} {used[largest]:.0f}; "
        f"{len(images)} image of {large:.0f} MiB"
    )


async def _images_of_the_product(site: Site) -> dict[str, float]:
    """MiB of each image of a pod of the product, by name."""
    sizes = {
        name: image["sizeBytes"] / 2**20
        for node in await site.client.list(NODES)
        for image in node["status"].get("images", ())
        for name in image["names"]
    }
    pods = await _of_the_product(site)
    return {
        container["image"]: sizes[container["image"]]
        for pod in pods.values()
        for container in pod["spec"]["containers"]
    }


async def _of_the_product(site: Site) -> dict[str, Manifest]:
    """Its pods by what they are of, all ready; Redis is looked for and left out."""
    pods = {workload(pod["metadata"]["name"]): pod for pod in await site.ready(SYSTEM, len(SERVICES) + 1)}
    expect(set(pods) == {*SERVICES, _REDIS}, sorted(pods))
    return {name: pods[name] for name in SERVICES}


def workload(pod: str) -> str:
    """What the Deployment of a pod is called."""
    return pod.rsplit("-", 2)[0]


def seconds_to_ready(pod: Manifest) -> int:
    """Between the start of a pod's container and its being ready."""
    started = datetime.fromisoformat(state(pod)["state"]["running"]["startedAt"])
    ready = datetime.fromisoformat(condition(pod, "Ready")["lastTransitionTime"])
    return round((ready - started).total_seconds())


async def _seen_inside(site: Site, pod: Manifest) -> tuple[str, str]:
    """Its user, and what becomes of writing a file."""
    script = "id -u; touch /written 2>&1 || true"
    said = await site.kubectl(
        "exec", f"--namespace={SYSTEM}", pod["metadata"]["name"], "--", "sh", "-c", script
    )
    user, _, refused = said.partition("\n")
    return user, refused.strip()


# --- sharing -----------------------------------------------------------------------------------
async def queues(site: Site) -> str:
    """A queue, and one in it."""
    await site.apply("queues.yaml")
    parents = {
        queue["metadata"]["name"]: queue["spec"].get("parentQueue")
        for queue in await site.client.list(QUEUES)
    }
    expect(parents.get("test") == "default", parents)
    return "queue test is a leaf of queue default"


async def models_share(site: Site) -> str:
    """Two Deployments whose pods hold one device between them, by the kubelet's own account."""
    await site.apply("models.yaml")
    pods = [(await site.ready(WORK, 1, app=f"vllm-test-{part}"))[0] for part in ("07", "02")]
    listing = await site.kubectl("get", "pods", f"--namespace={WORK}", "-o", _COLUMNS)
    rows = [line.split() for line in listing.splitlines()[1:]]
    groups = {row[3] for row in rows}
    expect(len(rows) == 2 and len(groups) == 1 and groups != {"<none>"}, listing)
    (reservation,) = await site.ready(RESERVATIONS, 1)
    told = reservation["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
    given = (await site.no_device_twice())[reservation["metadata"]["uid"]]
    expect([told] == given, f"told {told}, given {given}")
    expect({group(pod) for pod in pods} == {group(reservation)}, "another group")
    return f"0.7 and 0.2 on {pods[0]['spec']['nodeName']}, device {told[:12]}…, as its kubelet has it"


async def completes(site: Site) -> str:
    """By a forwarded port from outside, and by the name of the Service from a pod."""
    await site.apply("service.yaml")
    async with _forwarded(site, "service/vllm", 80) as port:
        url = f"http://127.0.0.1:{port}/v1/completions"
        header = ("--header", "Content-Type: application/json", "--data", json.dumps(_ASK))
        answer = json.loads(await site.run("curl", "--silent", "--show-error", "--fail", *header, url))
    text = answer["choices"][0]["text"]
    expect(text == "two for", answer)
    inside = ("exec", f"--namespace={WORK}", "deployment/vllm-test-02", "--", "python3", "-c", _ASK_BY_NAME)
    models = json.loads(await site.kubectl(*inside))
    expect(models["data"][0]["id"] == _MODEL, models)
    return f"completed by {text!r}; its Service is found by name"


@contextlib.asynccontextmanager
async def _forwarded(site: Site, target: str, port: int) -> AsyncIterator[int]:
    """The local port that leads to a port of ``target`` while the block runs."""
    command = (
        "kubectl",
        f"--kubeconfig={site.kubeconfig}",
        "port-forward",
        f"--namespace={WORK}",
        target,
        f":{port}",
    )
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with deadlines.within("a port is forwarded"):
            yield port_of((await process.stdout.readline()).decode())
    finally:
        process.terminate()
        await process.wait()


async def can_be_looked_into(site: Site) -> str:
    """What a model says, and what it was given."""
    log = await site.kubectl("logs", f"--namespace={WORK}", "deployment/vllm-test-07")
    first = re.fullmatch(r"device (\S+), part (\S+), to be used 0\.7", log.splitlines()[0])
    expect(first, log[:200])
    command = ("exec", f"--namespace={WORK}", "deployment/vllm-test-02", "--", "printenv")
    device, part = (await site.kubectl(*command, "NVIDIA_VISIBLE_DEVICES", "GPU_PORTION")).split()
    assert first is not None
    expect((first[1], first[2], part) == (device, "0.70", "0.20"), f"{first[0]}; {device} {part}")
    return f"logs and exec: both see {device[:12]}…, 0.70 and 0.20 of it"


async def third_goes_elsewhere(site: Site) -> str:
    """A half does not fit beside them."""
    await site.apply("third-model.yaml")
    (third,) = await site.ready(WORK, 1, app="vllm-test-05")
    (first,) = await site.ready(WORK, 1, app="vllm-test-07")
    expect(group(third) and group(third) != group(first), "the same device")
    reservations = await site.ready(RESERVATIONS, 2)
    held = await site.no_device_twice()
    devices = {device for pod in reservations for device in held[pod["metadata"]["uid"]]}
    expect(len(devices) == 2, held)
    return f"0.5 on {third['spec']['nodeName']}, another device"


# --- virtual clusters --------------------------------------------------------------------------
async def virtual_cluster(site: Site) -> str:
    """Pods that another cluster has made here have no owner, and the name of a group that it has made."""
    await site.apply("virtual-cluster.yaml")
    (pod,) = await site.ready("virtual", 1)
    meta = pod["metadata"]
    expect("ownerReferences" not in meta, meta)
    expect(meta["annotations"]["pod-group-name"] == "pg-train-x-virtual", meta["annotations"])
    log = await site.kubectl("logs", f"--namespace={SYSTEM}", "deployment/pod-grouper", "--tail=-1")
    line = next((line for line in log.splitlines() if _EXTERNAL in line and meta["name"] in line), None)
    expect(line, "pod-grouper's log has no word of it")
    await site.kubectl("delete", "namespace", "virtual", "--wait=false")
    await site.gone("virtual")  # and its device is another's
    return "its annotation is kept, the pod runs, and the log tells of it"


STORY: Final = (
    Step("the chart is installed", install),
    Step("seven pods run in containers", services_run),
    Step("they are confined, and probed", are_confined),
    Step("they need little", need_little_memory),
    Step("queues default and test", queues),
    Step("two models share a GPU", models_share),
    Step("a model completes, behind a Service", completes),
    Step("logs and exec", can_be_looked_into),
    Step("a third model goes elsewhere", third_goes_elsewhere),
    Step("pods of a virtual cluster", virtual_cluster),
)
