import asyncio
import contextlib
import io
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from deadlines import eventually, patience, within
from kai_local.apiserver.serving.server import ApiServer

MERGE = "application/merge-patch+json"
Obj = dict[str, Any]


class Api:
    """A client of one server; each call gives the status and the decoded body."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        token: str = "",
        **headers: str,
    ) -> tuple[int, Any]:
        sent = {
            "Authorization": f"Bearer {token or self.server.admin_token}",
            "Content-Type": kind,
            **headers,
        }
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        data = io.BytesIO(raw) if body is not None else None
        async with self.session.request(method, self.server.url + path, data=data, headers=sent) as answer:
            raw = await answer.read()
            return answer.status, msgspec.json.decode(raw) if raw[:1] in b"{[" else raw.decode()

    async def get(self, path: str, **headers: str) -> Any:
        return await self._good("GET", path, **headers)

    async def post(self, path: str, body: Obj, **options: Any) -> Any:
        return await self._good("POST", path, body, **options)

    async def put(self, path: str, body: Obj) -> Any:
        return await self._good("PUT", path, body)

    async def patch(self, path: str, body: Any, kind: str = MERGE) -> Any:
        return await self._good("PATCH", path, body, kind=kind)

    async def apply(self, path: str, body: Obj, manager: str, *, force: bool = False) -> tuple[int, Any]:
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return await self.call("PATCH", path + query, body, kind="application/apply-patch+yaml")

    async def delete(self, path: str, body: Obj | None = None) -> Any:
        return await self._good("DELETE", path, body)

    async def _good(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        status, answer = await self.call(method, path, body, **options)
        assert status < 300, answer
        return answer

    async def gone(self, path: str) -> None:
        """Wait until nothing is at the path."""
        await eventually(
            lambda: self.call("GET", path), lambda answer: answer[0] == 404, what=f"{path} is gone"
        )

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator["Events"]:
        separator = "&" if "?" in path else "?"
        sent = {"Authorization": f"Bearer {self.server.admin_token}", **headers}
        async with self.session.get(f"{self.server.url}{path}{separator}watch=true", headers=sent) as answer:
            yield Events(answer)


class Events:
    """The events of one watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self._answer = answer

    async def next(self) -> Obj:
        async with within("an event comes"):
            line = await self._answer.content.readline()
        if not line:
            raise EOFError
        return msgspec.json.decode(line)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Starts servers with options of the test's choice."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(**options: Any) -> Api:
            server = await stack.enter_async_context(ApiServer(**options))
            connector = aiohttp.TCPConnector(ssl=server.client_context())
            session = await stack.enter_async_context(
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=patience()))
            )
            return Api(server, session)

        yield begin


@pytest.fixture
async def api(start: Callable[..., Any]) -> Api:
    return await start()


class Kubectl:
    """The real kubectl against one server."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder

    async def __call__(self, *arguments: str, given: str = "") -> tuple[int, str]:
        """Exit status, and what it printed to both streams."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._folder / "config"),
        }
        process = await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
        async with within(f"kubectl {' '.join(arguments)} ends", times=2):
            output, _ = await process.communicate(given.encode())
        return process.returncode or 0, output.decode()


@pytest.fixture
async def kubectl(api: Api, tmp_path: Path) -> Kubectl:
    binary = shutil.which("kubectl")
    if binary is None:
        pytest.skip("no kubectl on the PATH")
    api.server.write_kubeconfig(tmp_path / "config")
    return Kubectl(binary, tmp_path)
