"""The life of a service process.

1. ``/healthz``, ``/readyz`` and ``/metrics`` answer; profiles are served if they are asked for. 2. The API
server is greeted; it may be late. 3. The service runs. 4. SIGTERM or SIGINT sets ``host.stopping``; the
service has ``drain_timeout`` seconds to return, then it is cancelled. A second signal ends the process at
once.

Exit status: 0 after a drain, 1 after a failure (one line tells it), 2 for invalid settings, 128 + n
after a second signal n.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Protocol
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry, Gauge

from kai import observe
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.events import EventRecorder, host_name
from kai.kube.lease import LeaderElector, LeaseTimes
from kai.model import release
from kai.runtime import debug
from kai.runtime.health import Health, HealthServer, ListenError
from kai.runtime.settings import ServiceSettings, SettingsError
from kai.runtime.trimming import trim_at_rest, trimmer

#: What a process that ends spends on writing its last events.
EVENT_SECONDS = 3.0
#: So long may what was cancelled take to end. With the time to drain it is less than a pod has to end.
LAST_SECONDS = 4.0

_log = structlog.get_logger(__name__)


class FatalError(Exception):
    """The service cannot go on; the message says why in one line, and it ends with ``status``."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class Service(Protocol):
    """What :func:`run` runs. ``run`` returns soon after ``host.stopping`` is set."""

    name: str
    #: Whether it talks to an API server; if not, ``host.client`` must not be used.
    needs_cluster: bool = True

    @property
    def settings(self) -> ServiceSettings:
        """What it was told."""

    async def run(self, host: Host) -> None:
        """Do the work of the service, until it is to stop or done."""


