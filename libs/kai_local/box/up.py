"""``python -m kai_local.box.up OPTIONS``: the process that a cluster is.

It stands apart from the command line, which replaces itself by it (or starts it, for ``--detach``), so that
a cluster that runs for hours does not carry what only commands need.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from kai import loading

with loading.of_a_service():
    from kai_local.box.cluster import Cluster
    from kai_local.box.kubeconfig import KubeconfigError
    from kai_local.box.options import ClusterOptions
    from kai_local.box.progress import Progress, Relay, for_stream
    from kai_local.box.state import ClusterFiles
    from kai_local.errors import ClusterError
    from kai_local.processes.ending import heeds
    from kai_local.processes.ports import PortInUse
    from kai_local.processes.supervisor import ProcessFailed

_DETACHED = "--detached"
_INTERRUPTED = 130
_TELLABLE = (ClusterError, KubeconfigError, PortInUse, ProcessFailed, OSError)


def command_line(options: ClusterOptions, *, detached: bool = False) -> list[str]:
    """The command that brings such a cluster up."""
    encoded = msgspec.json.encode(options, enc_hook=str).decode()
    return [sys.executable, "-m", "kai_local.box.up", encoded, *([_DETACHED] if detached else [])]


def main() -> None:
    """Bring a cluster up and serve until a signal comes."""
    options = msgspec.json.decode(sys.argv[1], type=ClusterOptions, dec_hook=_decode)
    sys.exit(asyncio.run(_serve(options, detached=_DETACHED in sys.argv)))


async def _serve(options: ClusterOptions, *, detached: bool) -> int:
    progress: Progress = (
        Relay(sys.stdout) if detached else for_stream(sys.stdout, lambda: cluster.stopping.set())
    )
    try:
        cluster = Cluster(options, progress, on_ready=_let_go if detached else None)
        signals = _end_on_signals(cluster)
        await cluster.run()
    except _TELLABLE as error:
        sys.stderr.write(f"kai: {error}\n")
        return 1
    except Exception as error:
        from kai.kube.errors import KubeError
        from kai.session.errors import SessionCacheError

        if not isinstance(error, (KubeError, SessionCacheError)):
            raise
        sys.stderr.write(f"kai: {error}\n")
        return 1
    return _INTERRUPTED if signal.SIGINT in signals else 0


def _end_on_signals(cluster: Cluster) -> list[signal.Signals]:
    """The first signal ends the cluster in order, the second one at once. Returns those that came."""
    came: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        came.append(number)
        if len(came) > 1:
            cluster.hurry()
        cluster.stopping.set()

    heeds(end)
    return came


def _let_go(files: ClusterFiles) -> None:
    """Close the pipe to the command that started us: what comes from now on goes to a log."""
    log = os.open(files.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(kind)


if __name__ == "__main__":
    main()
