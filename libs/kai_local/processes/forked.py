"""Modules of ours as processes that a fork server starts: without the time that importing takes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kai.session.parents import ends_with_parent
from kai_local.processes.fork_server import ForkReport, ForkRequest
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.slowness import slowness

_SERVER: Final = "kai_local.processes.fork_server"
#: Command lines of processes are written over that of the server, which is so long for it.
_ROOM: Final = " " * 8192
#: Once more where the server was killed since it was last asked.
_ATTEMPTS: Final = 2
#: Seconds in which a process is there, on a quick machine that is idle.
_PATIENCE: Final = 30.0
#: And in which a server ends.
_LAST_SECONDS: Final = 2.0
_ENVIRONMENT: Final = {
    # One thread, without which no fork is safe: linear algebra would start one per core when it is imported.
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",  # many processes on one machine: memory matters more than speed
}


def is_forked(command: Sequence[str]) -> bool:
    """Whether a command runs a module of ours, where processes can be forked and end with their parent."""
    match command:
        case [program, "-m", module, *_]:
            return sys.platform == "linux" and program == sys.executable and module.startswith("kai_")
    return False


class ForkedProcess:
    """A process that a fork server started; as of :mod:`asyncio.subprocess`, but for :meth:`release`."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reader = reader
        self._writer = writer

    async def wait(self) -> int:
        """Its exit status, -n if signal n ended it; to be awaited once."""
        report = await _read(self._reader)
        # Where the server was killed the kernel has killed its processes.
        self.returncode = -signal.SIGKILL if report is None or report.status is None else report.status
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def release(self) -> None:
        """Let its id mean another process from now on."""
        self._writer.close()


@dataclass(frozen=True, slots=True)
class Server:
    """A fork server. ``control`` is to where requests are sent; one that ended at once has no identity."""

    process: asyncio.subprocess.Process
    control: socket.socket
    identity: ProcessIdentity | None
    started_at: float


class Forking:
    """Starts modules of ours, by a fork server that is there from the first one until :meth:`end`.

    ``log``: where the server itself writes. ``death_signal``: what ends processes whose supervisor is gone.
    """

    def __init__(self, log: Path, death_signal: signal.Signals) -> None:
        self._log = log
        self._death_signal = death_signal
        self.server: Server | None = None
        self._changing = asyncio.Lock()

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], output: int
    ) -> ForkedProcess | None:
        """Run ``command``, which :func:`is_forked`, as the leader of a session; it writes to ``output``.

        None where no server stays up, whose log then says why: the command can still be executed.

        Raises:
            OSError: the machine has no room for a process more.
        """
        _, _, module, *arguments = command
        request = ForkRequest(module=module, arguments=arguments, environment=dict(environment))
        for _ in range(_ATTEMPTS):
            process = await self._ask(request, output)
            if process is not None:
                return process
        return None

    async def end(self) -> None:
        """End the server, and with it whatever still runs of what it has started."""
        server, self.server = self.server, None
        if server is not None:
            server.control.close()
            try:
                async with asyncio.timeout(_LAST_SECONDS * slowness()):
                    await server.process.wait()
            except TimeoutError:
                server.process.kill()
                await server.process.wait()

    async def _ask(self, request: ForkRequest, output: int) -> ForkedProcess | None:
        """None if the server is gone."""
        async with self._changing:
            if self.server is None:
                self.server = await self._start_server()
            server = self.server
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        report = None
        with contextlib.suppress(OSError, TimeoutError), theirs:
            async with asyncio.timeout(_PATIENCE * slowness()):
                socket.send_fds(server.control, [b"."], [output, theirs.fileno()])
                theirs.close()
                writer.write(msgspec.json.encode(request) + b"\n")
                await writer.drain()
                report = await _read(reader)
        if report is not None and not report.error:
            return ForkedProcess(report.pid, reader, writer)
        writer.close()
        if report is not None:
            raise OSError(report.error, os.strerror(report.error))
        async with self._changing:
            if self.server is server:
                await self.end()
        return None

    async def _start_server(self) -> Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _SERVER, str(theirs.fileno()), str(int(self._death_signal)), _ROOM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **_ENVIRONMENT},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=ends_with_parent(signal.SIGKILL),
            )
        return Server(process, ours, ProcessIdentity.of(process.pid), time.time())


async def _read(reader: asyncio.StreamReader) -> ForkReport | None:
    """The next report; None when nobody is there to make one."""
    with contextlib.suppress(OSError):
        if line := await reader.readline():
            return msgspec.json.decode(line, type=ForkReport)
    return None