class Host:
    """What a service has to work with, while it runs."""

    def __init__(self, *, name: str, settings: ServiceSettings, metrics: CollectorRegistry) -> None:
        self.name = name
        self.settings = settings
        self.metrics = metrics
        self.health = Health()
        self.server = HealthServer(self.health, metrics, routes=debug.log_level_routes())
        self.stopping = asyncio.Event()
        #: Distinguishes this process from every other, also from its predecessor in the same pod.
        self.identity = f"{host_name()}_{uuid4().hex[:12]}"
        #: Owned by the runtime and set before the service runs.
        self.tasks: asyncio.TaskGroup
        self.client: KubeClient
        #: What :meth:`start` has started.
        self.background: list[asyncio.Task[None]] = []
        self._recorders: list[EventRecorder] = []
        self._leads = Gauge(
            "leader_election_master_status",
            "Whether this process leads, by Lease",
            ("name",),
            registry=metrics,
        )

    def start(self, work: Coroutine[Any, Any, None], *, name: str = "") -> asyncio.Task[None]:
        """Run ``work`` beside the service; its failure ends the process, and its end the work."""
        task = self.tasks.create_task(work, name=name or None)
        self.background.append(task)
        return task

    def hurry(self) -> None:
        """Have what is still to be written written without rests; there may be no client yet."""
        if hasattr(self, "client"):
            self.client.hurry()

    async def drain_events(self) -> None:
        """Give events that are still to be written a moment."""
        self.hurry()
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENT_SECONDS):
                for recorder in self._recorders:
                    await recorder.drain()

    def stop_background(self) -> None:
        """Cancel what :meth:`start` started."""
        for task in self.background:
            task.cancel()

    def recorder(self, controller: str = "") -> EventRecorder:
        """A recorder of events that writes for as long as the process runs."""
        recorder = EventRecorder(
            self.client, controller=controller or self.name, instance=self.identity, registry=self.metrics
        )
        self.start(recorder.run(), name="events")
        self._recorders.append(recorder)
        return recorder

    def elector(self, lease: str, *, endpoint: str = "", alone: bool = False) -> LeaderElector:
        """An elector for a Lease in the namespace of the installation; see there who is ``alone``."""
        times = LeaseTimes(
            duration=self.settings.lease_duration,
            renew_deadline=self.settings.lease_renew_deadline,
            retry=self.settings.lease_retry_period,
        )
        elector = LeaderElector(
            self.client,
            lease,
            self.settings.namespace,
            self.identity,
            endpoint=endpoint,
            version=release.version(),
            alone=alone,
            times=times,
        )
        self._leads.labels(lease).set_function(lambda: float(elector.leading))
        return elector

    def end_term(self) -> None:
        """Let garbage collection look at what a term kept, unless the process ends with it."""
        if not self.stopping.is_set():
            gc.unfreeze()

    async def until_stopping(self, *work: Coroutine[Any, Any, None]) -> None:
        """Run all of ``work`` until the process is to stop, then cancel what still runs."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            await self.stopping.wait()
            self.hurry()
            for task in tasks:
                task.cancel()


def run(service: Service) -> None:
    """Run a service as this process; ends the process with its exit status."""
    sys.exit(asyncio.run(_run(service)))


def freeze_garbage() -> None:
    """Take everything alive now out of garbage collection.

    To be called once the caches are warm: a full collection would otherwise walk them all, for nothing. Where
    they belong to a term of leading it ends with :meth:`Host.end_term`.
    """
    gc.collect()
    gc.freeze()


async def _run(service: Service) -> int:
    host = Host(name=service.name, settings=service.settings, metrics=observe.new_registry())
    _install_signal_handlers(host)
    for setting in service.settings.ignored:
        _log.warning("a setting has no effect here", setting=setting)
    try:
        async with AsyncExitStack() as stack:
            await _open(host, service, stack)
            await _serve(host, service)
    except Exception as error:  # noqa: BLE001 (the outermost place there is)
        return _report(error)
    _log.info("stopped")
    return 0


async def _open(host: Host, service: Service, stack: AsyncExitStack) -> None:
    settings = service.settings
    stack.push_async_callback(host.server.close)
    await host.server.start(health_listen=settings.health_listen, metrics_listen=settings.metrics_listen)
    _log.info(
        "listening", health=_shown(host.server.health_address), metrics=_shown(host.server.metrics_address)
    )
    if settings.enable_profiler:
        profiles = debug.ProfileServer(settings.profiler_port)
        stack.push_async_callback(profiles.close)
        await profiles.start()
        _log.info("profiles are served", address=f"{debug.HOST}:{profiles.port}")
    host.health.add("started", lambda: hasattr(host, "tasks"))
    if getattr(service, "needs_cluster", True):
        client = KubeClient.connect(
            settings.kubeconfig or None,
            context=settings.context or None,
            user_agent=f"kai-{service.name}",
            wait=settings.connect_timeout,
            registry=host.metrics,
            pace=settings.pace,
        )
        connecting = asyncio.ensure_future(stack.enter_async_context(client))
        await _unless_stopping(host, connecting)
        host.client = client


async def _unless_stopping(host: Host, work: asyncio.Future[Any]) -> None:
    """Wait for ``work``; a signal cancels it."""
    stop = asyncio.ensure_future(host.stopping.wait())
    try:
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
    if not work.done():
        work.cancel()
        raise FatalError("stopped before the api server answered", status=0)
    work.result()


async def _serve(host: Host, service: Service) -> None:
    async with asyncio.TaskGroup() as tasks:
        host.tasks = tasks
        host.start(trim_at_rest(trimmer()), name="trim")
        main = tasks.create_task(service.run(host), name=service.name)
        deadline = tasks.create_task(_cancel_when_late(host, main), name="drain deadline")
        try:
            await asyncio.wait([main])
        finally:  # also where something has failed, over which the group cancels us
            deadline.cancel()
            _end_soon(main, *host.background)
        await host.drain_events()
        host.stop_background()


async def _cancel_when_late(host: Host, main: asyncio.Task[None]) -> None:
    await host.stopping.wait()
    _log.info("draining", seconds=host.settings.drain_timeout)
    await asyncio.sleep(host.settings.drain_timeout)
    _log.warning("drain took too long; what is left is dropped")
    main.cancel()
    _end_soon()


def _end_soon(*watched: asyncio.Task[None]) -> None:
    """What was cancelled is waited for, but not for ever: a library may have lost the cancellation.

    Then what has failed of those ``watched`` is told here, for nobody else gets to it.
    """
    loop = asyncio.get_running_loop()

    def end() -> None:
        left = sorted(task.get_name() for task in asyncio.all_tasks(loop))
        _log.error("tasks do not end though they were cancelled; the process ends without them", tasks=left)
        failures = [task.exception() for task in watched if task.done() and not task.cancelled()]
        os._exit(max((_report(failure) for failure in failures if failure is not None), default=1) or 1)

    loop.call_later(EVENT_SECONDS + LAST_SECONDS, end)


def _install_signal_handlers(host: Host) -> None:
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if host.stopping.is_set():
            os._exit(128 + number)
        host.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)


def _report(error: BaseException) -> int:
    """Tell a failure once; the exit status for it."""
    leaves = list(_leaves(error))
    for leaf in leaves:
        match leaf:
            case FatalError(status=0):
                pass
            case FatalError() | KubeError() | ListenError() | SettingsError():
                sys.stderr.write(f"error: {leaf}\n")
            case _:
                _log.error("failed", exc_info=leaf)
    return max((_status(leaf) for leaf in leaves), default=1)


def _status(error: BaseException) -> int:
    match error:
        case FatalError():
            return error.status
        case SettingsError():
            return 2
        case _:
            return 1


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
