"""Logs of the chart's pods, as kubectl asks this machine for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from deadlines import within
from kai_local.machine.kubelet import serve_kubelet
from kai_local.machine.network import serve_proxy
from kai_local.processes.ports import LOOPBACK, free_ports
from kai_local.processes.programs import Child, Program, Run

pytestmark = pytest.mark.integration
LINES = b"one\ntwo\nthree\n"


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[str]:
    """Where the API server finds the way to a machine on which one pod runs, and goes on to."""
    child = Child(Program("pod", ()), tmp_path / "pod.log")
    child.log.write_bytes(LINES)
    child.run = Run(0.0, (0, None))
    socket, [port] = tmp_path / "kubelet.sock", free_ports(1)
    async with (
        serve_kubelet(socket, tmp_path / "certificates", {"ns/pod": child}.get),
        serve_proxy(f"{LOOPBACK}:{port}", lambda host, port: str(socket)),
    ):
        yield f"http://{LOOPBACK}:{port}"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", LINES),
        ("tailLines=1", b"three\n"),
        ("tailLines=0", b""),
        ("limitBytes=5", b"one\nt"),
        ("tailLines=2&limitBytes=5", b"two\nt"),
        ("follow=true&limitBytes=5", b"one\nt"),
    ],
)
async def test_as_much_comes_as_was_asked_for(proxy: str, query: str, text: bytes) -> None:
    url = f"https://this-machine:10250/containerLogs/ns/pod/c?{query}"
    async with (
        within("the answer has an end"),
        aiohttp.ClientSession() as session,
        session.get(url, proxy=proxy, ssl=False) as answer,
    ):
        assert await answer.read() == text
