"""One soak: a cluster is furnished, lived in, judged every second, brought to rest and looked over."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import aiohttp
import yaml

import kai
from e2e.soak import site
from e2e.soak.actions import Action, Put
from e2e.soak.cluster import RunOptions, cluster
from e2e.soak.ending import Ending
from e2e.soak.frame import Frame
from e2e.soak.journal import Clock, Journal
from e2e.soak.judge import GRACE_SECONDS, Judge
from e2e.soak.performer import Performer
from e2e.soak.plan import plan
from e2e.soak.probes import Probes
from e2e.soak.report import Report
from e2e.soak.rules import processes
from e2e.soak.watcher import Logs, Meter, Watcher
from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.kube.client import KubeClient
from kai_local.box.state import ClusterFiles

#: Longer than any soak.
RETENTION = "48h"
#: Usually it is a minute, in which few scaling pods would come and go.
COOL_DOWN = "5s"
LOOK_SECONDS, COUNT_SECONDS, SAY_SECONDS = 1.0, 5.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(RunOptions):
    """What a soak is to be."""

    kind: ClassVar[str] = "soak"
    kills: bool = True


def _flags(options: Options) -> list[str]:
    """Every plugin and every service that a cluster in a box can run takes part; all cycles are recorded."""
    plugins = [{"name": plugin} for plugin in dict.fromkeys((*DEFAULT_PLUGINS, "numa"))]
    configuration = options.folder / "scheduler.yaml"
    configuration.write_text(yaml.safe_dump({"tiers": [{"plugins": plugins}]}))
    return [
        "--history",
        "--autoscaling",
        f"--flag=node-scale-adjuster:cool-down={COOL_DOWN}",
        f"--flag=insight:replay-retention={RETENTION}",
        f"--flag=scheduler:scheduler-conf={configuration}",
        '--flag=binder:plugins={"hamicore": {"enabled": true}}',
    ]


async def soak(options: Options, say: Callable[[str], None]) -> Report:
    """Run it; what was found is in the report."""
    with cluster(options, *_flags(options)) as files:
        async with KubeClient.connect(str(options.kubeconfig), user_agent="soak") as client:
            return await _Soak(options, files, client, say).run()


class _Soak:
    def __init__(
        self, options: Options, files: ClusterFiles, client: KubeClient, say: Callable[[str], None]
    ) -> None:
        self._options, self._files, self._client, self._say = options, files, client, say
        self._clock, self._journal = Clock(), Journal()
        self._watcher = Watcher(client, self._clock)
        self._meter = Meter(files, self._clock)
        self._logs = Logs(files.logs, self._clock)
        self._judge = Judge(self._journal, excerpts=self._logs.excerpts, tell=say)
        #: Recorded cycles that came out as they did, at the end.
        self._replayed = 0
        self._performer = Performer(
            client, options.kubeconfig, files, journal=self._journal, clock=self._clock
        )

    async def run(self) -> Report:
        """1. furnish  2. live and judge  3. come to rest  4. conclude."""
        actions = plan(seed=self._options.seed, seconds=self._options.minutes * 60, kills=self._options.kills)
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [tasks.create_task(self._watcher.run())]
                await self._furnish()
                await self._watcher.synced()
                self._clock.begin()
                beside.append(tasks.create_task(self._judge_on(tasks)))
                await self._performer.run(actions)
                self._performer.thaw()
                ending = self._ending()
                self._judge.note(self._clock.now, await ending.run())
                self._replayed = ending.replayed
                for task in beside:
                    task.cancel()
        finally:
            self._performer.thaw()
        return self._conclude()

    def _ending(self) -> Ending:
        return Ending(
            self._client,
            self._files,
            self._options.kubeconfig,
            self._watcher,
            self._meter,
            self._clock,
            self._say,
        )

    async def _furnish(self) -> None:
        self._say("registering nodes, and what work needs to exist")
        for manifest in site.definitions():
            await self._put(manifest)
        for manifest in (*site.furniture(), *(m for n in _nodes() for m in n.manifests)):
            await self._put(manifest)

    async def _put(self, manifest: dict) -> None:
        await self._performer.perform(Action(0.0, "furnished", Put((manifest,))))
        last = self._journal.entries[-1]
        if not last.taken:
            raise RuntimeError(f"{manifest['kind']} {manifest['metadata']['name']}: {last.outcome}")

    # --- every second --------------------------------------------------------------------------
    async def _judge_on(self, tasks: asyncio.TaskGroup) -> None:
        before, counted_at, said_at = self._watcher.frame(), 0.0, 0.0
        probes = Probes(self._performer, tasks)
        async with aiohttp.ClientSession() as session:
            while True:
                now = self._watcher.frame()
                self._meter.look()
                self._judge.look(before, now, self._meter.restarts)
                self._judge.read(before, now, self._logs.fresh())
                self._judge.listen(now, self._watcher.warned)
                probes.look(now)
                if now.at - counted_at >= COUNT_SECONDS:
                    counted_at = now.at
                    await self._count(session)
                if now.at - said_at >= SAY_SECONDS:
                    said_at = now.at
                    self._tell(now)
                before = now
                await asyncio.sleep(LOOK_SECONDS)

    async def _count(self, session: aiohttp.ClientSession) -> None:
        counters = await self._meter.count(session)
        self._judge.note(self._clock.now, processes.counters_stand_still(self._meter.counters, counters))
        self._meter.counters = counters

    def _tell(self, now: Frame) -> None:
        running = sum(pod.status.phase == "Running" for pod in now.pods.values())
        waiting = sum(not pod.spec.node_name for pod in now.pods.values())
        minutes, seconds = divmod(int(now.at), 60)
        self._say(
            f"{minutes:3}:{seconds:02}  {running} pods run, {waiting} wait, {len(now.nodes)} nodes, "
            f"{len(now.queues)} queues, {len(self._journal.entries)} deeds, "
            f"{len(self._journal.troubles)} troubles, {len(self._judge.findings)} findings, "
            f"load {Clock.load():.1f}"
        )

    # --- at the end ----------------------------------------------------------------------------
    def _conclude(self) -> Report:
        def troubled(begin: float, end: float) -> bool:
            return self._journal.troubled(begin, end, grace=GRACE_SECONDS * Clock.load())

        placed = self._watcher.placed(troubled)
        self._judge.conclude(self._clock.now, placed=placed, samples=self._meter.samples)
        return Report(
            seed=self._options.seed,
            minutes=self._options.minutes,
            commit=commit(),
            journal=self._journal,
            findings=self._judge.findings,
            placed=placed,
            samples=self._meter.samples,
            restarts=self._meter.restarts,
            conditions={
                "cores": os.cpu_count(),
                "load": os.getloadavg(),
                "kills": self._options.kills,
                "cycles decided again": self._replayed,
            },
        )


def _nodes() -> list[site.NodePlan]:
    return [site.probe_node(), *site.lasting_nodes()]


def commit() -> str:
    """Whose code runs, by its short name: what is installed may be of another checkout than this one.

    It ends with ``-dirty`` where something is changed that is not committed.
    """
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=Path(kai.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"
