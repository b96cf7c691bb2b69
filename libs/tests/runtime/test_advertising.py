"""By which host others reach a server of ours."""

import socket

import pytest

from deadlines import within
from kai.runtime.advertising import advertised_host
from kai.wire.channel import open_channel
from kai.wire.serving import serve


@pytest.fixture(autouse=True)
def no_pod(monkeypatch):
    monkeypatch.delenv("POD_IP", raising=False)


@pytest.mark.parametrize(
    ("told", "listen", "pod", "host"),
    [
        pytest.param("kai.example", ":50051", "10.0.0.7", "kai.example", id="as told"),
        pytest.param("", "127.0.0.1:0", "10.0.0.7", "127.0.0.1", id="where it listens"),
        pytest.param("", "0.0.0.0:50051", "10.0.0.7", "10.0.0.7", id="of the pod"),
        pytest.param("fd00::7", ":50051", "", "[fd00::7]", id="as told, IPv6"),
        pytest.param("[fd00::7]", ":50051", "", "[fd00::7]", id="in brackets already"),
        pytest.param("", "[::1]:50051", "", "[::1]", id="where it listens, IPv6"),
        pytest.param("", "[::]:50051", "fd00::7", "[fd00::7]", id="of the pod, IPv6"),
    ],
)
def test_a_port_can_follow_the_host(monkeypatch, told, listen, pod, host):
    monkeypatch.setenv("POD_IP", pod)
    assert advertised_host(told, listen=listen) == host


def test_a_machine_without_ipv4_has_an_address_too(monkeypatch):
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::9", 0, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert advertised_host("", listen=":50051") == "[fd00::9]"


@pytest.mark.integration
@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
async def test_a_server_on_ipv6_is_reached_by_what_it_advertises():
    async with serve("[::1]:0", []) as port:
        host = advertised_host("::1", listen=":50051")
        async with open_channel(f"{host}:{port}") as channel, within("the channel is ready"):
            await channel.channel_ready()
