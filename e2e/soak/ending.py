"""What must be so when life has stopped: what can run runs, what is believed is so, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from e2e.harness import kai
from e2e.soak import belief, site
from e2e.soak.frame import Breach, called
from e2e.soak.journal import Clock
from e2e.soak.rules.placement import claims_are_held_by_who_has_a_place
from e2e.soak.rules.remains import nothing_is_left
from e2e.soak.watcher import Meter, Watcher
from kai.engine import Engine
from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.model import names
from kai.model.decisions import CycleResult
from kai.model.objects import Queue
from kai.replay import archive, circumstances, scene
from kai.snapshot import codec
from kai.snapshot.kinds import StateParams
from kai.wire.clients import connect_scheduler
from kai.wire.errors import WireError
from kai_local.box.state import ClusterFiles
from kai_local.parts.objects import LocalPod

#: On an idle machine: to get ready, to have no change, to come to rest at all, to agree, to be cleared away.
READY_SECONDS, QUIET_SECONDS, REST_SECONDS, AGREE_SECONDS, CLEAR_SECONDS = 60.0, 8.0, 90.0, 20.0, 60.0
#: As long as a new leader may need for that.
HELD_SECONDS = 60.0
#: To list everything; one that does not answer is asked again.
READ_SECONDS = 20.0
LIVED_IN = ("soak-",)


@dataclass(slots=True)
class Ending:
    """Looks at a cluster in which nobody does anything any more."""

    client: KubeClient
    files: ClusterFiles
    kubeconfig: Path
    watcher: Watcher
    meter: Meter
    clock: Clock
    say: Callable[[str], None]
    #: Recorded cycles that came out as they did.
    replayed: int = 0

    async def run(self) -> list[Breach]:
        """Everything that is not as it must be."""
        found = await self._comes_to_rest()
        found += await self._patiently(self._still_to_do, AGREE_SECONDS, "everything placeable runs")
        found += await self._patiently(self._held, HELD_SECONDS, "no device is held for nobody")
        found += await self._patiently(self._differences, AGREE_SECONDS, "what is believed is so")
        found += await self._decided_again()
        found += await self._patiently(self._clear, AGREE_SECONDS, "everything can be deleted")
        found += await self._patiently(self._remains, CLEAR_SECONDS, "nothing is left behind")
        return found

    # --- rest ----------------------------------------------------------------------------------
    async def _comes_to_rest(self) -> list[Breach]:
        self.say("waiting until nothing moves any more")
        if not await self._until(self.meter.ready, READY_SECONDS):
            return [Breach("not ready", called("process", "cluster"), "a process does not come back")]
        await self._suspend_schedules()
        began = quiet_since = self.clock.now
        seen = self._bound()
        while self.clock.now - quiet_since < QUIET_SECONDS * Clock.load():
            if self.clock.now - began > REST_SECONDS * Clock.load():
                moving = sorted(f"{key} on {node}" for key, _, node in self._bound() ^ seen)
                return [Breach("does not come to rest", called("process", "scheduler"), str(moving[:10]))]
            await asyncio.sleep(0.5)
            if (now := self._bound()) != seen:
                seen, quiet_since = now, self.clock.now
        return []

    async def _suspend_schedules(self) -> None:
        """What makes work each minute makes no more of it."""
        for body in await self.client.list(resources.CRON_JOBS):
            meta = body["metadata"]
            patch = {"spec": {"suspend": True}}
            with contextlib.suppress(NotFound):
                await self.client.patch(resources.CRON_JOBS, meta["name"], patch, namespace=meta["namespace"])

    def _bound(self) -> set[tuple[str, str, str]]:
        pods: dict[str, LocalPod] = self.watcher.pods.objects
        return {
            (key, pod.metadata.uid, pod.spec.node_name)
            for key, pod in pods.items()
            if pod.spec.node_name and not pod.terminal
        }

    # --- what was decided ----------------------------------------------------------------------
    async def _decided_again(self) -> list[Breach]:
        """Every cycle that is recorded has to come out as it did."""
        self.say("deciding all cycles again")
        asked = ("replay", "--since=48h", "--output=json")
        told = await asyncio.to_thread(lambda: kai(*asked, kubeconfig=self.kubeconfig, check=False))
        stretches = json.loads(told or "[]")
        self.replayed = sum(each["same"] for each in stretches)
        self.say(f"{self.replayed} cycles came out as they did, in {len(stretches)} stretches")
        if not self.replayed:
            return [Breach("nothing recorded", called("process", "insight"), "no cycle can be decided again")]
        return [
            Breach(
                "decided otherwise",
                called("process", "scheduler"),
                f"cycle {each['differing']} of term {each['term']}: {each['differences'][:5]}",
            )
            for each in stretches
            if each["same"] != each["cycles"]
        ]

    # --- what is left to do --------------------------------------------------------------------
    async def _still_to_do(self) -> list[Breach]:
        """Ask the engine offline, on a dump of the objects, what it would do next."""
        try:
            result = await self._decided_offline()
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return [Breach("cannot be decided offline", called("process", "scheduler"), repr(error))]
        found = [
            Breach("placeable, but pending", called("Pod", _key(bind.pod)), f"fits on node {bind.node}")
            for bind in result.binds
        ]
        found += [
            Breach(
                "eviction not carried out", called("Pod", _key(one.pod)), f"by {one.action}: {one.message}"
            )
            for one in result.evictions
        ]
        return found

    async def _decided_offline(self) -> CycleResult:
        record = self.files.read()
        assert record is not None, "the cluster is gone"
        [address] = [one.debug_address for one in record.processes if one.debug_address]
        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            session.get(f"http://{address}/get-snapshot") as answer,
        ):
            data = await answer.read()
        found = scene.set_up(archive.read(data))
        return await asyncio.to_thread(Engine(found.config).run, found.state, found.now)

    async def _held(self) -> list[Breach]:
        """Devices that an attempt to bind has left to a pod without a place."""
        return list(claims_are_held_by_who_has_a_place(self.watcher.frame()))

    # --- what is believed ----------------------------------------------------------------------
    async def _differences(self) -> list[Breach]:
        """Where the scheduler's state is another than a list of the objects."""
        where = {"lease_name": names.SCHEDULER_NAME, "namespace": names.NAMESPACE}
        async with connect_scheduler(self.client, **where, tls=None) as scheduler:
            seen = await scheduler.picture()
        believed = codec.decode(seen.data)
        async with asyncio.timeout(READ_SECONDS * Clock.load()):
            true = await belief.read_anew(self.client, StateParams(**believed.params))
        faults = circumstances.decode(seen.circumstances).faults
        return list(belief.differences(believed, faults, true))

    # --- what is left --------------------------------------------------------------------------
    async def _clear(self) -> list[Breach]:
        """Delete all that the soak has made and that is not of its site."""
        for body in await self.client.list(resources.NAMESPACES):
            name = body["metadata"]["name"]
            if name.startswith(LIVED_IN):
                await self._delete(resources.NAMESPACES, name)
        mine = [
            queue
            for queue in await self.client.list(resources.QUEUES, type=Queue)
            if queue.metadata.name.startswith(("q-", "dep-")) or queue.metadata.name == site.PROBE_QUEUE
        ]
        for queue in sorted(mine, key=lambda one: not one.spec.parent_queue):
            await self._delete(resources.QUEUES, queue.metadata.name)
        return []

    async def _delete(self, resource: resources.Resource, name: str) -> None:
        try:
            await self.client.delete(resource, name)
        except NotFound:
            return

    async def _remains(self) -> list[Breach]:
        kinds = (
            resources.NAMESPACES,
            resources.PODS,
            resources.POD_GROUPS,
            resources.CONFIG_MAPS,
            resources.RESOURCE_CLAIMS,
            resources.PVCS,
        )
        objects: dict[str, list[dict[str, Any]]] = {}
        for kind in kinds:
            objects[kind.kind] = await self.client.list(kind)
        return list(nothing_is_left(objects, prefixes=LIVED_IN))

    # --- patience ------------------------------------------------------------------------------
    async def _patiently(
        self, look: Callable[[], Awaitable[list[Breach]]], seconds: float, what: str
    ) -> list[Breach]:
        """What is found when it has been looked for so long, at an idle machine's pace."""
        self.say(f"looking whether {what}")
        deadline = time.monotonic() + seconds * Clock.load()
        while True:
            try:
                found = await look()
            except (KubeError, WireError, aiohttp.ClientError, TimeoutError) as error:
                found = [Breach("cannot be asked", called("process", "cluster"), f"whether {what}: {error}")]
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(2.0)

    async def _until(self, met: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds * Clock.load()
        while not met():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.5)
        return True


def _key(pod: Any) -> str:
    return f"{pod.namespace}/{pod.name}"
