"""``python -m kai_local.processes.fork_server FD SIGNAL``: forks processes that run modules of ours.

What a module imports is imported here once, before the fork, and the next process that needs it has it
already: most of what a service does until it is ready. One thread only, and nothing but imports, so that a
fork is safe.

Each request comes over ``FD`` as two descriptors: where the process writes, and a connection of its own,
which carries the request, the process's id and, in the end, its status. A process that has ended stays a
zombie until that connection is closed, so its id means nobody else for as long as it is of use.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import msgspec
from setproctitle import setproctitle, setthreadtitle

from kai import loading
from kai.session.parents import ends_with_parent

_READ_AT_ONCE: Final = 64 * 1024


class ForkRequest(msgspec.Struct, kw_only=True):
    """A module with a function ``main``, what that finds in ``sys.argv``, and the whole environment."""

    module: str
    arguments: list[str]
    environment: dict[str, str]


class ForkReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is told of a process: first its id, then its exit status (-n: ended by signal n).

    Or, in place of both, the number of the error for which there is none.
    """

    pid: int = 0
    status: int | None = None
    error: int = 0


def main() -> None:
    """Fork as asked until nobody can ask any more."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _call_it("kai_local.processes.fork_server")
    request = ForkServer(control, ends_with_parent(signal.Signals(int(sys.argv[2])))).serve()
    if request is None:
        os._exit(0)  # there is much to tidy up, and nothing that needs it
    main_of(request.module)()


def main_of(module: str) -> Callable[[], None]:
    """What ``python -m MODULE`` would run."""
    found = importlib.import_module(module)
    if hasattr(found, "__path__"):
        found = importlib.import_module(f"{module}.__main__")
    function: Callable[[], None] = found.main
    return function


class ForkServer:
    """Takes requests from ``control``; ``before`` is what each process does first, as its parent's child."""

    def __init__(self, control: socket.socket, before: Callable[[], None]) -> None:
        self._control = control
        self._before = before
        self._selector = selectors.DefaultSelector()
        #: By process; None where nobody wants to know any more how it ends.
        self._connections: dict[int, socket.socket | None] = {}
        self._ended: set[int] = set()

    def serve(self) -> ForkRequest | None:
        """Returns None here, in the end, and in each process that is forked what was asked for."""
        with ExitStack() as closing:
            closing.enter_context(self._control)
            closing.enter_context(self._selector)
            wakes, woken = (closing.enter_context(end) for end in socket.socketpair())
            for end in (wakes, woken):
                end.setblocking(False)
            signal.signal(signal.SIGCHLD, lambda number, frame: None)
            signal.set_wakeup_fd(woken.fileno())
            for watched in (self._control, wakes):
                self._selector.register(watched, selectors.EVENT_READ)
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is wakes:
                        wakes.recv(_READ_AT_ONCE)
                        self._tell_ends()
                    elif key.fileobj is not self._control:
                        self._forget(key.fileobj)  # type: ignore[arg-type]
                    else:
                        data, descriptors, _, _ = socket.recv_fds(self._control, 1, 2)
                        if not data:
                            self._bury_all()
                            return None
                        request = self._fork(*descriptors)
                        if request is not None:
                            return request

    def _fork(self, output: int, connected: int) -> ForkRequest | None:
        """The request in the new process, None here."""
        connection = socket.socket(fileno=connected)
        with connection.makefile("rb") as stream:
            line = stream.readline()
        if not line:
            os.close(output)
            connection.close()
            return None
        request = msgspec.json.decode(line, type=ForkRequest)
        with contextlib.suppress(Exception, SystemExit), loading.of_a_service():
            main_of(request.module)  # what fails here fails once more, and is told, in the process itself
        gc.freeze()
        try:
            pid = os.fork()
        except OSError as error:  # the machine is short of memory or processes: those that there are go on
            os.close(output)
            _send(connection, ForkReport(error=error.errno or errno.EAGAIN))
            connection.close()
            return None
        if pid == 0:
            connection.close()
            self._begin(request, output)
            return request
        os.close(output)
        self._connections[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        _send(connection, ForkReport(pid=pid))
        return None

    def _begin(self, request: ForkRequest, output: int) -> None:
        """Become a process as if it had been executed."""
        os.setsid()
        self._before()
        for stream in (1, 2):
            os.dup2(output, stream)
        os.close(output)
        for connection in filter(None, self._connections.values()):
            connection.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(request.environment)
        sys.argv = [request.module, *request.arguments]
        _call_it(request.module, *request.arguments)

    def _tell_ends(self) -> None:
        for pid in self._connections.keys() - self._ended:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            self._ended.add(pid)
            connection = self._connections[pid]
            if connection is None:
                self._bury(pid)
            else:
                status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                _send(connection, ForkReport(status=status))

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()
        [pid] = [pid for pid, its in self._connections.items() if its is connection]
        self._connections[pid] = None
        if pid in self._ended:
            self._bury(pid)

    def _bury_all(self) -> None:
        for pid in self._connections:
            os.waitpid(pid, os.WNOHANG)

    def _bury(self, pid: int) -> None:
        os.waitpid(pid, 0)
        self._ended.remove(pid)
        del self._connections[pid]


def _send(connection: socket.socket, report: ForkReport) -> None:
    with contextlib.suppress(OSError):  # nobody asks any more
        connection.sendall(msgspec.json.encode(report) + b"\n")


def _call_it(module: str, *arguments: str) -> None:
    """Let lists of processes show this one as if it had been executed."""
    setproctitle(" ".join([sys.executable, "-m", module, *arguments]))
    setthreadtitle(module)


if __name__ == "__main__":
    main()
