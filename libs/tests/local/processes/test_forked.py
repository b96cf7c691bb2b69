"""Modules of ours are forked, and are what they would be if they had been executed."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from deadlines import eventually, patience
from kai_local.processes import forked
from kai_local.processes.forked import Forking, is_forked
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.programs import Child, Program, State
from kai_local.processes.supervisor import ProcessFailed, Supervisor

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are executed"),
]

#: Says what a process finds itself to be, and then lives on.
TELLS = """
import os, sys, time
IMPORTED_BY = os.getpid()

def main():
    print(__import__("json").dumps({
        "pid": os.getpid(), "session": os.getsid(0), "group": os.getpgid(0), "folder": os.getcwd(),
        "arguments": sys.argv[1:], "environment": dict(os.environ), "imported_by": IMPORTED_BY,
        "descriptors": sorted(int(each) for each in os.listdir("/proc/self/fd")),
        "child_signal": repr(__import__("signal").getsignal(17)),
    }), flush=True)
    time.sleep(600)
"""


class Told(msgspec.Struct):
    pid: int
    session: int
    group: int
    folder: str
    arguments: list[str]
    environment: dict[str, str]
    imported_by: int
    descriptors: list[int]
    child_signal: str


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], tuple[str, ...]]:
    """Writes a module, and gives the command that runs it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))

    def write(name: str, text: str) -> tuple[str, ...]:
        (tmp_path / f"{name}.py").write_text(text)
        return sys.executable, "-m", name

    return write


async def told(child: Child) -> Told:
    """What the process that runs now says of itself."""
    found: list[Told] = []

    def there() -> bool:
        lines = child.log.read_text().splitlines() if child.log.exists() else []
        found[:] = [msgspec.json.decode(line, type=Told) for line in lines if line.startswith("{")]
        return bool(found) and child.identity is not None and found[-1].pid == child.identity.pid

    await eventually(there)
    return found[-1]


async def test_a_process_is_what_it_was_asked_to_be(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    command = (*module("kai_tells", TELLS), "--one=1", "two words")
    async with Supervisor(tmp_path) as supervisor:
        child = supervisor.start(Program("tells", command, {"KAI_ONLY": "its own"}))
        its = await told(child)
        assert child.identity
        assert its.pid == its.session == its.group == child.identity.pid
        assert its.folder == str(Path.cwd())
        assert its.arguments == ["--one=1", "two words"]
        assert its.environment == {**os.environ, "KAI_ONLY": "its own"}
        assert its.descriptors[:3] == [0, 1, 2]
        assert len(its.descriptors) == 4  # the last is that of the listing itself
        assert its.child_signal == repr(signal.SIG_DFL)
        assert " ".join(psutil.Process(its.pid).cmdline()).strip() == " ".join(command)
        assert psutil.Process(its.pid).name() == "kai_tells"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param([sys.executable, "-m", "kai_binder", "--x=1"], True, id="one of ours"),
        pytest.param([sys.executable, "-m", "kai_local.apiserver"], True, id="a room of one of ours"),
        pytest.param([sys.executable, "-m", "http.server"], False, id="somebody else's"),
        pytest.param([sys.executable, "-c", "kai_binder"], False, id="code"),
        pytest.param(["another-python", "-m", "kai_binder"], False, id="by another Python"),
        pytest.param([sys.executable, "-m"], False, id="of no module"),
        pytest.param([sys.executable], False, id="nothing"),
    ],
)
def test_modules_of_ours_are_forked_and_nothing_else(command: list[str], expected: bool) -> None:
    assert is_forked(command) == expected


