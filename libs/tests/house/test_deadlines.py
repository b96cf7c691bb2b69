"""How long tests wait is one setting, and a wait that fails says what it waited for."""

from __future__ import annotations

import ast
import asyncio
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kai_local.processes.slowness as slowness_of_machine
from deadlines import BASE_SECONDS, VARIABLE, eventually, patience, until, within

ROOT = Path(__file__).resolve().parents[3]
#: Calls that wait for a process, or for something that another thread or task does.
WAITING = {"run", "check_output", "check_call", "communicate", "wait"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine of two cores, quick and idle."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(slowness_of_machine, "cores", lambda: 2)
    monkeypatch.setattr(slowness_of_machine, "speed", lambda: 0.7)
    monkeypatch.setattr("os.getloadavg", lambda: (0.3, 0.0, 0.0))
    return monkeypatch


@pytest.fixture
def impatience(machine: pytest.MonkeyPatch) -> None:
    machine.setenv(VARIABLE, "0.001")


@pytest.mark.parametrize(
    ("load", "speed", "asked_for", "expected"),
    [
        pytest.param(0.3, 0.7, "", 1.0, id="quick and idle"),
        pytest.param(2.0, 0.7, "", 1.0, id="all cores busy with us"),
        pytest.param(4.0, 0.7, "", 2.0, id="others are busy too"),
        pytest.param(0.3, 3.0, "", 3.0, id="slow"),
        pytest.param(4.0, 2.0, "", 4.0, id="slow, and others are busy"),
        pytest.param(4.0, 2.0, "2", 8.0, id="and somebody asks for more"),
        pytest.param(400.0, 3.0, "", 5.0, id="as good as dead"),
    ],
)
def test_patience_grows_with_what_the_machine_has_to_do_and_with_what_is_asked_for(
    machine: pytest.MonkeyPatch, load: float, speed: float, asked_for: str, expected: float
) -> None:
    machine.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    machine.setattr(slowness_of_machine, "speed", lambda: speed)
    machine.setenv(VARIABLE, asked_for)
    assert patience() == pytest.approx(BASE_SECONDS * expected)
    assert patience(2) == pytest.approx(2 * BASE_SECONDS * expected)


def test_a_judge_knows_how_slow_the_machine_is_where_nobody_would_wait_so_long(
    machine: pytest.MonkeyPatch,
) -> None:
    machine.setattr("os.getloadavg", lambda: (14.0, 0.0, 0.0))
    assert slowness_of_machine.slowness(at_most=math.inf) == pytest.approx(7.0)
    assert slowness_of_machine.slowness() == pytest.approx(5.0)


@pytest.mark.parametrize("text", ["much", "0", "-1"])
def test_a_patience_that_is_no_number_over_0_is_refused(machine: pytest.MonkeyPatch, text: str) -> None:
    machine.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=f"KAI_TEST_PATIENCE is '{text}'; it must be a number over 0"):
        patience()


async def test_what_is_accepted_is_given_whether_it_was_looked_for_or_awaited() -> None:
    found = iter([0, 0, 3])
    assert await eventually(lambda: next(found)) == 3

    async def look() -> list[int]:
        return [1, 2]

    assert await eventually(look, lambda seen: len(seen) == 2) == [1, 2]
    assert until(lambda: "there") == "there"


@pytest.mark.usefixtures("impatience")
async def test_a_wait_that_fails_says_for_what_it_waited_what_it_saw_and_how_long() -> None:
    with pytest.raises(AssertionError, match=r"3 pods run: not within 0 s\nseen last: \['a', 'b'\]"):
        await eventually(lambda: ["a", "b"], lambda seen: len(seen) == 3, what="3 pods run")
    with pytest.raises(AssertionError, match=r"until\(lambda: 7 > 8\).*: not within 0 s\nseen last: False"):
        until(lambda: 7 > 8)
    with pytest.raises(AssertionError, match="the stream ends: not within 0 s"):
        async with within("the stream ends"):
            await asyncio.Event().wait()


@pytest.mark.usefixtures("impatience")
async def test_errors_are_waited_out_where_that_is_said_and_a_report_is_added() -> None:
    async def report() -> str:
        return "and 2 pods are pending"

    def look() -> None:
        raise KeyError("n1")

    with pytest.raises(AssertionError, match=r"seen last: KeyError\('n1'\)\nand 2 pods are pending"):
        await eventually(look, passing=(KeyError,), report=report)
    with pytest.raises(KeyError):
        await eventually(look)


async def test_a_timeout_of_the_block_itself_stays_what_it_is() -> None:
    with pytest.raises(TimeoutError):
        async with within("the block ends"):
            raise TimeoutError


def test_a_test_that_hangs_is_ended_after_five_times_the_patience(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text("import time\ndef test_it():\n    time.sleep(600)\n")
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "deadlines.py").write_text(
        (ROOT / "deadlines.py")
        .read_text()
        .replace("BASE_SECONDS: Final = 60.0", "BASE_SECONDS: Final = 0.02")
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Timeout (>" in done.stdout


def test_no_test_has_deadlines_of_its_own() -> None:
    files = [
        file
        for root in ("libs/tests", "services/tests", "helm/tests", "e2e")
        for file in (ROOT / root).rglob("*.py")
    ]
    assert len(files) > 100
    assert [place for file in files for place in own_deadlines(file)] == []


def own_deadlines(file: Path) -> Iterator[str]:
    """Where a file gives a test, or a process that a test waits for, a number of seconds."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if ast.unparse(node.func) == "pytest.mark.timeout":
            limits = node.args
        elif node.func.attr in WAITING:
            limits = [word.value for word in node.keywords if word.arg == "timeout"]
        else:
            continue
        if any(isinstance(limit, ast.Constant) and limit.value for limit in limits):  # 0 is no limit
            yield f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
