"""Running a set of programs as one: started, watched, restarted when they crash, and ended together.

Each program has its own process group and log file. Modules of ours are forked from a process that has
imported them (Linux), all else is executed. When the supervising process is gone, even by ``kill -9``, the
kernel ends the programs (Linux).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from kai.session.parents import ends_with_parent
from kai_local.processes.forked import ForkedProcess, Forking, is_forked
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.programs import Child, Program, Run, State
from kai_local.processes.records import ProcessRecord
from kai_local.processes.slowness import slowness

_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 30.0
_HEALTHY_AFTER = 20.0  # seconds of life after which a crash counts as the first one again
_PROBE_EVERY = 0.1
_CRASHES_BEFORE_READY = 3
_LOOK_AT_MACHINE_EVERY = 5.0
_LOG_TAIL = 15
_LONGEST_LINE = 2**20
_AT_ONCE = 2**16
#: The status of a program that could not be started, as a shell tells it.
_NOT_STARTED = 127

_Process = asyncio.subprocess.Process | ForkedProcess


class ProcessFailed(Exception):
    """A program did not become ready. Names it and quotes the end of its log."""


class Supervisor:
    """Owns the children. Use as a context manager: on leaving, whatever still runs is ended.

    ``on_change`` is called, in the loop, whenever a child's state changes, and ``on_line`` for each line that
    a child writes; without it what they write goes straight to their logs. ``fork_server``: what the process
    is called that forks modules of ours, unless without ``fork`` these are executed, too.
    """

    def __init__(
        self,
        log_directory: Path,
        *,
        on_change: Callable[[Child], None] = lambda child: None,
        on_line: Callable[[Child, bytes], None] | None = None,
        death_signal: signal.Signals = signal.SIGKILL,
        fork_server: str = "fork-server",
        fork: bool = True,
    ) -> None:
        self.children: dict[str, Child] = {}
        self._log_directory = log_directory
        self._on_change = on_change
        self._on_line = on_line
        self._before_exec = ends_with_parent(death_signal)
        self._forking = Forking(log_directory / f"{fork_server}.log", death_signal)
        self._fork_server = fork_server
        self._forks = fork
        self._tasks = asyncio.TaskGroup()
        self._hurried = False

    async def __aenter__(self) -> Self:
        self._log_directory.mkdir(parents=True, exist_ok=True)
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.stop(list(self.children))
        await self._tasks.__aexit__(None, None, None)
        await self._forking.end()

    def records(self) -> list[ProcessRecord]:
        """All processes that there are by now, also the one that is there for the others."""
        found = [ProcessRecord.of(child) for child in self.children.values()]
        server = self._forking.server
        if server is not None and server.identity is not None:
            found.append(ProcessRecord.of_running(self._fork_server, server.identity, server.started_at))
        return found

    def start(self, program: Program) -> Child:
        """Run ``program`` from now on; does not wait for it."""
        child = Child(program, self._log_directory / f"{program.name}.log")
        self.children[program.name] = child
        child.task = self._tasks.create_task(self._keep_running(child), name=program.name)
        return child

    async def run_to_end(self, program: Program) -> None:
        """Run something that ends by itself; :class:`ProcessFailed` if it does not end well."""
        child = Child(program, self._log_directory / f"{program.name}.log")
        await self._run_once(child)
        if child.exit_status:
            problem = f"{program.name} failed with status {child.exit_status}"
            raise ProcessFailed(f"{problem}\n{log_tail(child.log)}")

    async def wait_ready(self, names: Sequence[str], patience: float) -> None:
        """Return when all of ``names`` are ready; :class:`ProcessFailed` if one crashes thrice or is late.

        ``patience``: seconds that this may take on a quick machine that is idle.
        """
        began = time.monotonic()
        for name in names:
            await self._wait_one_ready(self.children[name], began, patience)

    async def stop(self, names: Sequence[str]) -> None:
        """End ``names`` together: SIGTERM, and SIGKILL to the group when that takes too long."""
        children = [self.children[name] for name in names]
        for child in children:
            child.stopping.set()
        tasks = [child.task for child in children if child.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def forget(self, name: str) -> None:
        """End a program, and know nothing of it any more."""
        await self.stop([name])
        self.children.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        """Call a program, and its log, by another name, in place of whatever was called so."""
        child = self.children.pop(old)
        log = child.log.with_name(f"{new}.log")
        if child.log.exists():
            child.log.replace(log)
        child.program, child.log = replace(child.program, name=new), log
        self.children[new] = child

    def kill(self) -> None:
        """End all at once, for somebody who cannot wait; :meth:`stop` still has to be awaited."""
        self._hurried = True
        for child in self.children.values():
            child.stopping.set()
            if child.identity is not None:
                child.identity.signal(signal.SIGKILL)

    async def _wait_one_ready(self, child: Child, began: float, patience: float) -> None:
        name = child.program.name
        while child.state is not State.READY:
            if child.restarts >= _CRASHES_BEFORE_READY:
                problem = f"{name} does not start: it ended with status {child.exit_status}"
                raise ProcessFailed(f"{problem}\n{log_tail(child.log)}")
            child.changed.clear()
            waited = time.monotonic() - began
            left = patience * slowness() - waited
            if left <= 0:
                raise ProcessFailed(f"{name} is not ready after {waited:.0f} s\n{log_tail(child.log)}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_AT_MACHINE_EVERY)):
                    await child.changed.wait()

    async def _keep_running(self, child: Child) -> None:
        backoff = _FIRST_BACKOFF
        while not child.stopping.is_set():
            began = time.monotonic()
            await self._run_once(child)
            if child.stopping.is_set() or child.program.is_final(child.exit_status or 0):
                break
            child.restarts += 1
            if time.monotonic() - began > _HEALTHY_AFTER:
                backoff = _FIRST_BACKOFF
            child.backoff = backoff
            self._become(child, State.CRASHED)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.stopping.wait(), backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        self._become(child, State.STOPPED)

    async def _run_once(self, child: Child) -> None:
        """One process from start to end."""
        began_at = _size(child.log)
        try:
            process, lines = await self._start_process(child)
        except OSError as error:
            self._note_not_started(child, error, began_at)
            return
        child.identity = ProcessIdentity.of(process.pid)
        child.started_at = time.time()
        child.previous, child.run = child.run, Run(child.started_at, (began_at, None))
        self._become(child, State.STARTING)
        beside = [asyncio.create_task(self._probe(child))]
        if lines is not None:
            beside.append(asyncio.create_task(self._relay(child, lines)))
        try:
            await self._wait_end(child, process)
        finally:
            for task in beside:
                task.cancel()
            child.exit_status, child.identity = process.returncode, None
            child.run.exit_status, child.run.ended_at = process.returncode, time.time()
            child.run.log = (began_at, max(began_at, _size(child.log)))

    def _note_not_started(self, child: Child, error: OSError, began_at: int) -> None:
        """That is a matter of one program, which is tried again: the others go on."""
        with contextlib.suppress(OSError), child.log.open("ab") as log:
            log.write(f"{child.program.name} cannot be started: {error}\n".encode())
        now = time.time()
        child.started_at, child.exit_status, child.previous = now, _NOT_STARTED, child.run
        child.run = Run(now, (began_at, max(began_at, _size(child.log))), now, _NOT_STARTED)

    async def _start_process(self, child: Child) -> tuple[_Process, asyncio.StreamReader | None]:
        """The process of a program, and what it writes if that does not go straight to its log."""
        if self._on_line is None:
            with child.log.open("ab") as log:
                return await self._launch(child.program, log.fileno()), None
        reading, writing = os.pipe()
        lines = asyncio.StreamReader()
        loop, protocol = asyncio.get_running_loop(), asyncio.StreamReaderProtocol(lines)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb", buffering=0))
        try:
            return await self._launch(child.program, writing), lines
        finally:
            os.close(writing)

    async def _launch(self, program: Program, output: int) -> _Process:
        environment = {**os.environ, **program.environment}
        if self._forks and is_forked(program.command):
            forked = await self._forking.start(program.command, environment, output)
            if forked is not None:
                return forked
        return await asyncio.create_subprocess_exec(
            *program.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            preexec_fn=self._before_exec,
        )

    async def _wait_end(self, child: Child, process: _Process) -> None:
        ending = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(child.stopping.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await asyncio.wait({ending}, timeout=0 if self._hurried else child.program.stop_after)
        finally:
            stopping.cancel()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever the program itself has left
            await ending
            if isinstance(process, ForkedProcess):
                process.release()

    async def _probe(self, child: Child) -> None:
        ready = child.program.ready
        while ready is not None and not await ready():  # noqa: ASYNC110 - another process, no event
            await asyncio.sleep(_PROBE_EVERY)
        self._become(child, State.READY)

    async def _relay(self, child: Child, output: asyncio.StreamReader) -> None:
        """Pass on what the program writes, and keep it in its log as well."""
        assert self._on_line is not None
        # Unbuffered: what a full disk does not take is not kept for later.
        with child.log.open("ab", buffering=0) as log:
            async for line in _lines(output):
                with contextlib.suppress(OSError):  # else it would wait for ever for somebody to read on
                    log.write(line)
                self._on_line(child, line)

    def _become(self, child: Child, state: State) -> None:
        child.state = state
        child.changed.set()
        self._on_change(child)


async def _lines(output: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What is written, line by line; a line that does not end comes in parts."""
    begun = b""
    while part := await output.read(_AT_ONCE):
        *whole, begun = (begun + part).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(begun) >= _LONGEST_LINE:
            yield begun
            begun = b""
    if begun:
        yield begun


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def log_tail(log: Path, lines: int = _LOG_TAIL) -> str:
    """The last lines of a log, indented, to be quoted in an error."""
    if not log.exists():
        return "  (no log)"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64 * 1024))
        tail = file.read().decode(errors="replace").splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in tail) or "  (its log is empty)"
