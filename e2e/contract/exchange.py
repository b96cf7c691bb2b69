"""Sending a request, and writing down its answer without what differs from run to run."""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

Json = Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"\d+[smhd](\d+[smhd])?( ago)?|<unknown>")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_SUFFIX = re.compile(r"(generated-)[a-z0-9]{5}\b")
#: Fields whose value only one server can know.
_VOLATILE = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "continue": "<token>",
    "remainingItemCount": "<count>",
    "managedFields": None,
    "selfLink": None,
}


@dataclass(slots=True)
class Answer:
    """An answer: its HTTP status, what it says (comparable), and the body as it came."""

    status: int
    says: Json
    body: Json = None
    warnings: list[str] = field(default_factory=list)

    def as_json(self) -> Json:
        """What is compared and kept."""
        said = {"status": self.status, "body": self.says}
        return said | ({"warnings": self.warnings} if self.warnings else {})


class Server:
    """One API server, and all that it answered, by the name of the question."""

    def __init__(self, kubeconfig: Path) -> None:
        self.answers: dict[str, Json] = {}
        self._kubeconfig = kubeconfig
        self._session: aiohttp.ClientSession | None = None
        self._url = ""

    async def __aenter__(self) -> Self:
        config = yaml.safe_load(self._kubeconfig.read_text())
        self._url = config["clusters"][0]["cluster"]["server"]
        context = _tls(config, self._kubeconfig.parent)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        headers: dict[str, str] | None = None,
        keep: bool = True,
    ) -> Answer:
        """Send one request and keep the answer under ``name`` (unless it is only a preparation)."""
        assert self._session is not None
        content = body if isinstance(body, str) or body is None else json.dumps(body)
        sent = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        async with self._session.request(
            method, self._url + path, data=content, headers=sent | (headers or {})
        ) as response:
            text = await response.text()
            found = json.loads(text) if response.content_type == JSON and text else text
            warnings = response.headers.getall("Warning", [])
        answer = Answer(response.status, comparable(found), found, warnings)
        if keep:
            assert name not in self.answers, f"two questions are called {name!r}"
            self.answers[name] = answer.as_json()
        return answer

    async def watch(self, name: str, path: str, *, events: int) -> list[Json]:
        """Keep the first ``events`` events of a watch; fewer if the server ends it before."""
        assert self._session is not None
        seen: list[Json] = []
        async with self._session.get(self._url + path, headers={"Accept": JSON}) as response:
            if response.status != 200:
                found = json.loads(await response.text())
                self.answers[name] = Answer(response.status, comparable(found)).as_json()
                return seen
            while len(seen) < events and (line := await response.content.readline()):
                seen.append(json.loads(line))
        self.answers[name] = {"status": 200, "events": [_event(one) for one in seen]}
        return seen

    def note(self, name: str, value: Json) -> None:
        """Keep something that was worked out from answers."""
        self.answers[name] = comparable(value)


def comparable(value: Json, key: str = "") -> Json:
    """The value without what differs from run to run; its shape stays."""
    if isinstance(value, dict):
        if value.get("kind") == "Table":
            return _table(value)
        kept = {}
        for name, inner in value.items():
            if name in _VOLATILE and (not isinstance(inner, dict)):
                if _VOLATILE[name] is not None and inner != "":
                    kept[name] = _VOLATILE[name]
            else:
                kept[name] = comparable(inner, name)
        return kept
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if isinstance(value, str):
        return _text(value)
    return value


def _text(text: str) -> str:
    text = _ADDRESS.sub("<address>", _UID.sub("<uid>", _TIME.sub("<time>", text)))
    return _SUFFIX.sub(r"\1<random>", text)


def _table(table: Json) -> Json:
    """Columns and cells; of the objects only their names."""
    rows = []
    for row in table.get("rows") or []:
        cells = ["<age>" if isinstance(c, str) and _AGE.fullmatch(c) else comparable(c) for c in row["cells"]]
        described = row.get("object") or {}
        rows.append({"cells": cells, "kind": described.get("kind"), "name": _name(described)})
    columns = [
        {key: column[key] for key in ("name", "type", "format", "priority")}
        for column in table.get("columnDefinitions") or []
    ]
    return {"kind": "Table", "columns": columns, "rows": rows}


def _event(event: Json) -> Json:
    """Type and object; of a bookmark what counts: the kind, and whether it ends the initial events."""
    described = event["object"]
    if event["type"] == "BOOKMARK":
        meta = {key: value for key, value in described["metadata"].items() if key == "annotations"}
        return {"type": "BOOKMARK", "kind": described.get("kind"), "metadata": meta}
    if event["type"] == "ERROR":
        return {"type": "ERROR", "object": comparable(described)}
    return {"type": event["type"], "kind": described.get("kind"), "name": _name(described)}


def _name(described: Json) -> str:
    return _text((described.get("metadata") or {}).get("name", ""))


def _tls(config: Json, folder: Path) -> ssl.SSLContext:
    import base64

    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    certificate, key = folder / "contract.crt", folder / "contract.key"
    for path, data in ((certificate, user["client-certificate-data"]), (key, user["client-key-data"])):
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(data))
    context.load_cert_chain(certificate, key)
    return context
