"""The pod-grouper: watches pods, and gives each workload its pod group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder
from kai.kube.lease import Term
from kai.model import flag_rules, names
from kai.runtime import FatalError, Host, freeze_garbage
from kai.runtime.advertising import advertised_host
from kai.wire.serving import CannotListen, Registration, serve
from kai.wire.v1.assignment_pb2_grpc import add_AssignmentServiceServicer_to_server
from kai_pod_grouper import preview_server
from kai_pod_grouper.live.assignments import Assignments, AssignmentServicer
from kai_pod_grouper.live.cluster import LiveCluster, Watches
from kai_pod_grouper.live.owner_cache import OwnerCache
from kai_pod_grouper.live.reconciler import Reconciler
from kai_pod_grouper.live.writer import Writer
from kai_pod_grouper.settings import PodGrouperSettings

LEASE: Final = names.POD_GROUPER_LEASE
SERVICE: Final = "kai.wire.v1.AssignmentService"

log = structlog.get_logger(__name__)


def assemble(
    client: KubeClient,
    settings: PodGrouperSettings,
    *,
    events: EventRecorder,
    registry: CollectorRegistry,
    clock: Callable[[], float] | None = None,
) -> tuple[Watches, Reconciler]:
    """The watches and what acts on them; both are still to be run. ``clock`` is that of the event loop."""
    clock = clock or asyncio.get_running_loop().time
    watches = Watches(client, settings)
    writer = Writer(client, watches.pod_groups, settings.options, registry)
    owners = OwnerCache(client, clock)
    assignments = Assignments(after=settings.annotate_after, clock=clock)
    Gauge(
        "kai_podgrouper_listeners",
        "Schedulers that are told of groups before pods say them; without any each pod is annotated at once",
        registry=registry,
    ).set_function(lambda: assignments.listeners)
    reconciler = Reconciler(
        watches=watches,
        cluster=LiveCluster(client, watches, owners, existing=writer.existing),
        writer=writer,
        assignments=assignments,
        events=events,
        options=settings.options,
        registry=registry,
    )
    return watches, reconciler


class PodGrouperService:
    """All replicas watch and answer previews; the leader groups, and tells schedulers of it."""

    name = "pod-grouper"
    needs_cluster = True

    def __init__(self, settings: PodGrouperSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Group until told to stop."""
        settings = self.settings
        watches, reconciler = assemble(host.client, settings, events=host.recorder(), registry=host.metrics)
        host.health.add("watches", lambda: watches.synced or "waiting for the first lists")

        async def group(_: Term | None = None) -> None:
            freeze_garbage()
            await reconciler.run(workers=settings.max_concurrent_reconciles)

        async def work(endpoint: str) -> None:
            # Who has read nothing groups nobody: until then the one before does, while it is replaced.
            await watches.wait_until_synced()
            if settings.leader_elect or endpoint:
                # Who is followed leads by its Lease; one that is alone waits for nobody who had it before.
                elector = host.elector(LEASE, endpoint=endpoint, alone=not settings.leader_elect)
                await elector.lead(group)
            else:
                await group()

        try:
            async with AsyncExitStack() as stack:
                endpoint = await self._serve(stack, host, reconciler.assignments)
                await host.until_stopping(watches.run(), work(endpoint))
        except CannotListen as error:
            raise FatalError(str(error)) from error

    async def _serve(self, stack: AsyncExitStack, host: Host, assignments: Assignments) -> str:
        """Serve what is to be served; ``host:port`` of it, empty if nothing is."""
        settings = self.settings
        if not settings.grpc_listen:
            return ""
        if settings.tls is None and flag_rules.reaches_others(settings.grpc_listen):
            log.warning(
                "gRPC without TLS: whoever reaches the port may call everything", listen=settings.grpc_listen
            )
        served = [_registration(assignments)]
        services = [SERVICE]
        if settings.previews:
            served.append(preview_server.registration(settings.options))
            services.append(preview_server.SERVICE)
        server = serve(
            settings.grpc_listen, served, tls=settings.tls, services=services, metrics=host.metrics
        )
        port = await stack.enter_async_context(server)
        log.info("serving", port=port, previews=settings.previews)
        return f"{advertised_host(settings.advertise_host, listen=settings.grpc_listen)}:{port}"


def _registration(assignments: Assignments) -> Registration:
    return lambda server: add_AssignmentServiceServicer_to_server(AssignmentServicer(assignments), server)
