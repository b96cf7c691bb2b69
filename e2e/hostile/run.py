"""One siege: a cluster that two teams share, one of them hostile; judged every second and afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import aiohttp

import deadlines
from e2e.hostile import plan, rules, site
from e2e.soak.actions import Action, Put
from e2e.soak.cluster import RunOptions, cluster
from e2e.soak.frame import Breach, Frame, ProcessSample, called
from e2e.soak.journal import Clock, Journal
from e2e.soak.judge import SURROUNDINGS, Judge, States
from e2e.soak.performer import Performer
from e2e.soak.probes import Probes
from e2e.soak.report import Report
from e2e.soak.rules import placement, processes
from e2e.soak.rules.latency import Placed
from e2e.soak.run import commit
from e2e.soak.watcher import Logs, Meter, Watcher
from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.runtime.trimming import PERIOD_SECONDS
from kai_local.box.state import ClusterFiles
from kai_local.machine.materials import write_kubeconfig

LOOK_SECONDS, COUNT_SECONDS, SAY_SECONDS = 1.0, 5.0, 20.0
#: Before memory is measured first, each form of attack has come, within so many seconds.
REHEARSED_SECONDS = 60.0
#: On an idle machine: until all objects are gone, until memory is back, and what is looked at of it.
CLEAR_SECONDS, SETTLE_SECONDS, MEASURED_SECONDS = 90.0, 40.0, 10.0
#: In each namespace, and nobody's to delete.
_OF_KUBERNETES: Final = "kube-root-ca.crt"


#: As the chart installs it, roles and admission policies in force.
_FLAGS: Final = ("--chart",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(RunOptions):
    """What a siege is to be."""

    kind: ClassVar[str] = "hostile"
    objects: int


async def siege(options: Options, say: Callable[[str], None]) -> Report:
    """Run it; what was found is in the report."""
    with cluster(options, *_FLAGS) as files:
        async with KubeClient.connect(str(options.kubeconfig), user_agent="team") as client:
            return await _Siege(options, files, client, say).run()


class _Siege:
    def __init__(
        self, options: Options, files: ClusterFiles, client: KubeClient, say: Callable[[str], None]
    ) -> None:
        self._options, self._files, self._client, self._say = options, files, client, say
        self._clock, self._journal = Clock(), Journal()
        self._watcher = Watcher(client, self._clock)
        self._meter = Meter(files, self._clock)
        self._logs = Logs(files.logs, self._clock)
        self._grants = rules.Grants()
        self._probes: Probes | None = None
        self._slowness: list[tuple[float, float]] = []
        self._judge = Judge(
            self._journal,
            excerpts=self._logs.excerpts,
            # What must hold at every moment is excused by no machine that is slow.
            load=lambda: 1.0,
            tell=say,
            states=self._states(),
            changes=(),
        )
        self._team = self._performer(client, options.kubeconfig)

    def _performer(self, client: KubeClient, kubeconfig: Path) -> Performer:
        return Performer(client, kubeconfig, self._files, journal=self._journal, clock=self._clock)

    def _states(self) -> States:
        return (
            (placement.devices_have_one_owner, 3.0),
            (placement.devices_are_reserved_once, 3.0),
            (placement.nodes_have_room, 3.0),
            (placement.claims_have_devices_of_their_own, 3.0),
            (rules.what_is_held_is_charged, 30.0),
            (self._held_for_somebody, 60.0),
            (self._left_alone, 0.0),
        )

    def _held_for_somebody(self, frame: Frame) -> Iterator[Breach]:
        return rules.devices_are_held_for_somebody(frame, self._grants.named)

    def _left_alone(self, frame: Frame) -> Iterator[Breach]:
        return rules.others_are_left_alone(frame, self._probes.ended if self._probes else ())

    async def run(self) -> Report:
        """1. furnish  2. rehearse, and measure  3. besiege  4. clear away, and measure again  5. conclude."""
        seed, seconds = self._options.seed, self._options.minutes * 60
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._watcher.run())]
            await self._furnish()
            await self._watcher.synced()
            async with KubeClient.connect(str(await self._tenant()), user_agent="tenant") as client:
                tenant = self._performer(client, self._options.kubeconfig)
                self._clock.begin()
                beside.append(tasks.create_task(self._judge_on(tasks)))
                whole = seconds + REHEARSED_SECONDS + 600
                beside.append(tasks.create_task(self._team.run(plan.team(seconds=whole))))
                self._say("rehearsing each form of attack")
                await tenant.run(plan.rehearsal(seed=seed, seconds=REHEARSED_SECONDS))
                await self._clear()
                before = await self._measure(None)
                begin = self._clock.now
                self._say(f"besieged by {self._options.objects} objects")
                await tenant.run(
                    plan.hostile(seed=seed, seconds=seconds, objects=self._options.objects, begin=begin)
                )
                await self._clear()
                after = await self._measure(before)
            self._judge.note(self._clock.now, rules.memory_comes_back(before, after))
            for task in beside:
                task.cancel()
        return self._conclude(before, after)

    async def _furnish(self) -> None:
        self._say("registering nodes, and what two teams need")
        for manifest in (*site.nodes(), *site.furniture()):
            await self._team.perform(Action(0.0, "furnished", Put((manifest,))))
            last = self._journal.entries[-1]
            if not last.taken:
                raise RuntimeError(f"{manifest['kind']} {manifest['metadata']['name']}: {last.outcome}")

    async def _tenant(self) -> Path:
        """A kubeconfig with the token of the tenant's account, which may do what his role says."""
        account = {
            "metadata": {"namespace": site.TENANT_NAMESPACES[0]},
            "spec": {"serviceAccountName": site.TENANT},
        }
        folder = self._options.folder / "tenant"
        folder.mkdir(exist_ok=True)
        return await write_kubeconfig(self._client, account, self._options.kubeconfig, folder)

    # --- every second --------------------------------------------------------------------------
    async def _judge_on(self, tasks: asyncio.TaskGroup) -> None:
        self._probes = Probes(self._team, tasks)
        before, counted_at, said_at = self._watcher.frame(), 0.0, 0.0
        async with aiohttp.ClientSession() as session:
            while True:
                now = self._watcher.frame()
                self._slowness.append((now.at, deadlines.slowness(at_most=math.inf)))
                self._meter.look()
                self._judge.look(before, self._grants.as_granted(now), self._meter.restarts)
                self._judge.read(before, now, self._logs.fresh())
                self._judge.note(now.at, self._late(now.at))
                self._judge.note(now.at, rules.everybody_is_answered(self._journal.entries))
                self._probes.look(now)
                if now.at - counted_at >= COUNT_SECONDS:
                    counted_at = now.at
                    counters = await self._meter.count(session)
                    risen = processes.counters_stand_still(self._meter.counters, counters)
                    self._judge.note(self._clock.now, risen)
                    self._meter.counters = counters
                if now.at - said_at >= SAY_SECONDS:
                    said_at = now.at
                    self._tell(now)
                before = now
                await asyncio.sleep(LOOK_SECONDS)

    def _late(self, now: float) -> Iterator[Breach]:
        waiting = [
            Placed(pod=key, created_at=since, bound_at=now, probe=True)
            for key, since in self._watcher.waiting_probes()
        ]
        placed = self._watcher.placed(lambda begin, end: False)
        return rules.others_are_placed_soon(placed, waiting, slowness=self._slowest)

    def _slowest(self, begin: float, end: float) -> float:
        between = [
            slowness for at, slowness in self._slowness if begin - LOOK_SECONDS <= at <= end + LOOK_SECONDS
        ]
        return max(between, default=deadlines.slowness(at_most=math.inf))

    def _tell(self, now: Frame) -> None:
        minutes, seconds = divmod(int(now.at), 60)
        running = sum(pod.status.phase == "Running" for pod in now.pods.values())
        sizes = {one.name: one.rss_mib for one in self._meter.samples[-16:] if one.name not in SURROUNDINGS}
        largest = max(sizes, key=lambda name: sizes[name], default="")
        self._say(
            f"{minutes:3}:{seconds:02}  {len(now.pods)} pods, {running} run, {len(now.groups)} groups, "
            f"{len(self._journal.entries)} deeds, {largest} {sizes.get(largest, 0):.0f} MiB, "
            f"{len(self._judge.findings)} findings, slowness {deadlines.slowness():.1f}"
        )

    # --- when he is gone -----------------------------------------------------------------------
    async def _clear(self) -> None:
        """Delete all that is in the tenant's namespaces, and wait until it is gone."""
        self._say("clearing away what the tenant has put")
        deadline = self._clock.now + CLEAR_SECONDS * deadlines.slowness()
        while left := await self._left():
            if self._clock.now > deadline:
                told = [f"{kind} {body['metadata']['name']}" for kind, body in left[:10]]
                breach = Breach("does not end", called("Namespace", site.TENANT_NAMESPACES[0]), str(told))
                self._judge.note(self._clock.now, [breach])
                return
            await asyncio.sleep(1.0)

    async def _left(self) -> list[tuple[str, dict[str, Any]]]:
        """Let all of it go; what is there still."""
        found: list[tuple[str, dict[str, Any]]] = []
        for kind in site.KINDS:
            for namespace in site.TENANT_NAMESPACES:
                for body in await self._client.list(kind, namespace=namespace):
                    if body["metadata"]["name"] != _OF_KUBERNETES:
                        found.append((kind.kind, body))
                        await self._let_go(kind, body["metadata"])
        return found

    async def _let_go(self, kind: resources.Resource, meta: dict[str, Any]) -> None:
        name, namespace = meta["name"], meta["namespace"]
        with contextlib.suppress(NotFound):
            if meta.get("finalizers"):
                await self._client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            if not meta.get("deletionTimestamp"):
                await self._client.delete(kind, name, namespace=namespace, propagation="Background")

    async def _measure(self, before: list[ProcessSample] | None) -> list[ProcessSample]:
        """The samples of some seconds; of the first in which memory is back to ``before``, if it is."""
        if before is None:  # what a process gives back when it is at rest is not its size before, either
            await asyncio.sleep(2 * PERIOD_SECONDS)
        deadline = self._clock.now + SETTLE_SECONDS * deadlines.slowness()
        while True:
            since = self._clock.now
            await asyncio.sleep(MEASURED_SECONDS)
            found = [one for one in self._meter.samples if one.at >= since and one.name not in SURROUNDINGS]
            if (
                before is None
                or self._clock.now > deadline
                or not list(rules.memory_comes_back(before, found))
            ):
                return found

    def _conclude(self, before: list[ProcessSample], after: list[ProcessSample]) -> Report:
        def sizes(samples: list[ProcessSample]) -> dict[str, float]:
            return {name: round(mib, 1) for name, mib in rules.smallest(samples).items()}

        return Report(
            seed=self._options.seed,
            minutes=self._options.minutes,
            commit=commit(),
            journal=self._journal,
            findings=self._judge.findings,
            placed=self._watcher.placed(lambda begin, end: False),
            samples=self._meter.samples,
            restarts=self._meter.restarts,
            conditions={
                "cores": os.cpu_count(),
                "load": os.getloadavg(),
                "objects": self._options.objects,
                "mib_before": sizes(before),
                "mib_after": sizes(after),
            },
        )
