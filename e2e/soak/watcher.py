"""What a cluster shows of itself: API objects by watches, processes by /proc, metrics, logs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from e2e.metrics import scrape
from e2e.soak import site
from e2e.soak.frame import Frame, LogLine, ProcessSample, group_key
from e2e.soak.journal import Clock
from e2e.soak.rules.latency import Placed
from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector, Removed, Upserted
from kai.model.objects import ApiObject, Node, PodGroup, Queue
from kai_local.box.state import ClusterFiles, ClusterRecord
from kai_local.kubelet.nodes import HOSTNAME_LABEL
from kai_local.parts.objects import LocalPod

#: Counters of what must never happen.
COUNTERS = (
    "kai_cycle_failures_total",
    "kai_state_corrections",
    "kai_set_aside_total",
    "kai_cut_off_total",
    "kai_replay_differences_total",
)
_LINE = re.compile(r"^(?P<at>\d{4}-\d\d-\d\d[T ][\d:.]+Z?) \[(?P<level>\w+)\s*\] (?P<text>.*)$")
_RELATED_BYTES = 8000


class Mirror:
    """The objects of one kind by key. ``listener`` is told of each change: old and new."""

    def __init__(self, listener: Callable[[Any, Any], None] = lambda old, new: None) -> None:
        self.objects: dict[str, Any] = {}
        self._listener = listener

    def __call__(self, change: Any) -> None:
        if isinstance(change, Upserted):
            key = _key(change.obj)
            old, self.objects[key] = self.objects.get(key), change.obj
            self._listener(old, change.obj)
        elif isinstance(change, Removed):
            self._listener(self.objects.pop(change.obj_key, None), None)


def _key(obj: Any) -> str:
    if isinstance(obj, ApiObject):
        return obj.key
    namespace = obj["metadata"].get("namespace")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else str(obj["metadata"]["name"])


@dataclass(slots=True)
class _Life:
    """When a pod was seen first, and bound."""

    key: str
    created_at: float
    bound_at: float | None = None


class Watcher:
    """Follows the API objects while :meth:`run` runs."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._clock = clock
        self._lives: dict[str, _Life] = {}
        self._thinned: set[str] = set()
        self._changed: dict[str, float] = {}
        #: Objects (``Kind namespace/name``) about which there was a warning, with its reason.
        self.warned: dict[str, set[str]] = {}
        self.pods = Mirror(self._pod_changed)
        self._closed: dict[str, float] = {}
        self._moved: set[str] = set()
        self.claims = Mirror()
        self.nodes = Mirror(self._node_changed)
        self.groups = Mirror(self._group_changed)
        self.queues = Mirror(self._queue_changed)
        self.events = Mirror(self._event_came)
        self._reflectors: list[tuple[Reflector[Any], Mirror]] = [
            (Reflector(client, resources.PODS, LocalPod), self.pods),
            (Reflector(client, resources.NODES, Node), self.nodes),
            (Reflector(client, resources.QUEUES, Queue), self.queues),
            (Reflector(client, resources.POD_GROUPS, PodGroup), self.groups),
            (Reflector(client, resources.RESOURCE_CLAIMS, dict), self.claims),
            (Reflector(client, resources.EVENTS, dict), self.events),
        ]

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector, mirror in self._reflectors:
                tasks.create_task(reflector.run(mirror))

    async def synced(self) -> None:
        """Return when everything that exists is known."""
        for reflector, _ in self._reflectors:
            await reflector.synced.wait()

    def frame(self) -> Frame:
        """As it is now."""
        return Frame(
            at=self._clock.now,
            pods=dict(self.pods.objects),
            nodes=dict(self.nodes.objects),
            queues=dict(self.queues.objects),
            groups=dict(self.groups.objects),
            claims=dict(self.claims.objects),
            thinned=frozenset(self._thinned),
            changed=dict(self._changed),
            closed=dict(self._closed),
            moved=frozenset(self._moved),
            levels=(site.ZONE, site.RACK, HOSTNAME_LABEL),
            zones=site.zones(),
        )

    def placed(self, troubled: Callable[[float, float], bool]) -> list[Placed]:
        """How long every pod took that was bound."""
        return [
            Placed(
                pod=life.key,
                created_at=life.created_at,
                bound_at=life.bound_at,
                probe=life.key.startswith(f"{site.PROBE_NAMESPACE}/"),
                troubled=troubled(life.created_at, life.bound_at),
            )
            for life in self._lives.values()
            if life.bound_at is not None
        ]

    def waiting_probes(self) -> list[tuple[str, float]]:
        """Probes that exist and are not bound: key, and since when."""
        return [
            (life.key, life.created_at)
            for uid, life in self._lives.items()
            if life.bound_at is None
            and life.key.startswith(f"{site.PROBE_NAMESPACE}/")
            and (pod := self.pods.objects.get(life.key)) is not None
            and pod.metadata.uid == uid
        ]

    def _pod_changed(self, old: LocalPod | None, new: LocalPod | None) -> None:
        now = self._clock.now
        if new is not None:
            life = self._lives.setdefault(new.metadata.uid, _Life(new.key, now))
            if new.spec.node_name and life.bound_at is None:
                life.bound_at = now
        ended = old is not None and (
            new is None or new.metadata.uid != old.metadata.uid or new.terminating or new.terminal
        )
        if ended and old is not None and old.spec.node_name:
            group = self.groups.objects.get(group_key(old))
            if group is not None:
                self._thinned.add(group.metadata.uid)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        name = new.metadata.name
        if old is not None and any(old.labels.get(key) != new.labels.get(key) for key in site.PLACES):
            self._moved.add(name)
        if not new.spec.unschedulable:
            self._closed.pop(name, None)
        else:
            self._closed.setdefault(name, self._clock.now)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Who needs more than before is as little whole as who has lost somebody."""
        if old is not None and new is not None and old.metadata.generation != new.metadata.generation:
            self._thinned.add(new.metadata.uid)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            known = new or old
            assert known is not None
            self._changed[known.metadata.name] = self._clock.now

    def _event_came(self, old: Any, new: Any) -> None:
        if new is None or new.get("type") != "Warning":
            return
        about = new.get("regarding") or {}
        namespace = about.get("namespace")
        key = f"{namespace}/{about.get('name')}" if namespace else str(about.get("name"))
        self.warned.setdefault(f"{about.get('kind')} {key}", set()).add(str(new.get("reason")))


# --- processes ---------------------------------------------------------------------------------
class Meter:
    """Size of the processes of a cluster, and their counters."""

    def __init__(self, files: ClusterFiles, clock: Clock) -> None:
        self.samples: list[ProcessSample] = []
        self.restarts: dict[str, int] = {}
        self.counters: dict[tuple[str, str], float] = {}
        self._files = files
        self._clock = clock

    def look(self) -> None:
        """Take a sample of each process."""
        record = self._record()
        if record is None:
            return
        self.restarts = {one.name: one.restarts for one in record.processes}
        for process in (record.supervisor, *record.processes):
            if not process.pid:
                continue
            try:
                running = psutil.Process(process.pid)
                with running.oneshot():
                    memory, descriptors = running.memory_info().rss, running.num_fds()
            except psutil.Error:
                continue
            self.samples.append(
                ProcessSample(self._clock.now, process.name, process.pid, memory / 2**20, descriptors)
            )

    async def count(self, session: aiohttp.ClientSession) -> dict[tuple[str, str], float]:
        """The counters of what must not happen, by process and metric."""
        record = self._record()
        served = [one for one in record.processes if one.address.startswith("http://")] if record else []
        found: dict[tuple[str, str], float] = {}
        for process, families in zip(
            served, await asyncio.gather(*(scrape(session, one.address) for one in served)), strict=True
        ):
            for family in families:
                for sample in family.samples:
                    if sample.name in COUNTERS:
                        key = (process.name, sample.name)
                        found[key] = found.get(key, 0.0) + sample.value
        return found

    def ready(self) -> bool:
        """Whether all processes serve."""
        record = self._record()
        return record is not None and all(one.state == "ready" for one in record.processes)

    def _record(self) -> ClusterRecord | None:
        return self._files.read()


# --- logs --------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Tail:
    path: Path
    offset: int = 0
    rest: str = ""
    open_line: LogLine | None = None


class Logs:
    """The logs of a cluster's processes, read on from where they were read last."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._tails: dict[str, _Tail] = {}

    def fresh(self) -> list[LogLine]:
        """What was logged since the last time. The last event of each log waits for what may follow it."""
        for path in sorted(self._folder.glob("*.log")):
            self._tails.setdefault(path.stem, _Tail(path))
        return [line for name, tail in self._tails.items() for line in self._read(name, tail)]

    def _read(self, process: str, tail: _Tail) -> list[LogLine]:
        with tail.path.open("rb") as file:
            file.seek(tail.offset)
            data = file.read()
        tail.offset += len(data)
        text = tail.rest + data.decode(errors="replace")
        *lines, tail.rest = text.split("\n")
        found: list[LogLine] = []
        for line in lines:
            if (match := _LINE.match(line)) is not None:
                if tail.open_line is not None:
                    found.append(tail.open_line)
                at = self._clock.at(_unix(match["at"]))
                tail.open_line = LogLine(at, process, match["level"], match["text"])
            else:
                opened = tail.open_line or LogLine(self._clock.now, process, "", "")
                if len(opened.text) < _RELATED_BYTES:
                    opened = LogLine(opened.at, process, opened.level, f"{opened.text}\n{line}")
                tail.open_line = opened
        if tail.open_line is not None and not lines:  # nothing more has come
            found.append(tail.open_line)
            tail.open_line = None
        return found

    def excerpts(self, word: str, *, last: int = 12) -> list[str]:
        """The last lines of all logs that contain a word, in order of time."""
        found: list[str] = []
        for path in self._folder.glob("*.log"):
            lines = path.read_text(errors="replace").splitlines()
            found += [f"{line[:300]}  <{path.stem}>" for line in lines if word in line][-last:]
        return sorted(found)[-last:]


def _unix(text: str) -> float:
    return datetime.fromisoformat(text.replace(" ", "T").replace("Z", "") + "+00:00").timestamp()