async def test_what_a_module_imports_is_imported_once(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    module("kai_tells", TELLS)
    command = module("kai_also", "from kai_tells import main\n")
    async with Supervisor(tmp_path) as supervisor:
        first = await told(supervisor.start(Program("first", command)))
        second = await told(supervisor.start(Program("second", command)))
    assert first.imported_by == second.imported_by
    assert first.imported_by not in (first.pid, second.pid)


async def test_one_holds_nothing_that_is_another_s(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    command = module("kai_tells", TELLS)
    async with Supervisor(tmp_path) as supervisor:
        for number in range(3):
            its = await told(supervisor.start(Program(f"tells-{number}", command)))
            assert len(its.descriptors) == 4


async def test_where_the_server_is_killed_all_come_back(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    command = module("kai_tells", TELLS)
    async with Supervisor(tmp_path, fork_server="server") as supervisor:
        children = [supervisor.start(Program(name, command)) for name in ("a", "b")]
        before = [await told(child) for child in children]
        identities = [child.identity for child in children]
        [server] = [record for record in supervisor.records() if record.name == "server"]
        assert server.identity
        server.identity.signal(signal.SIGKILL)
        await eventually(lambda: all((c.restarts, c.state) == (1, State.READY) for c in children))
        after = [await told(child) for child in children]
        assert {one.pid for one in before}.isdisjoint(one.pid for one in after)
        assert {child.previous and child.previous.exit_status for child in children} == {-signal.SIGKILL}
        assert not any(identity and identity.alive for identity in identities)


async def test_the_server_ends_last_and_leaves_nothing(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    text = """
import signal, sys, time

def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("in order"))
    print("up", flush=True)
    time.sleep(600)
"""
    async with Supervisor(tmp_path, fork_server="server") as supervisor:
        child = supervisor.start(Program("ends", module("kai_ends", text)))
        await eventually(lambda: child.log.exists() and "up" in child.log.read_text())
        identities = [record.identity for record in supervisor.records()]
        assert len(identities) == 2
    assert "in order" in child.log.read_text()
    assert child.exit_status == 1
    assert not any(identity and identity.alive for identity in identities)
    assert supervisor.records()[-1].name == "ends"  # of the server nothing is told any more


async def test_what_cannot_be_imported_says_so_in_its_own_log(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    command = module("kai_broken", "import kai_nowhere\n")
    async with Supervisor(tmp_path) as supervisor:
        fine = supervisor.start(Program("tells", module("kai_tells", TELLS)))
        with pytest.raises(ProcessFailed, match=r"(?s)failed with status 1.*No module named 'kai_nowhere'"):
            await supervisor.run_to_end(Program("broken", command))
        assert (await told(fine)).arguments == []
        assert fine.restarts == 0


async def test_where_the_machine_has_no_room_for_a_process_more_those_that_there_are_go_on(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    no_room = """
import errno, os

def no_fork():
    raise OSError(errno.EAGAIN, "no")

os.fork = no_fork
"""
    tells, breaks = module("kai_tells", TELLS), module("kai_breaks", no_room)
    async with Supervisor(tmp_path) as supervisor:
        fine = supervisor.start(Program("fine", tells))
        before = await told(fine)
        with pytest.raises(ProcessFailed, match=r"cannot be started: .*Resource temporarily unavailable"):
            await supervisor.run_to_end(Program("more", breaks))
        assert (await told(fine)).pid == before.pid
        assert fine.restarts == 0


async def test_where_no_server_stays_up_a_module_is_executed(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "_SERVER", "kai_nowhere")
    text = TELLS + "\nif __name__ == '__main__':\n    main()\n"
    async with Supervisor(tmp_path, fork_server="server") as supervisor:
        its = await told(supervisor.start(Program("tells", module("kai_tells", text))))
        assert its.imported_by == its.pid
    assert "No module named kai_nowhere" in (tmp_path / "server.log").read_text()


async def test_where_nothing_is_to_be_forked_a_module_is_executed(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    text = TELLS + "\nif __name__ == '__main__':\n    main()\n"
    async with Supervisor(tmp_path, fork=False) as supervisor:
        its = await told(supervisor.start(Program("tells", module("kai_tells", text))))
        assert its.imported_by == its.pid
        assert [record.name for record in supervisor.records()] == ["tells"]


async def test_an_id_means_the_same_process_until_it_is_released(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]]
) -> None:
    command = module("kai_short", "def main():\n    raise SystemExit(7)\n")
    forking = Forking(tmp_path / "server.log", signal.SIGKILL)
    with (tmp_path / "log").open("wb") as log:
        process = await forking.start(command, dict(os.environ), log.fileno())
    assert process
    assert await process.wait() == 7
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert ProcessIdentity.of(process.pid) is None
    process.release()
    await eventually(lambda: not psutil.pid_exists(process.pid))
    await forking.end()


async def test_a_server_that_does_not_answer_is_replaced(
    tmp_path: Path, module: Callable[[str, str], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    forking = Forking(tmp_path / "server.log", signal.SIGKILL)
    with (tmp_path / "log").open("wb") as log:
        command = module("kai_tells", TELLS)
        first = await forking.start(command, dict(os.environ), log.fileno())
        assert first
        assert forking.server
        silent = forking.server.process.pid
        os.kill(silent, signal.SIGSTOP)
        monkeypatch.setattr(forked, "_PATIENCE", 0.1)
        asked = forking.start(command, dict(os.environ), log.fileno())
        monkeypatch.setattr(forked, "_ATTEMPTS", 1)
        assert await asked is None
        monkeypatch.setattr(forked, "_PATIENCE", patience())
        second = await forking.start(command, dict(os.environ), log.fileno())
        assert second
        assert forking.server.process.pid != silent
    for process in (first, second):
        process.release()
    await forking.end()
    assert not psutil.pid_exists(silent)
