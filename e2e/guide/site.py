"""The cluster of the guide, as its administrator works with it: kubectl, helm, and a look at the nodes."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import deadlines
from e2e.guide.figures import Figure
from kai.kube.client import KubeClient
from kai.kube.resources import PODS
from kai_local.box.state import ClusterFiles

MANIFESTS: Final = Path(__file__).parent / "manifests"
SYSTEM, WORK, RESERVATIONS = "kai-scheduler", "ai-workloads", "kai-resource-reservation"
_KUBELET_CHECKPOINT: Final = "kubelet/device-plugins/kubelet_internal_checkpoint"

Manifest = dict[str, Any]


class NotAsTold(AssertionError):
    """A step did not come out as the guide says; the message says what was seen instead."""


def expect(holds: object, seen: object) -> None:
    """See that something holds.

    Raises:
        NotAsTold: it does not.
    """
    if not holds:
        raise NotAsTold(str(seen))


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster: whose files these are, with a client, and the programs to work with.

    ``figures``: what was measured on it so far.
    """

    files: ClusterFiles
    kubeconfig: Path
    client: KubeClient
    helm: Path
    figures: list[Figure] = field(default_factory=list)

    # --- as its administrator ------------------------------------------------------------------
    async def run(self, *command: str, given: str = "") -> str:
        """What a command prints.

        Raises:
            NotAsTold: it fails.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with deadlines.within(" ".join(command)):
            out, error = await process.communicate(given.encode())
        expect(process.returncode == 0, f"{' '.join(command)}: {error.decode().strip()}")
        return out.decode()

    async def kubectl(self, *arguments: str, given: str = "") -> str:
        """What kubectl prints."""
        return await self.run("kubectl", f"--kubeconfig={self.kubeconfig}", *arguments, given=given)

    async def apply(self, file: str) -> None:
        """Apply a manifest of the guide."""
        await self.kubectl("apply", "-f", str(MANIFESTS / file))

    # --- pods ----------------------------------------------------------------------------------
    async def pods(self, namespace: str, **labels: str) -> list[Manifest]:
        """The pods of a namespace that have not ended and are not going."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = await self.client.list(PODS, namespace=namespace, label_selector=selector)
        return [pod for pod in found if not (pod["metadata"].get("deletionTimestamp") or has_ended(pod))]

    async def ready(self, namespace: str, count: int, **labels: str) -> list[Manifest]:
        """Exactly so many pods, all of them ready; waits for that."""

        async def look() -> list[Manifest]:
            return await self.pods(namespace, **labels)

        def accept(pods: Sequence[Manifest]) -> bool:
            return len(pods) == count and all(map(is_ready, pods))

        return await deadlines.eventually(
            look, accept, what=f"{count} pods of {labels or namespace} are ready"
        )

    async def gone(self, namespace: str, **labels: str) -> None:
        """No pod of these labels is left, going or not; waits for that."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())

        async def look() -> list[str]:
            found = await self.client.list(PODS, namespace=namespace, label_selector=selector)
            return [pod["metadata"]["name"] for pod in found]

        await deadlines.eventually(
            look, lambda left: not left, what=f"no pods of {labels or namespace} are left"
        )

    # --- the nodes themselves --------------------------------------------------------------------
    def folder(self, node: str) -> Path:
        """The files of a node."""
        return self.files.directory / "nodes" / node

    def process(self, name: str) -> int:
        """The process of this name of the cluster, as it is now."""
        record = self.files.read()
        assert record is not None, "the cluster is up"
        return next(each.pid for each in record.processes if each.name == name)

    def devices(self, node: str) -> Mapping[str, list[str]]:
        """Which devices the kubelet of a node has given to pods, by their uid, as it keeps it on disk."""
        kept = json.loads((self.folder(node) / _KUBELET_CHECKPOINT).read_text())
        given: dict[str, list[str]] = {}
        for entry in kept["Data"]["PodDeviceEntries"] or ():
            zones = entry["DeviceIDs"].values()
            given.setdefault(entry["PodUID"], []).extend(device for zone in zones for device in zone)
        return given

    def registered(self, node: str) -> list[str]:
        """The devices of a node that its plugin calls well, as its kubelet keeps them."""
        kept = json.loads((self.folder(node) / _KUBELET_CHECKPOINT).read_text())
        return list(kept["Data"]["RegisteredDevices"].get("nvidia.com/gpu") or ())

    async def nodes_of(self) -> list[str]:
        """The names of the real nodes."""
        return sorted(path.name for path in (self.files.directory / "nodes").glob("kubelet-*"))

    async def no_device_twice(self) -> dict[str, list[str]]:
        """The devices of all pods that there are, by uid.

        Raises:
            NotAsTold: one was given to two of them.
        """
        there = {pod["metadata"]["uid"] for pod in await self.client.list(PODS) if not has_ended(pod)}
        held = {
            uid: devices
            for node in await self.nodes_of()
            for uid, devices in self.devices(node).items()
            if uid in there
        }
        twice = [
            device for device, times in Counter(d for ds in held.values() for d in ds).items() if times > 1
        ]
        expect(not twice, f"given twice: {twice}")
        return held


def is_ready(pod: Manifest) -> bool:
    """Whether a pod says that it is ready."""
    return condition(pod, "Ready").get("status") == "True"


def condition(pod: Manifest, kind: str) -> Manifest:
    """A condition of a pod; empty if there is none of its kind."""
    told: Sequence[Manifest] = pod["status"].get("conditions") or ()
    return next((each for each in told if each["type"] == kind), {})


def has_ended(pod: Manifest) -> bool:
    """Whether its containers run no more."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def state(pod: Manifest) -> Manifest:
    """Of the pod's only container: its status; empty before it has one."""
    told: Sequence[Manifest] = pod["status"].get("containerStatuses") or ({},)
    return told[0]


def group(pod: Manifest) -> str:
    """The GPU group of a pod, the same for those that share a device."""
    return str(pod["metadata"]["labels"].get("runai-gpu-group", ""))


def port_of(line: str) -> int:
    """The local port that kubectl says it forwards from.

    Raises:
        NotAsTold: it says something else.
    """
    found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
    expect(found, f"kubectl port-forward says {line!r}")
    assert found is not None
    return int(found[1])
