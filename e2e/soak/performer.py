"""Carries a plan out on a cluster, each deed when it is due, deeds about one object in their order."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import assert_never

import yaml

from e2e.soak.actions import (
    Action,
    Change,
    Deed,
    Drain,
    Evict,
    Json,
    Put,
    Refuse,
    Remove,
    Signal,
)
from e2e.soak.journal import Clock, Journal
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import AlreadyExists, ApiError, KubeError, NotFound, ServerError, TransportError
from kai.kube.resources import NODES, PODS, Resource
from kai_local.box.state import ClusterFiles
from kai_local.kubelet.nodes import node_status
from kai_local.parts.objects import LocalPod
from kai_local.processes.ports import LOOPBACK
from kai_local.processes.records import ProcessRecord

_FIELD_MANAGER = "soak"
#: A deed is tried again for so long while the API server or a webhook is away.
_PATIENCE_SECONDS = 25.0
_AGAIN_SECONDS = 1.0
_KUBECTL_SECONDS = 30.0
_AGENTS = ("kai-scheduler", "kai-binder", "kai-pod", "kai-queue", "kai-node-scale-adjuster")
_FAULTS = "/kai.local/faults"


class Refused(Exception):
    """The API server does not take it, and says why."""


class Performer:
    """Carries out; what becomes of each deed is in the journal."""

    def __init__(
        self, client: KubeClient, kubeconfig: Path, files: ClusterFiles, *, journal: Journal, clock: Clock
    ) -> None:
        self._client = client
        self._kubeconfig = kubeconfig
        self._files = files
        self._journal = journal
        self._clock = clock
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._frozen: set[int] = set()

    async def run(self, actions: Iterable[Action]) -> None:
        """Carry out all of them."""
        async with asyncio.TaskGroup() as tasks:
            for action in actions:
                await asyncio.sleep(max(0.0, action.at - self._clock.now))
                tasks.create_task(self.perform(action))

    async def perform(self, action: Action) -> None:
        """One deed: again where nobody answers, and what comes of it into the journal."""
        async with contextlib.AsyncExitStack() as stack:
            for one in sorted(set(action.subjects)):
                await stack.enter_async_context(self._turns[one])
            at, give_up = self._clock.now, time.monotonic() + _PATIENCE_SECONDS
            while True:
                outcome = await self._attempt(action.deed)
                if not outcome.startswith("failed") or time.monotonic() > give_up:
                    break
                await asyncio.sleep(_AGAIN_SECONDS)
            self._journal.note(action, at, outcome)

    async def _attempt(self, deed: Deed) -> str:
        try:
            await self._do(deed)
        except Refused as error:
            return f"refused: {error}"
        except (TransportError, ServerError, TimeoutError, OSError) as error:
            return f"failed: {error}"
        except ApiError as error:
            return f"refused: {error.status} {error.message}"
        except KubeError as error:
            return f"failed: {error}"
        return "done"

    async def _do(self, deed: Deed) -> None:
        match deed:
            case Put(manifests, kubectl):
                await (self._apply_by_hand(manifests) if kubectl else self._apply(manifests))
            case Change(manifest, patch, kubectl):
                await (self._patch_by_hand(manifest, patch) if kubectl else self._patch(manifest, patch))
            case Remove(manifests, kubectl, force):
                await (self._delete_by_hand(manifests) if kubectl else self._delete(manifests, force=force))
            case Evict(namespace, prefix, count):
                await self._evict(namespace, prefix, count)
            case Drain(node):
                await self._drain(node)
            case Signal(process, name, seconds):
                await self._signal(process, name, seconds)
            case Refuse(status, seconds):
                await self._refuse(status, seconds)
            case _:
                assert_never(deed)

    # --- objects -------------------------------------------------------------------------------
    async def _apply(self, manifests: Iterable[Json]) -> None:
        uids: dict[str, str] = {}
        for manifest in manifests:
            body = _owned(manifest, uids)
            resource, namespace = await self._resource(body)
            if resource == NODES:
                await self._register(body)
                continue
            made = await self._client.patch(
                resource,
                body["metadata"]["name"],
                body,
                namespace=namespace,
                kind=PatchKind.APPLY,
                field_manager=_FIELD_MANAGER,
            )
            uids[body["metadata"]["name"]] = made["metadata"]["uid"]

    async def _register(self, node: Json) -> None:
        """A node registers itself together with its status."""
        body = copy.deepcopy(node)
        body["status"] |= node_status(body["metadata"]["name"], LOOPBACK, time.time())
        with contextlib.suppress(AlreadyExists):
            await self._client.create(NODES, body)

    async def _patch(self, manifest: Json, patch: Json) -> None:
        resource, namespace = await self._resource(manifest)
        await self._client.patch(resource, manifest["metadata"]["name"], patch, namespace=namespace)

    async def _delete(self, manifests: Iterable[Json], *, force: bool) -> None:
        for manifest in manifests:
            resource, namespace = await self._resource(manifest)
            grace = 0 if force and resource == PODS else None
            with contextlib.suppress(NotFound):
                await self._client.delete(
                    resource,
                    manifest["metadata"]["name"],
                    namespace=namespace,
                    propagation="Background",
                    grace_seconds=grace,
                )

    async def _resource(self, manifest: Json) -> tuple[Resource, str]:
        resource = await self._client.discover(manifest["apiVersion"], manifest["kind"])
        if resource is None:
            raise Refused(f"the server does not know {manifest['apiVersion']} {manifest['kind']}")
        return resource, manifest["metadata"].get("namespace", "default") if resource.namespaced else ""

    # --- as a user does it ---------------------------------------------------------------------
    async def _apply_by_hand(self, manifests: tuple[Json, ...]) -> None:
        if any(manifest["metadata"].get("ownerReferences") for manifest in manifests):
            await self._apply(manifests)  # an operator's part, which needs uids
            return
        await self._kubectl("apply", "-f", "-", text=yaml.safe_dump_all(manifests))

    async def _patch_by_hand(self, manifest: Json, patch: Json) -> None:
        resource, namespace = await self._resource(manifest)
        noun = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        where = ("-n", namespace) if namespace else ()
        # What begins with a brace kubectl sends as it is, so YAML in one line would be refused.
        what = ("--type=merge", "-p", json.dumps(patch))
        await self._kubectl("patch", noun, manifest["metadata"]["name"], *where, *what)

    async def _delete_by_hand(self, manifests: tuple[Json, ...]) -> None:
        flags = ("--ignore-not-found", "--wait=false")
        await self._kubectl("delete", *flags, "-f", "-", text=yaml.safe_dump_all(manifests))

    async def _kubectl(self, *arguments: str, text: str = "") -> None:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--kubeconfig={self._kubeconfig}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_KUBECTL_SECONDS):
                _, said = await process.communicate(text.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            words = said.decode().strip()
            down = ("refused", "InternalError", "EOF", "reset by peer", "timeout", "Unavailable", "TLS")
            raise OSError(words) if any(word in words for word in down) else Refused(words)

    # --- pods and nodes ------------------------------------------------------------------------
    async def _evict(self, namespace: str, prefix: str, count: int) -> None:
        pods = await self._client.list(PODS, namespace=namespace, type=LocalPod)
        running = [p for p in pods if p.metadata.name.startswith(prefix) and p.status.phase == "Running"]
        for pod in running[:count]:
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.metadata.name, "namespace": namespace},
            }
            with contextlib.suppress(NotFound):
                await self._client.create_subresource(
                    PODS, pod.metadata.name, "eviction", body, namespace=namespace
                )

    async def _drain(self, node: str) -> None:
        await self._client.patch(NODES, node, {"spec": {"unschedulable": True}})
        pods = await self._client.list(PODS, field_selector=f"spec.nodeName={node}", type=LocalPod)
        for pod in pods:
            with contextlib.suppress(NotFound):
                await self._client.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace)

    # --- trouble -------------------------------------------------------------------------------
    async def _signal(self, process: str, name: str, seconds: float) -> None:
        record = self.process(process)
        if record is None or not record.pid:
            raise Refused("it is just being started")
        trouble = self._journal.trouble(
            process, f"{name} {seconds:g} s" if seconds else name, self._clock.now
        )
        number = getattr(signal, name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
        if name == "SIGSTOP":
            self._frozen.add(record.pid)
            await asyncio.sleep(seconds)
            self.thaw(record.pid)
        else:
            self._journal.killed[process] += 1
            await self._until_back(process, record.pid)
        trouble.end = self._clock.now

    def thaw(self, *pids: int) -> None:
        """Let frozen processes go on; all of them where none is named."""
        for pid in pids or tuple(self._frozen):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self._frozen.discard(pid)

    async def _until_back(self, process: str, pid: int) -> None:
        while True:
            record = self.process(process)
            if record is not None and record.pid not in (0, pid) and record.state == "ready":
                return
            await asyncio.sleep(0.2)

    async def _refuse(self, status: int, seconds: float) -> None:
        trouble = self._journal.trouble("apiserver", f"answers {status} for {seconds:g} s", self._clock.now)
        try:
            if status == 410:
                await self._fault({"compact": True, "dropWatches": True})
                await asyncio.sleep(seconds)
                return
            rules = [{"count": -1, "user_agent": agent, "status": status} for agent in _AGENTS]
            await self._fault({"rules": rules})
            await asyncio.sleep(seconds)
        finally:
            with contextlib.suppress(KubeError):
                await self._client.raw(_FAULTS, method="DELETE")
            trouble.end = self._clock.now

    async def _fault(self, body: Json) -> None:
        await self._client.raw(_FAULTS, method="POST", body=body)

    def process(self, name: str) -> ProcessRecord | None:
        """A process of the cluster by its name."""
        record = self._files.read()
        return next((one for one in record.processes if one.name == name), None) if record else None


def _owned(manifest: Json, uids: dict[str, str]) -> Json:
    """The manifest, with the uids of owners that were made before it."""
    references = manifest["metadata"].get("ownerReferences")
    if not references:
        return manifest
    body = copy.deepcopy(manifest)
    for reference in body["metadata"]["ownerReferences"]:
        if not reference["uid"]:
            reference["uid"] = uids[reference["name"]]
    return body
