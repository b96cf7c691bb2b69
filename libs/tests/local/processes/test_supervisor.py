"""Programs are run as one: ready, restarted when they crash, ended together whatever happens."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Protocol

import pytest

from deadlines import eventually, patience
from kai_local.processes.forked import is_forked
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.ports import PortInUse, free_ports, is_free, require_free
from kai_local.processes.probes import http_status
from kai_local.processes.programs import Child, Program, State
from kai_local.processes.supervisor import ProcessFailed, Supervisor

pytestmark = pytest.mark.integration


class MakeProgram(Protocol):
    def __call__(self, name: str, code: str, **options: object) -> Program: ...


@pytest.fixture(params=["executed", "forked"])
def a_program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> MakeProgram:
    """Makes programs from code; as modules of ours, which are forked, or as code, which is executed."""
    folder = tmp_path_factory.mktemp("modules")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))

    def make(name: str, code: str, **options: object) -> Program:
        command = (sys.executable, "-c", textwrap.dedent(code))
        if request.param == "forked":
            module = f"kai_test_{name}"
            body = f"exec({textwrap.dedent(code)!r}, {{'__name__': '__main__'}})"
            (folder / f"{module}.py").write_text(f"def main():\n    {body}\n")
            command = (sys.executable, "-m", module)
        assert is_forked(command) == (request.param == "forked" and sys.platform == "linux")
        return Program(name, command, **options)  # type: ignore[arg-type]

    return make


UP = "import time; print('up', flush=True); time.sleep(600)"
RUNS_ON = "import time; time.sleep(600)"
IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(600)
"""


def exists(path: Path, text: str = "") -> object:
    async def ask() -> bool:
        return path.exists() and text in path.read_text()

    return ask


async def test_output_goes_to_a_log_of_its_own_and_all_end_on_leaving(
    tmp_path: Path, a_program: MakeProgram
) -> None:
    async with Supervisor(tmp_path) as supervisor:
        ready = exists(tmp_path / "a.log", "hello")
        supervisor.start(a_program("a", f"print('hello', flush=True); {RUNS_ON}", ready=ready))
        supervisor.start(a_program("b", RUNS_ON))
        await supervisor.wait_ready(["a", "b"], patience())
        identities = [child.identity for child in supervisor.children.values()]
        assert all(identity and identity.alive for identity in identities)
    assert not any(identity and identity.alive for identity in identities)
    assert {child.state for child in supervisor.children.values()} == {State.STOPPED}


async def test_a_killed_program_comes_back_as_another_process(tmp_path: Path, a_program: MakeProgram) -> None:
    async with Supervisor(tmp_path) as supervisor:
        child = supervisor.start(a_program("a", RUNS_ON))
        await supervisor.wait_ready(["a"], patience())
        first = child.identity
        assert first
        first.signal(signal.SIGKILL)
        await eventually(lambda: child.restarts == 1 and child.state is State.READY)
        assert child.identity
        assert child.identity != first


async def test_a_program_that_keeps_crashing_is_named_with_the_end_of_its_log(
    tmp_path: Path, a_program: MakeProgram
) -> None:
    async with Supervisor(tmp_path) as supervisor:
        never = exists(tmp_path / "nowhere")
        supervisor.start(a_program("bad", "import sys; sys.exit('port 1 is in use')", ready=never))
        with pytest.raises(ProcessFailed, match=r"(?s)bad does not start.*status 1.*port 1 is in use"):
            await supervisor.wait_ready(["bad"], patience())


async def test_a_program_that_cannot_be_started_is_told_and_leaves_the_others_alone(tmp_path: Path) -> None:
    gone = tmp_path / "moved away"
    async with Supervisor(tmp_path) as supervisor:
        fine = supervisor.start(Program("fine", (sys.executable, "-c", RUNS_ON)))
        supervisor.start(Program("bad", (str(gone),)))
        with pytest.raises(ProcessFailed, match=rf"(?s)bad does not start.*cannot be started: .*{gone}"):
            await supervisor.wait_ready(["bad"], patience())
        with pytest.raises(ProcessFailed, match=rf"(?s)once failed.*cannot be started: .*{gone}"):
            await supervisor.run_to_end(Program("once", (str(gone),)))
        gone.symlink_to("/bin/sleep")
        supervisor.start(Program("late", (str(gone), "600")))
        await supervisor.wait_ready(["late"], patience())
        assert (fine.state, fine.restarts) == (State.READY, 0)


async def test_a_program_that_is_never_ready_is_named(tmp_path: Path, a_program: MakeProgram) -> None:
    async with Supervisor(tmp_path) as supervisor:
        supervisor.start(a_program("slow", RUNS_ON, ready=exists(tmp_path / "nowhere")))
        with pytest.raises(ProcessFailed, match=r"slow is not ready after \d+ s"):
            await supervisor.wait_ready(["slow"], 0.3)


