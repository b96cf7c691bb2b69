"""What an end-to-end test needs: a cluster, manifests, and patience (``deadlines.py``).

The suite runs against any cluster: the one of ``KAI_E2E_KUBECONFIG``, else one that it starts and ends,
an embedded one or, with ``KAI_E2E_CLUSTER=real``, etcd, kube-apiserver and KWOK. Tests do not know which.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

import deadlines
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import NotFound, ServerError, TransportError
from kai.kube.resources import EVENTS, NODES, POD_GROUPS, PODS, QUEUES
from kai.model import names
from kai.model.objects import Node, Pod, PodGroup
from kai_local.real import binaries
from kai_local.services.suite import SERVICES

ROOT = Path(__file__).resolve().parents[1]
KAI = (sys.executable, "-m", "kai_cli")
T = TypeVar("T")
_SHOWN = 40
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
#: Whether clusters of the suite's own have a real control plane.
REAL = os.environ.get("KAI_E2E_CLUSTER") == "real"


def kai(*arguments: str, kubeconfig: Path | None = None, check: bool = True, given: str = "") -> str:
    """Run the command line, with ``given`` as its standard input; its standard output."""
    environment = dict(os.environ) | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
    result = subprocess.run(
        [*KAI, *arguments], env=environment, input=given, capture_output=True, text=True, check=False
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"kai {' '.join(arguments)}: exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        )
    return result.stdout


@contextlib.contextmanager
def local_cluster(name: str, kubeconfig: Path, *flags: str) -> Iterator[None]:
    """A cluster of the suite's own while the block runs; ``flags`` are those of ``kai local up``.

    Skips the test where a real control plane is asked for and its programs are not there.
    """
    if REAL:
        try:
            binaries.find()
        except binaries.BinariesMissing as missing:
            pytest.skip(str(missing))
        flags = ("--real", *flags)
    kai("local", "up", f"--name={name}", *flags, f"--kubeconfig={kubeconfig}", "--detach")
    try:
        yield
    finally:
        kai("local", "down", f"--name={name}")


@contextlib.contextmanager
def chart_cluster(name: str, folder: Path, helm: str, *flags: str) -> Iterator[tuple[str, Path]]:
    """As :func:`local_cluster`, one in which this helm has installed the chart: its name, and its kubeconfig.

    The name is made unique.
    """
    name, kubeconfig = f"{name}-{uuid.uuid4().hex[:8]}", folder / "kubeconfig"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(helm).parent}{os.pathsep}{os.environ['PATH']}")
        with local_cluster(name, kubeconfig, "--chart", *flags):
            yield name, kubeconfig


@dataclass(slots=True)
class Cluster:
    """A running cluster and a client for it."""

    kubeconfig: Path
    client: KubeClient
    #: Name of the embedded cluster; empty for one that was given.
    name: str = ""

    async def apply(self, manifest: str) -> list[dict[str, Any]]:
        """Server-side apply of a YAML stream; the objects as the server made them."""
        made = []
        for body in yaml.safe_load_all(manifest):
            if not body:
                continue
            resource = await self.client.discover(body["apiVersion"], body["kind"])
            assert resource is not None, f"the server does not know {body['apiVersion']} {body['kind']}"
            made.append(
                await self.client.patch(
                    resource,
                    body["metadata"]["name"],
                    body,
                    namespace=body["metadata"].get("namespace", "default") if resource.namespaced else "",
                    kind=PatchKind.APPLY,
                    field_manager="e2e",
                )
            )
        return made

    async def delete(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object, if it is there, and whatever it owns."""
        resource = await self.client.discover(api_version, kind)
        assert resource is not None, f"the server does not know {api_version} {kind}"
        with contextlib.suppress(NotFound):
            await self.client.delete(resource, name, namespace=namespace, propagation="Background")

    async def end_namespace(self, name: str) -> None:
        """Delete a namespace, and wait until no pod of it is left.

        The controller of namespaces lets five seconds pass before it begins. As nothing new comes into a
        namespace that is being deleted, its pods can be deleted at once, whatever they belong to.
        """
        await self.delete("v1", "Namespace", name)

        async def left() -> list[Pod]:
            pods = await self.pods(name)
            if any(pod.metadata.deletion_timestamp is None for pod in pods):
                await self.client.raw(f"/api/v1/namespaces/{name}/pods", method="DELETE")
            return pods

        await self.eventually(left, lambda pods: not pods, what=f"namespace {name} is emptied")

    async def change_queue(self, name: str, **spec: Any) -> None:
        """Set parts of a queue's spec."""
        await self.client.patch(QUEUES, name, {"spec": spec}, kind=PatchKind.MERGE)

    async def worker_nodes(self) -> list[str]:
        """Names of the nodes that work goes to, in order: not of those that run the control plane."""
        nodes = await self.client.list(NODES, type=Node)
        return sorted(node.metadata.name for node in nodes if _CONTROL_PLANE not in node.labels)

    async def pods(self, namespace: str, prefix: str = "") -> list[Pod]:
        """Pods of a namespace whose names begin so, by name."""
        found = await self.client.list(PODS, namespace=namespace, type=Pod)
        return sorted((p for p in found if p.metadata.name.startswith(prefix)), key=lambda p: p.metadata.name)

    async def running(self, namespace: str, prefix: str = "", *, count: int, times: float = 1.0) -> list[Pod]:
        """Wait until exactly so many of these pods run, and none of them is about to end."""

        async def look() -> list[Pod]:
            pods = await self.pods(namespace, prefix)
            return [p for p in pods if p.status.phase == "Running" and not p.metadata.deletion_timestamp]

        what = f"{count} pods {namespace}/{prefix}* run"
        return await self.eventually(look, lambda pods: len(pods) == count, what=what, times=times)

    async def waits(self, namespace: str, prefix: str, *, reason: str = "", saying: str = "") -> str:
        """Wait until the pod group of a waiting pod says why (this reason, these words); its message."""

        async def look() -> list[tuple[str, str]]:
            pods = await self.pods(namespace, prefix)
            wanted = {p.annotations.get(names.POD_GROUP_ANNOTATION) for p in pods if not p.spec.node_name}
            groups = await self.client.list(POD_GROUPS, namespace=namespace, type=PodGroup)
            return [
                (item["reason"], condition.message)
                for group in groups
                if group.metadata.name in wanted
                for condition in ((group.status and group.status.scheduling_conditions) or [])
                for item in condition.reasons or []
            ]

        def wanted(found: list[tuple[str, str]]) -> list[str]:
            return [text for one, text in found if (not reason or one == reason) and saying in text]

        told = await self.eventually(
            look,
            lambda found: bool(wanted(found)),
            what=f"the group of {namespace}/{prefix}* says {reason} {saying or 'why it waits'}",
        )
        return wanted(told)[0]

    async def eventually(
        self, look: Callable[[], Awaitable[T]], accept: Callable[[T], bool], *, what: str, times: float = 1.0
    ) -> T:
        """Look until the answer is accepted. On failure: what was seen last, and what the cluster says.

        A server that does not answer is looked at again.
        """
        found: T = await deadlines.eventually(
            look, accept, what=what, times=times, passing=(TransportError, ServerError), report=self.report
        )
        return found

    async def report(self) -> str:
        """Pods that do not run, why groups wait, warnings and log lines, for the message of a failure."""
        pods, groups, events = await asyncio.gather(
            self.client.list(PODS, type=Pod),
            self.client.list(POD_GROUPS, type=PodGroup),
            self.client.list(EVENTS),
        )
        lines = [f"{len(pods)} pods; of those that do not run:"]
        lines += [
            f"  {pod.key} {pod.status.phase} node={pod.spec.node_name or '-'} "
            f"group={pod.annotations.get(names.POD_GROUP_ANNOTATION, '-')}"
            for pod in pods
            if pod.status.phase != "Running"
        ][:_SHOWN]
        lines.append("conditions of pod groups:")
        lines += [
            f"  {group.key} {condition.type} {condition.reason}: {condition.message}"
            for group in groups
            for condition in ((group.status and group.status.scheduling_conditions) or [])[-1:]
        ][:_SHOWN]
        lines.append("warnings:")
        lines += [
            f"  {event['regarding'].get('name')} {event.get('reason')}: {event.get('note')}"
            for event in events
            if event.get("type") == "Warning"
        ][-_SHOWN:]
        if self.name:
            lines += self._logs()
        return "\n".join(lines)

    def _logs(self) -> list[str]:
        """States of the processes, and what the services logged last."""
        lines = []
        for process in self.status()["processes"]:
            lines.append(f"{process['name']} is {process['state']}, restarts: {process['restarts']}")
            if process["name"] in SERVICES or process["name"].startswith("binder"):
                log = kai("local", "logs", process["name"], "--name", self.name, "--tail", "5", check=False)
                lines += [f"  {line}" for line in log.splitlines()]
        return lines

    def status(self) -> dict[str, Any]:
        """What ``kai local status`` says of the embedded cluster."""
        found: dict[str, Any] = json.loads(kai("local", "status", "--name", self.name, "-o", "json"))
        return found
