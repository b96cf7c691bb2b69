"""The pod-grouper: watches pods, and gives each workload its pod group."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder
from kai.kube.lease import Term
from kai.model import names
from kai.runtime import FatalError, Host, freeze_garbage
from kai.wire.serving import CannotListen, serve
from kai_pod_grouper.live.cluster import LiveCluster, Watches
from kai_pod_grouper.live.owner_cache import OwnerCache
from kai_pod_grouper.live.reconciler import Reconciler
from kai_pod_grouper.live.writer import Writer
from kai_pod_grouper.offline import preview_server
from kai_pod_grouper.settings import PodGrouperSettings

LEASE: Final = names.POD_GROUPER_LEASE

log = structlog.get_logger(__name__)


def assemble(
    client: KubeClient, settings: PodGrouperSettings, *, events: EventRecorder, registry: CollectorRegistry
) -> tuple[Watches, Reconciler]:
    """The watches and what acts on them; both are still to be run."""
    watches = Watches(client, settings)
    writer = Writer(client, watches.pod_groups, settings.options, registry)
    owners = OwnerCache(client, asyncio.get_running_loop().time)
    reconciler = Reconciler(
        watches=watches,
        cluster=LiveCluster(client, watches, owners, existing=writer.existing),
        writer=writer,
        events=events,
        options=settings.options,
        registry=registry,
    )
    return watches, reconciler


class PodGrouperService:
    """All replicas watch and answer previews; the leader groups."""

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
            await watches.wait_until_synced()
            freeze_garbage()
            await reconciler.run(workers=settings.max_concurrent_reconciles)

        async def lead() -> None:
            if settings.leader_elect:
                await host.elector(LEASE).lead(group)
            else:
                await group()

        try:
            async with AsyncExitStack() as stack:
                await self._serve_previews(stack, host)
                await host.until_stopping(watches.run(), lead())
        except CannotListen as error:
            raise FatalError(str(error)) from error

    async def _serve_previews(self, stack: AsyncExitStack, host: Host) -> None:
        settings = self.settings
        if settings.grpc_listen:
            server = serve(
                settings.grpc_listen,
                [preview_server.registration(settings.options)],
                tls=settings.tls,
                services=[preview_server.SERVICE],
                metrics=host.metrics,
            )
            log.info("serving previews", port=await stack.enter_async_context(server))
