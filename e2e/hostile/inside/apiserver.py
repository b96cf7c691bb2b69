"""An API server without network, schemas and webhooks: what is asked comes back after a moment, and is told.

Answers and watches each take a time of their own, so that a watch may tell of the end of an object before who
changed it has his answer. Watches end after a while, and what is watched has to be read anew.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self

import msgspec

from kai.kube import resources
from kai.kube.resources import Resource
from kai.model.merge_patch import merged

Json = dict[str, Any]
_SERVED: Final = {each.plural: each for each in vars(resources).values() if isinstance(each, Resource)}
#: Seconds that an answer, and news of a watch, may take on their way; now and then the latter.
_LATENESS, _LONG_LATENESS, _SELDOM = 0.05, 1.0, 0.1
#: Events that a watch tells together.
_AT_ONCE: Final = 8
_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}
_STRATEGIC: Final = "application/strategic-merge-patch+json"


class _Refused(Exception):
    """An answer with this status."""

    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.status, self.reason = status, reason


@dataclass(slots=True)
class _Answer:
    """As a client of HTTP sees it."""

    status: int
    body: bytes
    content: _News | None = None
    headers: dict[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.body

    def close(self) -> None:
        if self.content is not None:
            self.content.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _News:
    """What one watch tells, in order."""

    def __init__(self, wants: Callable[[Json], bool], seconds: float, late: Callable[[], float]) -> None:
        self.closed = False
        self._wants, self._late = wants, late
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds
        self._due = 0.0
        self._lines: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    def tell(self, body: Json, line: bytes) -> None:
        if self._wants(body):
            self._due = max(self._due, self._loop.time() + self._late())
            self._lines.put_nowait((self._due, line))

    async def readany(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._end):
                due, line = await self._lines.get()
        except TimeoutError:
            return b""
        await asyncio.sleep(max(0.0, due - self._loop.time()))
        found = [line]
        while not self._lines.empty() and len(found) < _AT_ONCE:
            due, line = self._lines.get_nowait()
            found.append(line)
        await asyncio.sleep(max(0.0, due - self._loop.time()))
        return b"".join(found)

    def close(self) -> None:
        self.closed = True


class MemoryApiServer:
    """Stands in for the transport of a client."""

    server, namespace, generation = "https://memory", "default", 0

    def __init__(self, rng: random.Random) -> None:
        self.objects: dict[str, dict[str, Json]] = defaultdict(dict)
        self._rng = rng
        self._versions = itertools.count(1)
        self._watches: dict[str, list[_News]] = defaultdict(list)
        self._owned: dict[str, set[tuple[str, str]]] = defaultdict(set)

    # --- as a transport ------------------------------------------------------------------------
    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is to be closed."""

    async def reload(self, generation: int) -> bool:
        """There are no credentials."""
        return False

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None,
        data: bytes | None,
        headers: dict[str, str] | None,
        limits: object = None,
    ) -> _Answer:
        """Answer one request."""
        await asyncio.sleep(self._late())
        try:
            found = self._answer(method, path, params or {}, data, headers or {})
        except _Refused as error:
            status = {"kind": "Status", "code": error.status, "reason": error.reason, "message": str(error)}
            found = _Answer(error.status, msgspec.json.encode(status))
        await asyncio.sleep(self._late())
        return found

    def _answer(
        self, method: str, path: str, params: dict[str, str], data: bytes | None, headers: dict[str, str]
    ) -> _Answer:
        parts = path.strip("/").split("/")
        if parts == ["version"]:
            return _Answer(200, b"{}")
        version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if not rest:
            return self._discovery(version)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, sub = (*rest, "", "")[:3]
        if plural not in _SERVED or _SERVED[plural].api_version != version:
            raise _Refused(404, "NotFound")
        key = f"{namespace}/{name}" if namespace else name
        body = msgspec.json.decode(data) if data else {}
        match method:
            case "GET" if name:
                return _Answer(200, msgspec.json.encode(self._one(plural, key)))
            case "GET" if "watch" in params:
                return self._watch(plural, namespace, params)
            case "GET":
                wanted = list(filter(_selected(namespace, params), self.objects[plural].values()))
                return _Answer(200, msgspec.json.encode({"items": wanted, "metadata": self._meta()}))
            case "POST" if sub == "binding":
                return _Answer(201, msgspec.json.encode(self._bind(key, body)))
            case "POST":
                return _Answer(201, msgspec.json.encode(self._create(plural, namespace, body)))
            case "PATCH":
                strategic = headers.get("Content-Type") == _STRATEGIC
                return _Answer(200, msgspec.json.encode(self._patch(plural, key, body, strategic=strategic)))
            case "PUT":
                self._check(self._one(plural, key), body)
                return _Answer(200, msgspec.json.encode(self.put(plural, body)))
            case "DELETE":
                self._check(self._one(plural, key), {"metadata": body.get("preconditions", {})})
                self.delete(plural, key)
                return _Answer(200, b"{}")
        raise _Refused(405, "MethodNotAllowed", method)

    # --- as somebody else's objects ------------------------------------------------------------
    def put(self, plural: str, body: Json) -> Json:
        """Make an object, or make it so."""
        meta = {**body["metadata"]}
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
        old = self.objects[plural].get(key)
        known = old["metadata"] if old is not None else {"uid": f"uid-{next(self._versions)}"}
        meta = {**meta, "uid": known["uid"], **self._meta()}
        res = _SERVED[plural]
        found = {**body, "apiVersion": res.api_version, "kind": res.kind, "metadata": meta}
        self.objects[plural][key] = found
        for owner in meta.get("ownerReferences") or ():
            self._owned[str(owner.get("uid"))].add((plural, key))
        self._tell(plural, "ADDED" if old is None else "MODIFIED", found)
        return found

    def change(self, plural: str, key: str, patch: Json) -> None:
        """Merge a patch into an object, if it is there."""
        if (old := self.objects[plural].get(key)) is not None:
            self.put(plural, merged(old, patch))

    def delete(self, plural: str, key: str) -> None:
        """Let an object go, if it is there; what it owns goes too. Finalizers are for others to see."""
        old = self.objects[plural].get(key)
        if old is None:
            return
        if old["metadata"].get("finalizers") and "deletionTimestamp" not in old["metadata"]:
            self.change(plural, key, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
            return
        del self.objects[plural][key]
        gone = {**old, "metadata": {**old["metadata"], **self._meta()}}
        self._tell(plural, "DELETED", gone)
        for owner in old["metadata"].get("ownerReferences") or ():
            self._owned.get(str(owner.get("uid")), set()).discard((plural, key))
        for owned in sorted(self._owned.pop(old["metadata"]["uid"], ())):
            self.delete(*owned)

    # --- requests ------------------------------------------------------------------------------
    def _late(self) -> float:
        return self._rng.uniform(0.0, _LONG_LATENESS if self._rng.random() < _SELDOM else _LATENESS)

    def _meta(self) -> dict[str, str]:
        return {"resourceVersion": str(next(self._versions))}

    def _one(self, plural: str, key: str) -> Json:
        found = self.objects[plural].get(key)
        if found is None:
            raise _Refused(404, "NotFound", f'{plural} "{key}" not found')
        return found

    def _discovery(self, version: str) -> _Answer:
        served = [
            {"name": each.plural, "kind": each.kind, "namespaced": each.namespaced}
            for each in _SERVED.values()
            if each.api_version == version
        ]
        if not served:
            raise _Refused(404, "NotFound", version)
        return _Answer(200, msgspec.json.encode({"resources": served}))

    def _create(self, plural: str, namespace: str, body: Json) -> Json:
        meta = {**body["metadata"], **({"namespace": namespace} if namespace else {})}
        key = f"{namespace}/{meta['name']}" if namespace else str(meta["name"])
        if key in self.objects[plural]:
            raise _Refused(409, "AlreadyExists", key)
        created = {**body, "metadata": meta}
        if plural == resources.EVENTS.plural:
            return created  # nobody here reads them
        return self.put(plural, created)

    def _patch(self, plural: str, key: str, patch: Json, *, strategic: bool) -> Json:
        old = self._one(plural, key)
        self._check(old, patch)
        if strategic and "conditions" in patch.get("status", {}):
            added = patch["status"]["conditions"]
            told = {each["type"] for each in added}
            kept = [
                each for each in old.get("status", {}).get("conditions") or () if each["type"] not in told
            ]
            patch = {**patch, "status": {**patch["status"], "conditions": [*kept, *added]}}
        return self.put(plural, merged(old, patch))

    def _bind(self, key: str, binding: Json) -> Json:
        pod = self._one(resources.PODS.plural, key)
        self._check(pod, binding)
        if pod.get("spec", {}).get("nodeName"):
            raise _Refused(409, "Conflict", f"{key} has a node")
        annotations = binding["metadata"].get("annotations") or {}
        placed = {"spec": {"nodeName": binding["target"]["name"]}, "status": {"phase": "Running"}}
        return self.put("pods", merged(pod, {**placed, "metadata": {"annotations": annotations}}))

    @staticmethod
    def _check(old: Json, wanted: Json) -> None:
        for part in ("uid", "resourceVersion"):
            asked = wanted.get("metadata", {}).get(part)
            if asked and asked != old["metadata"][part]:
                raise _Refused(409, "Conflict", f"{part} is another")

    def _watch(self, plural: str, namespace: str, params: dict[str, str]) -> _Answer:
        if "sendInitialEvents" not in params:
            raise _Refused(410, "Expired")
        wants = _selected(namespace, params)
        news = _News(wants, float(params["timeoutSeconds"]), self._late)
        end = {"metadata": {**self._meta(), "annotations": _INITIAL_END}}
        known = [("ADDED", body) for body in self.objects[plural].values()]
        for kind, body in (*known, ("BOOKMARK", end)):
            news.tell(body, _line(kind, body))
        self._watches[plural] = [*self._listening(plural), news]
        return _Answer(200, b"", content=news)

    def _listening(self, plural: str) -> Iterator[_News]:
        return (each for each in self._watches[plural] if not each.closed)

    def _tell(self, plural: str, kind: str, body: Json) -> None:
        line = _line(kind, body)
        for news in self._listening(plural):
            news.tell(body, line)


def _line(kind: str, body: Json) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def _selected(namespace: str, params: dict[str, str]) -> Callable[[Json], bool]:
    """Whether an object is in a list. Of selectors those are known that services use: a path, and a value."""
    fields = [each.split("=", 1) for each in filter(None, params.get("fieldSelector", "").split(","))]
    labels = [each.split("=", 1) for each in filter(None, params.get("labelSelector", "").split(","))]

    def is_in(body: Json) -> bool:
        if body.get("metadata", {}).get("annotations") == _INITIAL_END:
            return True
        if namespace and body["metadata"].get("namespace") != namespace:
            return False
        told = body["metadata"].get("labels") or {}
        return all(told.get(key) == value for key, value in labels) and all(
            _at(body, path) == value for path, value in fields
        )

    return is_in


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body or ""
