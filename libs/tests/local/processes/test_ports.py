"""Ports are chosen once, whoever chooses beside us and however long he takes to listen."""

import errno
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_local.processes import ports, probes
from kai_local.processes.supervisor import Supervisor
from kai_local.services.readiness import serve_readiness

pytestmark = pytest.mark.integration
CHOOSES = """
from kai_local.processes.ports import free_ports
print(free_ports(1)[0], flush=True)
input()
"""


@pytest.fixture
def somebody() -> Iterator["subprocess.Popen[str]"]:
    """A process that chooses a port, and listens nowhere."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHOOSES], stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def drawing(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    draws = iter(numbers)
    monkeypatch.setattr(ports.random, "randrange", lambda low, high: next(draws))


def test_a_port_that_another_process_has_chosen_is_not_chosen_again_while_that_lives(
    somebody: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert somebody.stdout is not None
    theirs, [ours] = int(somebody.stdout.readline()), ports.free_ports(1)
    drawing(monkeypatch, theirs, ours, *range(20000, 32000))
    assert ports.free_ports(1)[0] not in {theirs, ours}
    somebody.communicate("\n")
    drawing(monkeypatch, theirs)
    assert ports.free_ports(1) == [theirs]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:99999", "port 99999 of 127.0.0.1 cannot be used: ports go up to 65535"),
        ("192.0.2.7:8081", "port 8081 of 192.0.2.7 cannot be used: Cannot assign requested address"),
        ("no-such-host.invalid:8081", "port 8081 of no-such-host.invalid cannot be used"),
    ],
)
def test_an_address_that_cannot_be_had_is_not_said_to_be_in_use(address: str, why: str) -> None:
    with pytest.raises(ports.PortInUse, match=why):
        ports.require_free(address)


def test_a_port_that_only_root_may_have_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(probe: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(ports.socket.socket, "bind", refuse)
    with pytest.raises(ports.PortInUse, match=r"port 443 of 127\.0\.0\.1 cannot be used: Permission denied"):
        ports.require_free("127.0.0.1:443")


def test_where_files_cannot_be_locked_ports_are_chosen_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(ports.fcntl, "lockf", no_locks)
    assert len(ports.free_ports(2)) == 2


@pytest.mark.skipif(not ports.is_free(0, "::1"), reason="this machine has no IPv6")
async def test_all_together_can_be_asked_at_an_address_of_ipv6(tmp_path: Path) -> None:
    [port] = ports.free_ports(1)
    ports.require_free(f"[::1]:{port}")
    async with Supervisor(tmp_path) as supervisor, serve_readiness(f"[::1]:{port}", supervisor):
        assert await probes.http_status(f"http://[::1]:{port}/readyz") == 200
