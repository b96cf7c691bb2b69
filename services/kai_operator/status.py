"""Writes what Config and shards say of themselves, where it changed, and tells users what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.resources import Resource
from kai_operator import conditions
from kai_operator.conditions import Standing
from kai_operator.kinds import Manifest

_log = structlog.get_logger(__name__)


class Status:
    """``known`` is where the newest state of each object is kept, by kind and name."""

    def __init__(self, client: KubeClient, recorder: EventRecorder, keep: Callable[[Manifest], None]) -> None:
        self._client = client
        self._recorder = recorder
        self._keep = keep

    async def begin(self, resource: Resource, manifest: Manifest, *, now: datetime) -> Manifest:
        """Say that work on this generation begins, unless that was said; the object after that."""
        told = conditions.begun(_conditions(manifest), generation=_generation(manifest), now=now)
        return manifest if told is None else await self._write(resource, manifest, told)

    async def end(
        self, resource: Resource, manifest: Manifest, standing: Standing, *, now: datetime
    ) -> Manifest:
        """Say how things stand, unless that was said; the object after that."""
        known = _conditions(manifest)
        told = conditions.ended(known, standing, generation=_generation(manifest), now=now)
        if told == known:
            return manifest
        self._tell(resource, manifest, standing)
        return await self._write(resource, manifest, told)

    def _tell(self, resource: Resource, manifest: Manifest, standing: Standing) -> None:
        meta = manifest["metadata"]
        about = ObjectReference(resource.api_version, resource.kind, "", meta["name"], meta["uid"])
        for problem in standing.problems:
            self._recorder.emit(about, "Warning", "InvalidSpec", f"{problem}; {standing.meanwhile}")
        for note in standing.notes:
            self._recorder.emit(about, "Warning" if note.warns else "Normal", note.reason, note.text)
        stopped = [standing.stopped] if standing.stopped else []
        for trouble in (*stopped, *standing.troubles.values()):
            self._recorder.emit(about, "Warning", "NotDeployed", trouble)

    async def _write(self, resource: Resource, manifest: Manifest, told: list[Manifest]) -> Manifest:
        """A status that cannot be written is told by the next pass."""
        name = manifest["metadata"]["name"]
        patch = {"metadata": {"uid": manifest["metadata"]["uid"]}, "status": {"conditions": told}}
        try:
            written: Manifest = await self._client.patch(resource, name, patch, subresource="status")
        except NotFound:
            return manifest
        except KubeError as error:
            _log.warning("conditions not written", object=f"{resource.kind} {name}", error=str(error))
            return manifest
        self._keep(written)
        return written


def _conditions(manifest: Manifest) -> list[Manifest]:
    return list((manifest.get("status") or {}).get("conditions") or ())


def _generation(manifest: Manifest) -> int:
    return int(manifest["metadata"].get("generation", 0))
