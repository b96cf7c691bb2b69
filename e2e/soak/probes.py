"""Pods that always have room, one after the other: each has told what it was for as soon as it runs."""

from __future__ import annotations

import asyncio

from e2e.soak import site
from e2e.soak.actions import Action, Remove
from e2e.soak.frame import Frame
from e2e.soak.performer import Performer


class Probes:
    """Deletes those that run. ``ended``: the uids of those that were deleted so."""

    def __init__(self, performer: Performer, tasks: asyncio.TaskGroup) -> None:
        self.ended: set[str] = set()
        self._performer, self._tasks = performer, tasks

    def look(self, now: Frame) -> None:
        """Let those go that run by now."""
        for key, pod in now.pods.items():
            namespace, _, name = key.partition("/")
            uid = pod.metadata.uid
            if namespace != site.PROBE_NAMESPACE or pod.status.phase != "Running" or uid in self.ended:
                continue
            self.ended.add(uid)
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}}
            self._tasks.create_task(
                self._performer.perform(Action(now.at, "probe ended", Remove((manifest,))))
            )
