"""Ports are chosen once, whoever chooses beside us and however long he takes to listen."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kai_local.processes import ports

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
