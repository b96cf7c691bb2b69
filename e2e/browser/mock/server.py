"""The made-up world behind the paths that the page asks, and the page itself."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from deadlines import eventually
from e2e.browser.mock import examples, stories, worlds
from e2e.browser.mock.worlds import QUEUES, World

PAGE: Final = Path(__file__).resolve().parents[3] / "services" / "kai_insight" / "page"
#: Of each state of a node.
_WHY: Final = (
    "",
    "kubectl cordon",
    "its kubelet has not told anything for 5 minutes",
    "2 pods failed to bind here; nothing is placed on it for 40 s",
)
POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_COMMENT_SECONDS: Final = 5.0
_PAST_SECONDS: Final = 6 * 3600.0


@dataclass
class Mock:
    """A server of one world. What is set on it holds for the next question."""

    world: World
    #: Seconds between two changes of the world; 0: nothing happens.
    churn: float = 0.0
    #: Without it nothing is answered; empty: everybody is.
    token: str = ""
    #: Path below api/v1 -> status and message that it answers instead.
    broken: dict[str, tuple[int, str]] = field(default_factory=dict)
    sees: dict[str, bool] = field(
        default_factory=lambda: {"nodes": True, "queues": True, "allNamespaces": True}
    )
    #: They are all alike.
    shards: tuple[str, ...] = ("default",)
    history: bool = True
    source: str = "kubeconfig"
    reason: str = ""
    late: bool = False
    #: Why nothing is explained.
    unanswered: str = ""
    #: Why the picture is old.
    old: str = ""
    hidden: int = 0
    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    #: Path below api/v1 -> shards that were named there; an empty text where none was.
    named: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    version: int = 1
    _changed: dict[int, None] = field(default_factory=dict)
    _listeners: list[asyncio.Queue[dict[str, Any] | None]] = field(default_factory=list)
    _began: float = field(default_factory=time.time)

    @contextlib.asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[Mock]:
        """While the block runs, at ``url``."""
        app = web.Application(client_max_size=2**20)
        app.router.add_route("*", "/api/v1/{path:.*}", self._answer)
        app.router.add_get("/{name:.*}", self._file)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/"
        life = asyncio.create_task(self._live())
        try:
            yield self
        finally:
            life.cancel()
            self.hang_up()
            await runner.cleanup()

    async def followed(self) -> None:
        """Wait until somebody listens to what changes."""
        await eventually(lambda: self._listeners, what="the page follows what changes")

    def hang_up(self) -> None:
        """End all streams of changes."""
        for each in self._listeners:
            each.put_nowait(None)

    # --- the page ----------------------------------------------------------------------------------
    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = PAGE / (request.match_info["name"] or "index.html")
        if path.parent != PAGE or not path.is_file():
            raise web.HTTPNotFound
        kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
        headers = {
            "Content-Security-Policy": POLICY,
            "Content-Type": f"{kinds.get(path.suffix, 'text/plain')}; charset=utf-8",
        }
        return web.Response(body=path.read_bytes(), headers=headers)

    # --- questions ---------------------------------------------------------------------------------
    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.asked[path] += 1
        self.named[path].add(request.query.get("shard", ""))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _problem(401, "the API server does not know this token")
        if path in self.broken:
            return _problem(*self.broken[path])
        if path == "live/changes":
            return await self._changes(request)
        answers: dict[str, Callable[[Any], Any]] = {
            "live": self._live_answer,
            "live/cluster": self._cluster,
            "live/groups": self._groups,
            "live/search": self._search,
            "live/node": self._node,
            "live/slots": self._slots,
            "live/waiting": self._waiting,
            "live/workload": self._workload,
            "live/forecast": self._forecast,
            "live/what-if": self._what_if,
            "live/health": self._health,
        }
        if path in answers:
            try:
                return _said(answers[path](request.query))
            except KeyError as missing:
                return _problem(404, f"there is no {missing.args[0]}")
        if path in ("decisions", "evictions", "cycles", "queue-states", "runs"):
            return _said(self._past(path, request.query))
        return _problem(404, "there is nothing at this path")

    def _live_answer(self, asked: Any) -> Any:
        world = self.world
        shard = {
            "version": "" if self.reason else f"7/{self.version}",
            "at": time.time(),
            "nodes": len(world.nodes),
            "gpus": len(world.slots),
            "gpusUsed": world.used,
            "pods": len(world.groups),
            "waiting": len(world.waiting),
            "reason": self.reason or self.old,
        }
        return {
            "release": "0.1.0",
            "source": self.source,
            "user": "amara",
            "history": self.history,
            "sees": self.sees,
            "shards": [{"name": name, **shard} for name in self.shards],
        }

    def _cluster(self, asked: Any) -> Any:
        world = self.world
        return {
            "shard": asked["shard"],
            "version": f"7/{self.version}",
            "numbering": world.numbering,
            "at": time.time(),
            "models": ["NVIDIA-H100-80GB-HBM3"],
            "domains": world.domains,
            "nodes": {
                "name": world.nodes,
                "domain": world.domain,
                "model": [0] * len(world.nodes),
                "gpus": world.gpus,
                "state": world.state,
            },
            "slots": world.slots,
            "shared": world.shared,
            "groups": {
                "queue": [each.queue for each in world.groups],
                "state": [each.state for each in world.groups],
                "key": [each.key for each in world.groups],
            },
            "queues": worlds.queues_of(world),
            "waiting": self._waits(),
            "hidden": self._hides(),
        }

    def _hides(self) -> Any:
        return {"groups": self.hidden, "namespaces": 1 if self.hidden else 0}

    def _waits(self) -> Any:
        return {"groups": len(self.world.waiting), "gpus": sum(row["gpus"] for row in self.world.waiting)}

    def _groups(self, asked: Any) -> Any:
        keys = {int(each) for each in asked["keys"].split(",")}
        named = [each.said for each in self.world.groups if each.key in keys]
        return {"numbering": self.world.numbering, "items": named, "hidden": 0}

    def _search(self, asked: Any) -> Any:
        text, world = asked["text"].lower(), self.world
        nodes = [
            {"kind": "node", "namespace": "", "name": name, "node": at, "key": None}
            for at, name in enumerate(world.nodes)
        ]
        queues = [
            {"kind": "queue", "namespace": "", "name": each[0], "node": None, "key": None} for each in QUEUES
        ]
        groups = [
            {"kind": "group", "namespace": each.namespace, "name": each.name, "node": None, "key": each.key}
            for each in world.groups
        ]
        waits = [
            {"kind": "group", "namespace": row["namespace"], "name": row["name"], "node": None, "key": None}
            for row in world.waiting
        ]
        found = [each for each in (*queues, *waits, *nodes, *groups) if text in str(each["name"]).lower()]
        limit = int(asked.get("limit", 20))
        return {"items": found[:limit], "more": len(found) > limit}

    def _node(self, asked: Any) -> Any:
        world = self.world
        node = world.nodes.index(asked["name"]) if asked["name"] in world.nodes else -1
        if node < 0:
            raise KeyError(f"node {asked['name']}")
        pods: dict[int, dict[str, Any]] = {}
        for device, slot in enumerate(world.of_node(node)):
            for group, part in slot if isinstance(slot, list) else [[slot, 100]] if slot >= 0 else []:
                held = world.groups[group]
                pod = pods.setdefault(
                    group,
                    {
                        "namespace": held.namespace,
                        "name": f"{held.name.removeprefix('pg-')}-0",
                        "podGroup": held.name,
                        "queue": QUEUES[held.queue][0],
                        "gpus": 0,
                        "devices": [],
                        "portion": None if part == 100 else part / 100,
                        "state": "Running",
                        "since": self._began - 900 - 60 * group % 7000,
                        "preemptible": group % 4 > 0,
                    },
                )
                pod["gpus"] += part / 100
                pod["devices"].append(device)
        used = sum(pod["gpus"] for pod in pods.values())
        state = world.state[node]
        where = world.domain[node]
        rack, zone = world.domains["name"][where], world.domains["name"][world.domains["parent"][where]]
        return {
            "name": world.nodes[node],
            "state": state,
            "why": _WHY[state],
            "domain": [zone, rack],
            "model": "NVIDIA-H100-80GB-HBM3",
            "gpus": world.gpus[node],
            "gpusUsed": used,
            "taints": ["node.kubernetes.io/unschedulable=:NoSchedule"] if state == 1 else [],
            "cpu": {"offered": 192_000, "allocated": used * 14_000},
            "memory": {"offered": 2 * 2**40, "allocated": used * 180 * 2**30},
            "hidden": 2 if self.hidden else 0,
            "pods": list(pods.values()),
        }  # fmt: skip

    def _slots(self, asked: Any) -> Any:
        world, shapes = self.world, [1, 2, 4, 8]
        free = []
        place = 0
        for node, gpus in enumerate(world.gpus):
            slots = world.slots[place : place + gpus]
            place += gpus
            free.append(0 if world.state[node] else sum(slot == worlds.FREE for slot in slots))
        rooms = [[sum(each // shape for each in free) for shape in shapes]]
        domains: dict[int, list[int]] = {}
        for node, domain in enumerate(world.domain):
            sums = domains.setdefault(domain, [0] * len(shapes))
            for at, shape in enumerate(shapes):
                sums[at] += free[node] // shape
        told = [{"index": domain, "slots": slots} for domain, slots in domains.items()]
        return {"shapes": shapes, "all": rooms[0], "domains": told}

    def _waiting(self, asked: Any) -> Any:
        rows = self.world.waiting
        for name in ("namespace", "queue"):
            if asked.get(name):
                rows = [row for row in rows if row[name] == asked[name]]
        if text := asked.get("text", "").lower():
            rows = [row for row in rows if text in json.dumps(row).lower()]
        verdicts = Counter(row["verdict"] for row in rows if asked.get("code", row["code"]) == row["code"])
        codes = Counter(row["code"] for row in rows if asked.get("verdict", row["verdict"]) == row["verdict"])
        for name in ("verdict", "code"):
            if asked.get(name):
                rows = [row for row in rows if row[name] == asked[name]]
        orders: dict[str, Callable[[Any], Any]] = {
            "gpus": lambda row: -row["gpus"],
            "name": lambda row: row["workload"],
            "position": lambda row: row["position"]["ahead"],
        }
        if asked.get("sort") in orders:
            rows = sorted(rows, key=orders[asked["sort"]])
        limit = int(asked.get("limit", 200))
        return {
            "items": rows[:limit],
            "more": len(rows) > limit,
            "hidden": self.hidden,
            "total": len(rows),
            "verdicts": verdicts,
            "codes": codes,
        }

    def _row(self, asked: Any) -> tuple[dict[str, Any], bool]:
        key = asked["namespace"], asked["name"]
        for row in self.world.waiting:
            if (row["namespace"], row["name"]) == key:
                return row, False
        for group in self.world.groups:
            if (group.namespace, group.name) == key:
                return _running_row(group, self._began), True
        raise KeyError(f"pod group {key[0]}/{key[1]}")

    def _workload(self, asked: Any) -> Any:
        row, runs = self._row(asked)
        nodes = self.world.nodes[: row["pods"]] if runs else self.world.nodes[: row["running"]]
        each = row["gpus"] / max(1, row["pods"])
        pods = stories.pods_of(row["name"], row["pods"], nodes=nodes, gpus=each, since=row["created"])
        answer = None if self.unanswered else stories.answer(row, running=runs)
        return {
            "answer": answer,
            "reason": self.unanswered,
            "group": row,
            "pods": pods,
            "more": False,
        }

    def _forecast(self, asked: Any) -> Any:
        self._row(asked)
        told = {"p50": 420.0, "p90": 3900.0, "horizon": 604800.0, "reason": None,
                "basis": {"courses": 40, "runs": 812, "coverage": None}}  # fmt: skip
        return {"forecast": told, "reason": ""}

    def _what_if(self, asked: Any) -> Any:
        return examples.imagined(asked)

    def _health(self, asked: Any) -> Any:
        return examples.health(f"7/{self.version}", late=self.late)

    def _past(self, path: str, asked: Any) -> Any:
        now = time.time()
        if asked.get("podGroup"):
            rows = self._life(path, asked, now)
        else:
            rows = stories.past(self.world, now=self._began, seconds=_PAST_SECONDS)[path]
        since, until = float(asked.get("since", now - 86_400)), float(asked.get("until", now))
        names = ("namespace", "podGroup", "queue")
        rows = [
            row
            for row in rows
            if since <= row.get("at", until) <= until
            and all(row.get(name, asked[name]) == asked[name] for name in names if asked.get(name))
        ]
        limit = int(asked.get("limit", 1000))
        return {"items": rows[:limit], "more": len(rows) > limit, "hidden": self.hidden}

    def _life(self, path: str, asked: Any, now: float) -> list[dict[str, Any]]:
        """What there is to tell of one workload."""
        row, _ = self._row({"namespace": asked["namespace"], "name": asked["podGroup"]})
        return examples.life(row, nodes=self.world.nodes, now=now)[path]

    # --- changes ---------------------------------------------------------------------------------
    async def _changes(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            await response.write(b": hello\n\n")
            while True:
                try:
                    change = await asyncio.wait_for(queue.get(), _COMMENT_SECONDS)  # noqa: TID251
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                if change is None:
                    return response
                event = "anew" if not change else "change"
                await response.write(f"event: {event}\ndata: {json.dumps(change)}\n\n".encode())
        except ConnectionError:
            return response
        finally:
            self._listeners.remove(queue)

    def change(self, nodes: list[int], groups: list[int]) -> None:
        """Tell everybody who listens that these are otherwise now."""
        self.version += 1
        others = [(at, self.world.groups[at]) for at in groups]
        told = {
            "version": f"7/{self.version}",
            "at": time.time(),
            "nodes": [[node, self.world.state[node], self.world.of_node(node)] for node in nodes],
            "groups": [[at, each.queue, each.state, each.key] for at, each in others],
            "queues": worlds.queues_of(self.world),
            "waiting": self._waits(),
            "hidden": self._hides(),
        }  # fmt: skip
        for each in self._listeners:
            each.put_nowait(told)

    def anew(self) -> None:
        """Tell everybody to ask for everything again."""
        self.version += 1
        for each in self._listeners:
            each.put_nowait({})

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(self.churn or 3600)
            if self.churn:
                self.happen()

    def happen(self) -> None:
        """Something ends and something starts on a few nodes."""
        world = self.world
        chosen = world.random.sample(range(len(world.nodes)), min(6, len(world.nodes)))
        started = []
        for node in chosen:
            first = world.offset(node)
            gone = world.slots[first]
            at = range(first, first + world.gpus[node])
            for slot in at:
                if gone >= 0 and world.slots[slot] == gone:
                    world.slots[slot] = worlds.FREE
            # Ends leave room that starts of the next turn take, so a full world stays full.
            if gone == worlds.FREE or world.random.random() < 0.8:
                size = world.random.choice((4, 8))
                group = worlds.new_group(world, world.random.choice((1, 2, 3, 6, 7)), size)
                started.append(group)
                for slot in list(at)[:size]:
                    if world.slots[slot] == worlds.FREE:
                        world.slots[slot] = group
        self.change(chosen, started)


def _running_row(group: worlds.Group, now: float) -> dict[str, Any]:
    pods = max(1, int(group.gpus) // 8)
    return {
        "namespace": group.namespace,
        "name": group.name,
        "workload": group.workload,
        "user": group.user,
        "queue": QUEUES[group.queue][0],
        "created": now - 5000,
        "waitingSince": 0,
        "pods": pods,
        "running": pods,
        "minMember": pods,
        "gpus": group.gpus,
        "cpuMillis": int(group.gpus * 12_000),
        "memoryBytes": int(group.gpus * 120 * 2**30),
        "priority": 50,
        "preemptible": True,
        "verdict": "RUNS",
        "code": "",
        "text": "",
        "position": None,
    }


def _said(answer: Any) -> web.Response:
    body = gzip.compress(json.dumps(answer).encode(), 5)
    return web.Response(body=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})


def _problem(status: int, message: str) -> web.Response:
    headers = {"Retry-After": "1"} if status == 503 else {}
    return web.json_response({"error": {"code": "mock", "message": message}}, status=status, headers=headers)
