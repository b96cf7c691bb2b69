"""``/get-snapshot`` and ``/get-job-order``, for people and offline tools, on this machine only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from kai.config import SchedulerConfig
from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.forms import served
from kai.kube.resources import Resource
from kai.model.failures import all_over, described
from kai.replay import archive, bind_requests
from kai.replay import config as replay_config
from kai.replay.content import without_content
from kai.runtime.health import listen_on
from kai_scheduler.core import Core
from kai_scheduler.troubles import Troubles

HOST: Final = "127.0.0.1"
#: The lists of a snapshot file that are the API server's, and where they come from.
RAW_OBJECTS: Final[Mapping[str, Resource]] = {
    "pods": resources.PODS,
    "nodes": resources.NODES,
    "queues": resources.QUEUES,
    "podGroups": resources.POD_GROUPS,
    "priorityClasses": resources.PRIORITY_CLASSES,
    "configMaps": resources.CONFIG_MAPS,
    "persistentVolumes": resources.PVS,
    "persistentVolumeClaims": resources.PVCS,
    "csiStorageCapacities": resources.CSI_STORAGE_CAPACITIES,
    "storageClasses": resources.STORAGE_CLASSES,
    "csiDrivers": resources.CSI_DRIVERS,
    "resourceClaims": resources.RESOURCE_CLAIMS,
    "resourceSlices": resources.RESOURCE_SLICES,
    "deviceClasses": resources.DEVICE_CLASSES,
    "topologies": resources.TOPOLOGIES,
    "nodeResourceTopologies": resources.NODE_RESOURCE_TOPOLOGIES,
    # The original has no use for the rest, and ignores it.
    "csiNodes": resources.CSI_NODES,
    "podDisruptionBudgets": resources.PDBS,
    "namespaces": resources.NAMESPACES,
}
#: As they are watched: a failed pod holds nothing.
_SELECTED: Final = {resources.PODS: "status.phase!=Failed"}

_log = structlog.get_logger(__name__)


class DebugServer:
    """Serves on 127.0.0.1 while it is open, what the configuration has a plugin for; ``port`` 0 takes any."""

    def __init__(
        self,
        client: KubeClient,
        core: Core,
        troubles: Troubles,
        *,
        config: SchedulerConfig,
        params: dict[str, Any],
        port: int,
    ) -> None:
        self.port = port
        self._client = client
        self._core = core
        self._troubles = troubles
        self._config = config
        self._params = params
        app = web.Application(middlewares=[self._contained])
        for path, (plugin, handler) in {
            "/get-snapshot": ("snapshot", self._snapshot),
            "/get-job-order": ("reflectjoborder", self._job_order),
        }.items():
            app.router.add_get(path, handler if config.plugin(plugin) is not None else _off(plugin))
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self) -> None:
        """Begin to answer.

        Raises:
            ListenError: the port is in use.
        """
        await self._runner.setup()
        _, self.port = await listen_on(self._runner, HOST, self.port, flag="--plugin-server-port")

    async def close(self) -> None:
        """Stop answering."""
        await self._runner.cleanup()

    @web.middleware
    async def _contained(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell who asked what failed; nobody else is concerned."""
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 (as said)
            self._troubles.note(request.path, error)
            told = f"{described(error)}. Scheduling is not affected; the scheduler's log has more\n"
            return web.Response(status=500, text=told)

    async def _snapshot(self, request: web.Request) -> web.Response:
        taken_at = time.time()
        raw = {
            name: [_shortened(name, obj) for obj in await self._list(res)]
            for name, res in RAW_OBJECTS.items()
        }
        raw["bindRequests"] = await self._core.question(lambda state: list(bind_requests.under_way(state)))
        packed = archive.write(
            archive.Archive(
                config=replay_config.document(self._config),
                params=self._params,
                raw_objects=raw,
                discovery=await self._discover(),
                taken_at=taken_at,
            )
        )
        return web.Response(
            body=packed,
            content_type="application/zip",
            headers={"Content-Disposition": "attachment; filename=snapshot.zip"},
        )

    async def _list(self, res: Resource) -> list[dict[str, Any]]:
        """Objects in the form of the newest version, whichever is served."""
        try:
            form = await served(self._client, res)
            if form is None:
                return []
            found = await self._client.list(form.resource, field_selector=_SELECTED.get(res, ""))
        except KubeError as error:
            _log.info("kind is left out of the snapshot", resource=res.plural, reason=str(error))
            return []
        return found if form.read is None else [form.read(obj) for obj in found]

    async def _discover(self) -> dict[str, Any]:
        """The server's version, and which kinds it has in the groups that we read."""
        found = {res: await served(self._client, res) for res in RAW_OBJECTS.values()}
        versions = sorted({(form.resource if form else res).api_version for res, form in found.items()})
        paths = {name: f"/apis/{name}" if "/" in name else f"/api/{name}" for name in versions}
        kinds = [await self._raw(path) for path in paths.values()]
        return {
            "serverVersion": await self._raw("/version"),
            "resources": [found for found in kinds if found is not None],
        }

    async def _raw(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._client.raw(path)
        except KubeError as error:
            _log.info("path is left out of the snapshot", path=path, reason=str(error))
            return None

    async def _job_order(self, request: web.Request) -> web.Response:
        order = await self._core.question(self._core.engine.job_order)
        if order is None:
            raise web.HTTPServiceUnavailable(text="no cycle has run yet")
        return web.Response(body=msgspec.json.encode(order), content_type="application/json")


def _shortened(name: str, obj: dict[str, Any]) -> dict[str, Any]:
    with all_over(archive.about(name, obj)):
        return without_content(name, obj)


def _off(plugin: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        told = f"plugin {plugin!r} is off; name it in the scheduler's configuration\n"
        raise web.HTTPNotFound(text=told)

    return answer
