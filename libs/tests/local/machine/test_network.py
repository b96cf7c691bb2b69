"""How the API server gets to the pods of this machine: by the Services that helm has made, as they are."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kai_local.machine.network import NoRoute, serve_proxy, socket_path
from kai_local.machine.places import Places, pod_address
from kai_local.machine.routes import Backend, route

SERVICE = {
    "metadata": {"name": "admission", "namespace": "kai-scheduler"},
    "spec": {
        "clusterIP": "10.96.0.7",
        "selector": {"app": "admission"},
        "ports": [{"name": "webhook", "port": 443, "targetPort": "webhook"}],
    },
}


def a_backend(address: str, *, ready: bool = True, app: str = "admission", namespace: str = "kai-scheduler"):
    container = {"name": "c", "ports": [{"name": "webhook", "containerPort": 9443}]}
    metadata = {"name": app, "namespace": namespace, "labels": {"app": app}}
    return Backend({"metadata": metadata, "spec": {"containers": [container]}}, address, ready)


def routed(host: str, port: int, *backends: Backend) -> str:
    return route(host, port, services=[SERVICE], backends=backends, kubelet="/kubelet.sock")


@pytest.mark.parametrize("host", ["10.96.0.7", "admission.kai-scheduler.svc"])
def test_a_service_leads_to_the_named_port_of_a_ready_pod(host: str) -> None:
    backends = [
        a_backend("127.1.1.1", ready=False),
        a_backend("127.1.1.2", app="other"),
        a_backend("127.1.1.3", namespace="other"),
        a_backend("127.1.1.4"),
    ]
    assert routed(host, 443, *backends) == "127.1.1.4:9443"


def test_this_machine_has_a_kubelet_and_simulated_nodes_have_none() -> None:
    assert routed("this-machine", 10250) == "/kubelet.sock"
    with pytest.raises(NoRoute, match="the node is simulated"):
        routed("node-0", 10250)


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("10.96.0.9", 443, "no Service has the address"),
        ("10.96.0.7", 80, "has no port 80"),
        ("10.96.0.7", 443, 'no endpoints available for service "admission"'),
    ],
)
def test_where_nobody_is_the_reason_is_said(host: str, port: int, why: str) -> None:
    with pytest.raises(NoRoute, match=why):
        routed(host, port, a_backend("127.1.1.1", ready=False))


def test_who_follows_a_pod_of_its_kind_gets_its_address() -> None:
    places = Places()
    announced = places.first_address("ns", "kai-redis")
    first = places.take("ns/a", "ns", "kai-redis")
    second = places.take("ns/b", "ns", "kai-redis")
    assert first == announced != second
    places.give_back("ns/a")
    assert places.take("ns/c", "ns", "kai-redis") == first


def test_a_pod_keeps_its_address_whoever_runs_it() -> None:
    assert pod_address("uid-1") == pod_address("uid-1") != pod_address("uid-2")
    assert pod_address("uid-1").startswith("10.245.")


def test_addresses_of_those_that_are_gone_are_given_out_again() -> None:
    places = Places()
    for number in range(1000):
        place = places.take(f"pod-{number}", "ns", f"app-{number}")
        assert place.startswith(f"{places.network}.")
        places.give_back(f"pod-{number}")
    assert 1 <= int(place.rpartition(".")[2]) <= 254


def test_a_socket_has_a_path_that_the_kernel_takes(tmp_path: Path) -> None:
    assert socket_path(tmp_path, "s") == tmp_path / "s"
    deep = tmp_path / ("x" * 120)
    assert len(str(socket_path(deep, "s"))) <= 100
    wide = tmp_path / ("ü" * 60)
    assert len(os.fsencode(socket_path(wide, "s"))) <= 100
    assert socket_path(deep, "s") == socket_path(deep, "s") != socket_path(deep, "t")


@contextlib.asynccontextmanager
async def an_echo(path: Path) -> AsyncIterator[None]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield


async def ask(proxy: Path, request: bytes, then: bytes = b"") -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_unix_connection(proxy)
    writer.write(request)
    status = await reader.readline()
    await reader.readuntil(b"\r\n")
    writer.write(then)
    writer.write_eof()
    rest = await reader.read()
    writer.close()
    return status, rest


@pytest.mark.integration
async def test_the_proxy_connects_and_says_why_it_does_not(tmp_path: Path) -> None:
    def find(host: str, port: int) -> str:
        if host != "there":
            raise NoRoute(f"nobody is at {host}:{port}")
        return str(tmp_path / "echo")

    proxy = tmp_path / "proxy"
    async with an_echo(tmp_path / "echo"), serve_proxy(str(proxy), find):
        status, answer = await ask(proxy, b"CONNECT there:443 HTTP/1.1\r\nHost: x\r\n\r\n", b"hello")
        assert (status, answer) == (b"HTTP/1.1 200 Connection established\r\n", b"hello")
        status, _ = await ask(proxy, b"CONNECT away:443 HTTP/1.1\r\n\r\n")
        assert status == b"HTTP/1.1 503 nobody is at away:443\r\n"
        status, _ = await ask(proxy, b"GET / HTTP/1.1\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 405")
    assert not proxy.exists()
