"""The agent of this machine: watches the pods of the chart, and runs what they say."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Final

import msgspec
import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import Conflict, KubeError, NotFound
from kai.kube.reflector import Change, Reflector, Removed, Upserted
from kai.kube.resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, SERVICES
from kai.kube.workqueue import WorkQueue
from kai.model.rules.phases import has_ended
from kai_local.machine import naming, status
from kai_local.machine.health import Health
from kai_local.machine.hosted import Hosted
from kai_local.machine.kubelet import serve_kubelet
from kai_local.machine.launch import (
    CannotLaunch,
    Launch,
    Manifest,
    Surroundings,
    launch,
)
from kai_local.machine.materials import at_home, surroundings, write_kubeconfig
from kai_local.machine.network import serve_proxy, socket_path
from kai_local.machine.node import register
from kai_local.machine.options import MachineOptions
from kai_local.machine.places import Places, pod_address
from kai_local.machine.program import program_of
from kai_local.machine.reports import Reports
from kai_local.machine.routes import Backend, route
from kai_local.parts.this_machine import NODE, SELECTOR
from kai_local.processes.programs import Child, State
from kai_local.processes.supervisor import Supervisor

_WORKERS = 32
_REGISTER_EVERY = 10.0
_RETRY_SECONDS = 2.0
_ADDRESS: Final = "kai.local/address"
_HOW = (
    "Runs as a process of this machine, from the programs that are installed here: image, resources, "
    "security context, node selector, affinity and network policies have no effect"
)

_log = structlog.get_logger(__name__)


class Machine:
    """Runs the pods of the chart. :meth:`run` goes on until cancelled, and then ends them in order."""

    def __init__(self, client: KubeClient, options: MachineOptions) -> None:
        self._client = client
        self._options = options
        self._places = Places()
        self._pods: dict[str, Manifest] = {}
        self._services: dict[str, Manifest] = {}
        self._hosted: dict[str, Hosted] = {}
        #: Pods that another one has the place of, which is ending.
        self._waiting: set[str] = set()
        self._reserved: set[str] = set()
        #: Whether the record says less than there is to be said.
        self._owes_record = False
        self._work: WorkQueue[str] = WorkQueue("pods", maximum_backoff=5.0)
        self._reports = Reports(client)
        self._supervisor = Supervisor(
            options.logs, on_change=self._child_changed, fork_server="pod-fork-server", fork=options.fork
        )
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Register the machine, serve its network and its kubelet, and tend the pods."""
        kubelet = socket_path(self._options.folder, "kubelet.sock")

        def find_route(host: str, port: int) -> str:
            return route(
                host,
                port,
                services=self._services.values(),
                backends=self._backends(),
                kubelet=str(kubelet),
            )

        async with (
            self._supervisor,
            serve_kubelet(kubelet, self._options.folder / "kubelet", self._find_child),
            serve_proxy(self._options.egress, find_route),
            self._tasks,
        ):
            self._options.ready_file.touch()
            await self._tend_all()

    async def _tend_all(self) -> None:
        pods = Reflector(self._client, PODS, dict, label_selector=SELECTOR)
        services = Reflector(self._client, SERVICES, dict, label_selector=SELECTOR)
        self._tasks.create_task(self._reports.run())
        self._tasks.create_task(self._stay_registered())
        self._tasks.create_task(services.run(self._service_changed))
        self._tasks.create_task(pods.run(self._pod_changed))
        await self._work.run(self._tend, workers=_WORKERS)

    async def _stay_registered(self) -> None:
        """Nodes may be deleted by anybody; this machine is still there."""
        while True:
            try:
                await register(self._client)
            except KubeError as error:
                _log.warning("cannot register this machine", error=str(error))
            if self._owes_record:
                self._write_record()
            await asyncio.sleep(_REGISTER_EVERY)

    # --- what changes --------------------------------------------------------------------------
    def _pod_changed(self, change: Change[Manifest]) -> None:
        if isinstance(change, Upserted):
            key = naming.key(change.obj)
            self._pods[key] = change.obj
            self._work.add(key)
        elif isinstance(change, Removed):
            self._pods.pop(change.obj_key, None)
            self._work.add(change.obj_key)

    def _service_changed(self, change: Change[Manifest]) -> None:
        if isinstance(change, Upserted):
            self._services[naming.key(change.obj)] = change.obj
        elif isinstance(change, Removed):
            self._services.pop(change.obj_key, None)

    def _child_changed(self, child: Child) -> None:
        self._write_record()
        for key, hosted in self._hosted.items():
            if hosted.child is child:
                if child.state is State.CRASHED:
                    hosted.ready = False
                    self._tell_end(hosted)
                elif child.state in (State.READY, State.STOPPED):
                    hosted.ready = child.state is State.READY
                self._work.add(key)

    def _tell_end(self, hosted: Hosted) -> None:
        run = hosted.child.run
        code = status.exit_code(run.exit_status if run else None)
        _log.warning("process ended", pod=naming.key(hosted.pod), process=hosted.name, exit_code=code)
        self._reports.emit(
            hosted.pod, "Warning", "BackOff", f"The process ended with status {code}; it is started again"
        )

    # --- a pod ---------------------------------------------------------------------------------
    async def _tend(self, key: str) -> float | None:
        """Bring what runs in line with the pod, and tell the pod what runs."""
        pod, hosted = self._pods.get(key), self._hosted.get(key)
        if hosted is not None and (pod is None or pod["metadata"]["uid"] != hosted.uid):
            await self._end(key, hosted)
            hosted = None
        if pod is None or has_ended(pod["status"].get("phase", "")):
            return None
        if pod["metadata"].get("deletionTimestamp"):
            await self._delete(key, pod, hosted)
            return None
        node = pod["spec"].get("nodeName")
        if not node and await self._is_cordoned():
            await self._reports.write_status(
                pod, status.unplaced(f"node {NODE} is unschedulable: uncordon it")
            )
            return _RETRY_SECONDS
        if not node:
            await self._bind(pod)
        if node != NODE:
            return None
        if hosted is None:
            if await self._awaits_another(pod):
                self._waiting.add(key)
                return _RETRY_SECONDS
            try:
                hosted = await self._start(key, pod)
            except CannotLaunch as problem:
                await self._refuse(pod, str(problem))
                return _RETRY_SECONDS
        hosted.pod = pod
        if (over := status.over(pod, hosted.child, hosted.before, now=time.time())) is not None:
            await self._end(key, hosted)
            await self._reports.write_status(pod, over)
            return None
        await self._tell(hosted)
        return None

    async def _bind(self, pod: Manifest) -> None:
        """Take a pod that nobody has placed yet."""
        spec, meta = pod["spec"], pod["metadata"]
        if spec.get("schedulerName", "default-scheduler") != "default-scheduler" or spec.get(
            "schedulingGates"
        ):
            return
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        }
        with contextlib.suppress(Conflict, NotFound):
            await self._client.create_subresource(
                PODS, meta["name"], "binding", binding, namespace=meta["namespace"]
            )

    async def _is_cordoned(self) -> bool:
        with contextlib.suppress(NotFound):
            node: Manifest = await self._client.get(NODES, NODE)
            return bool(node["spec"].get("unschedulable"))
        return False

    async def _start(self, key: str, pod: Manifest) -> Hosted:
        """Raises :class:`CannotLaunch`; then nothing of it is left."""
        namespace = pod["metadata"]["namespace"]
        alone = int((await self._workload(pod))["spec"].get("replicas", 1)) <= 1
        address = self._places.take(key, namespace, naming.application(pod))
        name = naming.free_name(pod, self._reserved | self._supervisor.children.keys(), alone=alone)
        self._reserved.add(name)
        try:
            one = await self._plan(pod, name, address)
        except BaseException:
            self._places.give_back(key)
            raise
        finally:  # nothing else runs until it has been started
            self._reserved.discard(name)
        child = self._supervisor.start(program_of(pod, one))
        hosted = self._hosted[key] = Hosted(pod, one, child, status.Before.of(pod))
        folder = self._options.folder / hosted.uid
        health = Health(hosted, folder, self._around, self._reports, lambda: self._work.add(key))
        hosted.health = self._tasks.create_task(health.watch())
        self._reports.emit(pod, "Normal", "Started", f"{_HOW}. It listens on {address}")
        annotations = {"metadata": {"annotations": {_ADDRESS: address}}}
        await self._client.patch(PODS, pod["metadata"]["name"], annotations, namespace=namespace)
        return hosted

    async def _plan(self, pod: Manifest, name: str, address: str) -> Launch:
        folder = self._options.folder / pod["metadata"]["uid"]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        around = await self._around(pod)
        kubeconfig = None
        if pod["spec"].get("automountServiceAccountToken") is not False:
            kubeconfig = await write_kubeconfig(self._client, pod, self._options.kubeconfig, folder)
        return at_home(launch(pod, name, address, folder, around), kubeconfig, folder)

    async def _around(self, pod: Manifest) -> Surroundings:
        addresses, ours = self._dns(pod["metadata"]["namespace"]), frozenset(self._options.ours)
        return await surroundings(self._client, pod, addresses=addresses, ours=ours)

    def _dns(self, namespace: str) -> dict[str, str]:
        """Where the Services of a namespace are, as its DNS would tell."""
        return {
            service["metadata"]["name"]: self._places.first_address(namespace, selector["app"])
            for service in self._services.values()
            if service["metadata"]["namespace"] == namespace
            if "app" in (selector := service["spec"].get("selector") or {})
        }

    async def _awaits_another(self, pod: Manifest) -> bool:
        """Whether one that is ending has the place of this one: where there are never two of an application,
        others know its address.
        """
        if not any(
            naming.kin(one.pod) == naming.kin(pod) and self._is_ending(key, one)
            for key, one in self._hosted.items()
        ):
            return False
        workload = await self._workload(pod)
        return (workload["spec"].get("strategy") or {}).get("type") == "Recreate"

    def _is_ending(self, key: str, hosted: Hosted) -> bool:
        meta = self._pods[key]["metadata"] if key in self._pods else {}
        return meta.get("uid") != hosted.uid or "deletionTimestamp" in meta

    async def _workload(self, pod: Manifest) -> Manifest:
        """What the pod is one of: a Deployment, or less; the pod itself if it is of nothing that we know."""
        namespace = pod["metadata"]["namespace"]
        found: Manifest = pod
        for kind in (REPLICA_SETS, DEPLOYMENTS):
            owner = next(
                (o for o in found["metadata"].get("ownerReferences") or () if o["kind"] == kind.kind), None
            )
            if owner is None:
                break
            with contextlib.suppress(NotFound):
                found = await self._client.get(kind, owner["name"], namespace=namespace)
        return found

    async def _end(self, key: str, hosted: Hosted) -> None:
        if hosted.health is not None:
            hosted.health.cancel()
        await self._supervisor.forget(hosted.name)
        shutil.rmtree(self._options.folder / hosted.uid, ignore_errors=True)
        self._hosted.pop(key, None)
        self._places.give_back(key)
        self._wake_waiting()
        self._inherit_name(hosted)
        self._write_record()

    def _wake_waiting(self) -> None:
        """Nobody else: a pod that has just ended would be started again before its end is told."""
        for key in self._waiting:
            self._work.add(key)
        self._waiting.clear()

    def _inherit_name(self, gone: Hosted) -> None:
        """Where a pod took the place of another, its process is called as that one was."""
        left = [one for one in self._hosted.values() if naming.base(one.pod) == naming.base(gone.pod)]
        if gone.name == naming.base(gone.pod) and len(left) == 1:
            self._supervisor.rename(left[0].name, gone.name)

    async def _delete(self, key: str, pod: Manifest, hosted: Hosted | None) -> None:
        if hosted is not None:
            hosted.ready = False
            with contextlib.suppress(KubeError):  # it ends all the same
                await self._tell(hosted)
            self._reports.emit(pod, "Normal", "Killing", f"Stopping process {hosted.name}")
            grace = pod["metadata"].get("deletionGracePeriodSeconds")
            if grace is not None:  # of whoever deletes it, who may have another one in mind
                hosted.child.program = replace(hosted.child.program, stop_after=float(grace))
            await self._end(key, hosted)
        meta = pod["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(
                PODS, meta["name"], namespace=meta["namespace"], uid=meta["uid"], grace_seconds=0
            )

    # --- what is told --------------------------------------------------------------------------
    async def _tell(self, hosted: Hosted) -> None:
        found = status.of_process(
            hosted.pod,
            hosted.child,
            hosted.before,
            address=pod_address(hosted.uid),
            ready=hosted.ready,
            now=time.time(),
        )
        if found != hosted.told:
            await self._reports.write_status(hosted.pod, found)
            hosted.told = found

    async def _refuse(self, pod: Manifest, problem: str) -> None:
        self._reports.emit(pod, "Warning", "Failed", problem)
        found = status.waiting(pod, "CreateContainerConfigError", problem, time.time())
        told = (pod.get("status") or {}).get("containerStatuses") or [{}]
        if told[0].get("state") != found["containerStatuses"][0]["state"]:
            _log.warning("pod cannot be started", pod=naming.key(pod), reason=problem)
            await self._reports.write_status(pod, found)

    def _write_record(self) -> None:
        """For ``kai local status``. A full disk puts it off, and ends no pod."""
        records = sorted(self._supervisor.records(), key=attrgetter("name"))
        fresh = self._options.record.with_suffix(".new")
        self._owes_record = True
        with contextlib.suppress(OSError):
            fresh.write_bytes(msgspec.json.encode(records))
            fresh.replace(self._options.record)
            self._owes_record = False

    # --- who asks ------------------------------------------------------------------------------
    def _backends(self) -> Iterator[Backend]:
        for hosted in self._hosted.values():
            yield Backend(hosted.pod, hosted.launch.address, hosted.ready)

    def _find_child(self, key: str) -> Child | None:
        hosted = self._hosted.get(key)
        return None if hosted is None else hosted.child
