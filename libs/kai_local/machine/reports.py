"""What a pod is told of its process: a status, and events."""

from __future__ import annotations

import contextlib
from typing import Any

from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import Conflict, NotFound
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.resources import PODS
from kai_local.machine.launch import Manifest


class Reports:
    """Writes them as a kubelet does. Events are sent while :meth:`run` goes on."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._events = EventRecorder(client, controller="kubelet")

    async def run(self) -> None:
        """Send events until cancelled."""
        await self._events.run()

    def emit(self, pod: Manifest, kind: str, reason: str, message: str) -> None:
        """An event of a pod, of kind ``Normal`` or ``Warning``."""
        meta = pod["metadata"]
        about = ObjectReference("v1", "Pod", meta["namespace"], meta["name"], meta["uid"])
        self._events.emit(about, "Warning" if kind == "Warning" else "Normal", reason, message)

    async def write_status(self, pod: Manifest, found: dict[str, Any]) -> None:
        """Of this very pod; nothing where it is gone."""
        meta = pod["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            await self._client.patch(
                PODS,
                meta["name"],
                {"metadata": {"uid": meta["uid"]}, "status": found},
                namespace=meta["namespace"],
                subresource="status",
                kind=PatchKind.STRATEGIC,
            )