async def test_on_a_slow_machine_programs_are_waited_for_longer(
    tmp_path: Path, a_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kai_local.processes.supervisor.slowness", lambda: 1e6 * patience())
    async with Supervisor(tmp_path) as supervisor:
        child = supervisor.start(a_program("slow", UP, ready=exists(tmp_path / "slow.log", "up")))
        await supervisor.wait_ready(["slow"], 1e-6)
        assert child.state is State.READY


async def test_a_program_that_ignores_the_request_to_end_is_killed(
    tmp_path: Path, a_program: MakeProgram
) -> None:
    async with Supervisor(tmp_path) as supervisor:
        program = a_program("deaf", IGNORES_TERM, ready=exists(tmp_path / "deaf.log", "up"), stop_after=0.2)
        child = supervisor.start(program)
        await supervisor.wait_ready(["deaf"], patience())
        await supervisor.stop(["deaf"])
        assert child.exit_status == -signal.SIGKILL


async def test_what_a_program_started_itself_ends_with_it(tmp_path: Path, a_program: MakeProgram) -> None:
    code = f"""
        import subprocess, sys, time
        print(subprocess.Popen([sys.executable, "-c", {RUNS_ON!r}]).pid, flush=True)
        time.sleep(600)
    """
    log = tmp_path / "a.log"
    async with Supervisor(tmp_path) as supervisor:
        supervisor.start(a_program("a", code, ready=exists(log, "\n")))
        await supervisor.wait_ready(["a"], patience())
        grandchild = ProcessIdentity.of(int(log.read_text()))
        assert grandchild
    await eventually(lambda: not grandchild.alive)


async def test_changes_are_told_in_order(tmp_path: Path, a_program: MakeProgram) -> None:
    seen: list[State] = []

    def note(child: Child) -> None:
        seen.append(child.state)

    async with Supervisor(tmp_path, on_change=note) as supervisor:
        supervisor.start(a_program("a", RUNS_ON))
        await supervisor.wait_ready(["a"], patience())
    assert seen == [State.STARTING, State.READY, State.STOPPED]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's end")
def test_nothing_survives_a_kill_of_the_supervising_process(tmp_path: Path, a_program: MakeProgram) -> None:
    command = a_program("a", IGNORES_TERM).command
    code = f"""
        import asyncio
        from pathlib import Path
        from kai_local.processes.programs import Program
        from kai_local.processes.supervisor import Supervisor
        async def main():
            async with Supervisor(Path({str(tmp_path)!r})) as supervisor:
                child = supervisor.start(Program("a", {command!r}))
                await supervisor.wait_ready(["a"], {patience()})
                print(child.identity.pid, flush=True)
                await asyncio.sleep(600)
        asyncio.run(main())
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    child = ProcessIdentity.of(int(parent.stdout.readline()))
    assert child
    parent.kill()
    parent.communicate()
    assert child.wait_gone(10)


def test_a_stranger_with_the_same_number_is_not_ours() -> None:
    mine = ProcessIdentity.of(os.getpid())
    assert mine
    assert mine.alive
    stranger = ProcessIdentity(os.getpid(), "another start")
    assert not stranger.alive
    stranger.signal(signal.SIGKILL)  # and this test goes on
    assert ProcessIdentity.of(2**22 + 1) is None


def test_ports_are_different_free_and_told_when_taken() -> None:
    import socket

    ports = free_ports(5)
    assert len(set(ports)) == 5
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(PortInUse, match=f"port {port} is already in use on 127.0.0.1"):
            require_free(f"127.0.0.1:{port}")
    require_free("127.0.0.1:0")


async def test_a_probe_of_nobody_is_no_answer() -> None:
    assert await http_status(f"http://127.0.0.1:{free_ports(1)[0]}/readyz") == 0


async def test_each_line_can_be_had_as_it_comes(tmp_path: Path, a_program: MakeProgram) -> None:
    lines: list[tuple[str, bytes]] = []
    async with Supervisor(
        tmp_path, on_line=lambda child, line: lines.append((child.program.name, line))
    ) as supervisor:
        supervisor.start(a_program("a", f"print('one'); print('two', flush=True); {RUNS_ON}"))
        await eventually(lambda: len(lines) == 2)
    assert lines == [("a", b"one\n"), ("a", b"two\n")]
    assert (tmp_path / "a.log").read_text() == "one\ntwo\n"


async def test_a_line_without_end_and_a_log_that_takes_nothing_stop_nobody(
    tmp_path: Path, a_program: MakeProgram
) -> None:
    lines: list[bytes] = []
    code = f"""
        print("x" * 3_000_000, flush=True)
        print("after", flush=True)
        {RUNS_ON}
    """
    (tmp_path / "a.log").symlink_to("/dev/full")
    async with Supervisor(tmp_path, on_line=lambda child, line: lines.append(line)) as supervisor:
        supervisor.start(a_program("a", code))
        await eventually(lambda: lines[-1:] == [b"after\n"])
    assert b"".join(lines) == b"x" * 3_000_000 + b"\nafter\n"


async def test_something_that_ends_by_itself_must_end_well(tmp_path: Path, a_program: MakeProgram) -> None:
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.run_to_end(a_program("good", "print('done')"))
        with pytest.raises(ProcessFailed, match=r"(?s)bad failed with status 3.*why"):
            await supervisor.run_to_end(a_program("bad", "print('why', flush=True); raise SystemExit(3)"))
        assert supervisor.children == {}
