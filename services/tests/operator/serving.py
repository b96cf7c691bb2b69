"""The real operator, at work on whatever API server a kubeconfig names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from kai.kube.client import KubeClient
from kai.model import names
from kai.runtime import Host
from kai_operator.service import OperatorService
from kai_operator.settings import OperatorSettings


@asynccontextmanager
async def operator(kubeconfig: str) -> AsyncIterator[None]:
    settings = OperatorSettings.parse([f"--namespace={names.NAMESPACE}"])
    service = OperatorService(settings)
    host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
    async with (
        KubeClient.connect(kubeconfig, registry=host.metrics) as host.client,
        asyncio.TaskGroup() as host.tasks,
    ):
        work = host.tasks.create_task(service.run(host))
        try:
            yield
        finally:
            host.stopping.set()
            await asyncio.wait([work])
            host.stop_background()
