"""An embedded cluster as a whole: started in order, watched, and ended without a trace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import yaml

from kai_local.box import kubeconfig
from kai_local.box.ending import give_back, sweep
from kai_local.box.kubeconfig import Entry
from kai_local.box.options import ClusterOptions, suite_options
from kai_local.box.plane import Plane
from kai_local.box.progress import Progress, step
from kai_local.box.state import (
    DEFAULT_NAME,
    Claim,
    ClusterFiles,
    ClusterRecord,
    KubeconfigRecord,
    earlier_contexts,
)
from kai_local.embedded.plane import EmbeddedPlane
from kai_local.errors import ClusterError
from kai_local.installation.prepare import Preparation
from kai_local.node import traces
from kai_local.processes import probes
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.ports import LOOPBACK, free_ports, require_free
from kai_local.processes.programs import Child, Program
from kai_local.processes.records import ProcessRecord
from kai_local.processes.supervisor import Supervisor
from kai_local.services.own_redis import redis
from kai_local.services.suite import Suite, plan

_START_PATIENCE = 60.0
_OPERATORS = "operators"
#: The longest grace of the chart's pods, and some.
_PODS_END_SECONDS = 40.0
_LOOK_AT_FOLDER_SECONDS = 2.0


class Cluster:
    """One embedded cluster. :meth:`run` brings it up, serves until ``stopping``, and takes it down.

    ``on_ready`` is called once when it is up.
    """

    def __init__(
        self,
        options: ClusterOptions,
        progress: Progress,
        *,
        on_ready: Callable[[ClusterFiles], None] | None = None,
    ) -> None:
        self.stopping = asyncio.Event()
        self._on_ready = on_ready
        self._options = options
        self._progress = progress
        self._files = ClusterFiles.of(options.name)
        self._supervisor = Supervisor(self._files.logs, on_change=self._note, fork=options.fork)
        self._record = ClusterRecord(
            name=options.name,
            phase="starting",
            created_at=time.time(),
            supervisor=_own_record(),
            nodes=options.nodes,
            gpus_per_node=options.gpus_per_node,
        )
        self._claim: Claim | None = None
        self._was_ready = False
        #: Whether others read something older of us than there is to be said.
        self._owes_record = False
        self._redis_url = ""
        self._egress = ""
        self._infrastructure: tuple[str, ...] = ()

    def hurry(self) -> None:
        """Give nobody any more time to end well."""
        self._supervisor.kill()

    async def run(self) -> None:
        """Bring it up and serve until ``stopping`` is set. Whatever happens, nothing is left.

        Raises:
            ClusterError: the name is taken, a part is missing, or its folder was removed.
            KubeconfigError: the user's own cannot be read or written.
            ProcessFailed: a part does not start.
            PortInUse: the port asked for is taken.
        """
        with self._files.claimed() as self._claim:
            sweep(self._files)
            self._require_context()
            self._files.make()
            self._write()  # whatever becomes of us, somebody finds it
            watching = asyncio.create_task(self._end_when_removed())
            try:
                with self._removal_told():
                    async with self._supervisor:
                        await self._until_stopping(self._come_up())
                        await self.stopping.wait()
                        await self._go_down()
            finally:
                watching.cancel()
                self._leave_nothing(self._claim)

    async def _end_when_removed(self) -> None:
        """End the cluster also when somebody removes its folder: no command finds it then."""
        while not self._removed and not self.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), _LOOK_AT_FOLDER_SECONDS)
            if self._owes_record:
                self._tell()
        if self._removed:
            self._progress.say(f"{self._files.directory} was removed, so the cluster ends.")
            self.stopping.set()

    @contextlib.contextmanager
    def _removal_told(self) -> Iterator[None]:
        """Let it be the failure that the folder was removed, not what fails or is not finished for it."""
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if not self._removed:
                raise
            failure = error
        if self._removed and (failure or not self._was_ready):
            raise ClusterError(f"{self._files.directory} was removed, so the cluster ended") from failure

    @property
    def _removed(self) -> bool:
        return self._files.removed or (self._claim is not None and self._claim.lost)

    def _leave_nothing(self, claim: Claim) -> None:
        """Clean up what bears our name, unless the name is another cluster's by now."""
        with contextlib.ExitStack() as owning:
            if claim.lost:
                try:
                    owning.enter_context(self._files.claimed())
                except ClusterError:  # whose cluster came when this one was removed
                    return
            try:
                traces.remove(self._files.directory)
                self._files.make_room()
            finally:
                self._restore_kubeconfig()
            self._files.clear()

    async def _until_stopping(self, work: Coroutine[Any, Any, object]) -> None:
        """Do ``work``, but give it up when the cluster is to end."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            working.cancel()  # which is nothing to one that is done
            [outcome] = await asyncio.gather(working, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome

    # --- up ------------------------------------------------------------------------------------
    async def _come_up(self) -> None:
        """1. Redis and API server  2. nodes  3. what an installation leaves  4. services  5. kubeconfig."""
        plane = self._plan_plane()
        with step(self._progress, "API server and Redis"):
            if not self._installed_by_helm:  # which brings its own
                store = redis(self._files.directory / "redis")
                self._redis_url = store.address
                self._supervisor.start(store)
            await plane.start(self._supervisor)
            if not self._installed_by_helm:
                await self._supervisor.wait_ready(["redis"], _START_PATIENCE)
        nodes = plane.nodes()
        for program in nodes:
            self._supervisor.start(program)
        if kubelets := self._options.kubelets:
            with step(self._progress, f"{count_of(kubelets, 'node')} with containerd and kubelet"):
                await self._supervisor.wait_ready([p.name for p in nodes], _START_PATIENCE)
                await plane.join(self._supervisor)
        services = await self._install_all()
        for program in (*services, *self._operators()):
            self._supervisor.start(program)
        with step(
            self._progress, f"{count_of(self._options.nodes, 'node')} x {self._options.gpus_per_node} GPUs"
        ):
            await self._supervisor.wait_ready([p.name for p in nodes], _START_PATIENCE)
        if services:
            with step(self._progress, f"{len(services)} services"):
                await self._supervisor.wait_ready([p.name for p in services], _START_PATIENCE)
        if self._options.projects:
            with step(self._progress, f"operators of {', '.join(self._options.projects)}"):
                await self._supervisor.wait_ready([_OPERATORS], _START_PATIENCE)
        self._offer_kubeconfig()
        self._record.phase = "ready"
        self._was_ready = True
        self._write()
        self._progress.say(self._greeting())
        if self._on_ready is not None:
            self._on_ready(self._files)

    def _plan_plane(self) -> Plane:
        """The control plane that the options ask for."""
        options, port = self._options, self._options.port
        if port:
            require_free(f"{LOOPBACK}:{port}")
        else:
            (port,) = free_ports(1)
        shape = [
            f"--nodes={options.nodes}",
            f"--gpus-per-node={options.gpus_per_node}",
            f"--cpus-per-node={options.cpus_per_node}",
            f"--memory-per-node={options.memory_per_node}",
            f"--gpu-memory={options.gpu_memory_mib}",
        ]
        if options.real:
            from kai_local.machine.network import socket_path
            from kai_local.real.plane import Kubelets, RealPlane

            if self._by_chart:
                self._egress = str(socket_path(self._files.directory, "egress.sock"))
            plane: Plane = RealPlane(
                self._files.api_server,
                port,
                shape,
                egress=self._egress,
                runtime_config=options.runtime_config,
                kubelets=Kubelets(
                    options.kubelets, options.gpus_per_node, options.gpu_memory_mib, options.archives
                )
                if options.kubelets
                else None,
            )
        else:
            if self._by_chart:
                self._egress = f"{LOOPBACK}:{free_ports(1, taken={port})[0]}"
            folder = self._files.api_server
            plane = EmbeddedPlane(
                folder,
                port,
                shape,
                rbac=options.chart,
                egress=self._egress,
                runtime_config=options.runtime_config,
            )
        self._infrastructure = (*plane.programs, "redis")
        self._record.server = plane.url
        return plane

    def _operators(self) -> tuple[Program, ...]:
        """What plays the operators of other projects."""
        if not self._options.projects:
            return ()
        ready_file = self._files.directory / "operators.ready"
        command = [
            *(sys.executable, "-m", "kai_local.operators"),
            f"--kubeconfig={self._files.admin_kubeconfig}",
            f"--ready-file={ready_file}",
            f"--projects={','.join(self._options.projects)}",
        ]
        return (Program(_OPERATORS, tuple(command), _LEAN, ready=probes.file(ready_file)),)

    @property
    def _installed_by_helm(self) -> bool:
        """By us, or afterwards by the user, to whom a cluster with real nodes is handed bare."""
        return self._by_chart or bool(self._options.kubelets)

    async def _install_all(self) -> tuple[Program, ...]:
        """The product, and which programs of it are still to be started."""
        if self._by_chart:
            return await self._install_chart()
        return () if self._installed_by_helm else await self._install()

    @property
    def _by_chart(self) -> bool:
        """Whether to install as users do: always on a real control plane, unless only a part is wanted."""
        options = self._options
        return (options.real or options.chart) and options.webhooks and bool(options.services)

    async def _install_chart(self) -> tuple[Program, ...]:
        """Have helm install the chart, and this machine run its pods; nothing else is to be started then."""
        from kai_local.installation.chart import installation

        planned = installation(
            self._files.admin_kubeconfig,
            self._files.directory / "pods",
            binders=self._options.binders,
            flags=self._options.flags,
            autoscaling="node-scale-adjuster" in self._options.services,
            history="insight" in self._options.services,
        )
        machine = self._machine(planned.ours)
        self._supervisor.start(machine)
        await self._supervisor.wait_ready([machine.name], _START_PATIENCE)
        with step(self._progress, "chart installed by helm, its pods ready"):
            if not self._options.real:  # whose nodes bring it
                bare = Preparation(kubeconfig=str(self._files.admin_kubeconfig), product=False)
                await self._supervisor.run_to_end(Program("prepare", bare.command_line()))
            await self._supervisor.run_to_end(Program("install", planned.command_line()))
        return ()

    def _machine(self, ours: list[str]) -> Program:
        """Runs the pods of the chart, from now on whatever helm or kubectl makes of them."""
        from kai_local.machine.options import MachineOptions

        ready_file = self._files.directory / "machine.ready"
        options = MachineOptions(
            kubeconfig=self._files.admin_kubeconfig,
            folder=self._files.directory / "pods",
            logs=self._files.logs,
            record=self._files.machine_record,
            egress=self._egress,
            ready_file=ready_file,
            ours=ours,
            fork=self._options.fork,
        )
        return Program(
            "node-agent",
            options.command_line(),
            _LEAN,
            ready=probes.file(ready_file),
            stop_after=_PODS_END_SECONDS,
        )

    async def _install(self) -> tuple[Program, ...]:
        """What an installation leaves in a cluster, and the webhooks; then services find all of it."""
        suite = self._plan_suite()
        preparation = Preparation(
            kubeconfig=str(self._files.admin_kubeconfig),
            certificates=str(self._certificates) if self._options.webhooks else "",
            webhook_ports=suite.webhook_ports,
            all_pods=suite.all_pods,
        )
        with step(self._progress, "custom resources, queues and priority classes"):
            await self._supervisor.run_to_end(Program("prepare", preparation.command_line()))
        return suite.programs

    @property
    def _certificates(self) -> Path:
        return self._files.directory / "webhooks"

    def _plan_suite(self) -> Suite:
        options = suite_options(
            self._options,
            kubeconfig=self._files.admin_kubeconfig,
            redis_url=self._redis_url,
            certificates=self._certificates,
            history=self._files.directory / "history.db",
        )
        return plan(options)

    # --- kubeconfig ----------------------------------------------------------------------------
    @property
    def _kubeconfigs(self) -> list[Path]:
        own = self._options.kubeconfig
        return kubeconfig.search_path() if own is None else [own]

    def _require_context(self) -> None:
        """Leave alone what somebody else has put in under the name that this cluster is to have."""
        kubeconfig.current_context(self._kubeconfigs)  # so that all can be read in the end
        target, context = kubeconfig.file_to_extend(self._kubeconfigs), self._files.context
        if server := kubeconfig.others_server(target, context):
            problem = f"{target} has an entry {context} already, of the cluster at {server}"
            raise ClusterError(f"{problem}; take another --name, or a file of its own with --kubeconfig")

    def _offer_kubeconfig(self) -> None:
        """Let the user's tools find the cluster, and make it the one they talk to.

        What was before is written down first: who cleans up after one that is killed amid this gives it back.
        """
        entry, paths = admin_entry(self._files), self._kubeconfigs
        target, current = kubeconfig.file_to_extend(paths), kubeconfig.file_of_current_context(paths)
        self._record.kubeconfig = KubeconfigRecord(
            entry.name, str(target.absolute()), str(current.absolute())
        )
        self._note_context(kubeconfig.current_context(paths))
        kubeconfig.add(target, entry)
        self._note_context(kubeconfig.use_context(current, entry.name))

    def _note_context(self, previous: str) -> None:
        """What was current before us, which somebody may still change until we are."""
        record = self._record.kubeconfig
        if record is not None and previous != record.context:
            record.previous_context = previous
            record.earlier_contexts = earlier_contexts(previous)
        self._write()

    def _restore_kubeconfig(self) -> None:
        if self._record.kubeconfig is not None:
            give_back(self._record.kubeconfig)

    # --- the record ----------------------------------------------------------------------------
    def _note(self, child: Child) -> None:
        if child.program.name not in self._supervisor.children:
            return  # one that only does its work and ends
        self._record.processes = self._supervisor.records()
        self._tell()

    def _tell(self) -> None:
        """Write what is for others only to see: a full disk puts that off, and ends nothing."""
        self._owes_record = True
        with contextlib.suppress(OSError):
            self._write()
            self._owes_record = False

    def _write(self) -> None:
        if self._claim is not None and not self._claim.lost:
            with contextlib.suppress(FileNotFoundError):  # removed, which is noticed soon
                self._files.write(self._record)

    def _greeting(self) -> str:
        where = "" if self._options.kubeconfig is None else f" --kubeconfig {self._options.kubeconfig}"
        name = "" if self._options.name == DEFAULT_NAME else f" --name {self._options.name}"
        end = "" if self._on_ready is not None else ", or Ctrl-C here"
        kinds = "nodes" if self._options.kubelets else "nodes,queues"
        return (
            f"Cluster {self._options.name!r} is up at {self._record.server}.\n"
            f"  kubectl{where} get {kinds}      context {self._files.context}, made current\n"
            f"  kai local status{name}\n"
            f"  kai local down{name}{end}"
            f"{self._where_the_page_is()}"
        )

    def _where_the_page_is(self) -> str:
        """A line for each process that serves it."""
        record = self._files.read() or self._record
        return "".join(
            f"\n  {process.api_address}/      the page, for a token; `kai ui` needs none"
            for process in record.processes
            if process.api_address
        )

    # --- down ----------------------------------------------------------------------------------
    async def _go_down(self) -> None:
        """Services first, so that they can still say good-bye to the API server."""
        self._record.phase = "stopping"
        self._tell()
        services = [name for name in self._supervisor.children if name not in self._infrastructure]
        with step(self._progress, "services ended"):
            await self._supervisor.stop(services)
        with step(self._progress, "cluster ended"):
            for name in self._infrastructure:  # an API server whose store is gone waits for it in vain
                if name in self._supervisor.children:
                    await self._supervisor.stop([name])


_LEAN = {"MALLOC_ARENA_MAX": "2"}


def count_of(number: int, thing: str) -> str:
    """So many of something, in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _own_record() -> ProcessRecord:
    identity = ProcessIdentity.of(os.getpid())
    assert identity is not None
    return ProcessRecord.of_running("supervisor", identity, time.time())


def admin_entry(files: ClusterFiles) -> Entry:
    """What the API server's own kubeconfig says, under the name of the cluster."""
    document = yaml.safe_load(files.admin_kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    return Entry(files.context, cluster, user)
