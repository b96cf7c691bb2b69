"""Run in a container of the image for a cluster in a box: bring one up, have a pod placed, end it."""

import asyncio
import subprocess

from kai.kube.client import KubeClient
from kai.kube.resources import PODS

_KUBECONFIG = "/tmp/kubeconfig"
_NAMED = ("--name", "in-an-image")
_POD = {
    "metadata": {
        "name": "pod",
        "namespace": "default",
        "labels": {"kai.scheduler/queue": "default-queue"},
        "annotations": {"gpu-fraction": "0.5"},
    },
    "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "example.com/any"}]},
}


async def _phase_in_the_end() -> str:
    async with KubeClient.connect(_KUBECONFIG) as client:
        await client.create(PODS, _POD, namespace="default")
        phase = "Pending"
        while phase == "Pending":  # whoever runs this has a deadline
            await asyncio.sleep(0.2)
            phase = (await client.get(PODS, "pod", namespace="default"))["status"].get("phase")
    return phase


subprocess.run(["kai", "local", "up", "--detach", "--kubeconfig", _KUBECONFIG, *_NAMED], check=True)
try:
    print("a pod of half a GPU:", asyncio.run(_phase_in_the_end()))  # noqa: T201
finally:
    subprocess.run(["kai", "local", "down", *_NAMED], check=True)
