"""Taking a cluster down from outside: by a command, or after somebody has killed it."""

from __future__ import annotations

import signal
from pathlib import Path

from kai_local.box import kubeconfig
from kai_local.box.state import ClusterFiles, KubeconfigRecord
from kai_local.errors import ClusterError
from kai_local.node import traces


def give_back(record: KubeconfigRecord) -> None:
    """Take the cluster out of the user's kubeconfig, whose current context is again what it was."""
    path, current = Path(record.path), Path(record.current_path)
    if current.exists():
        kubeconfig.restore_context(current, record.context, _before(record))
    if path.exists():
        kubeconfig.remove(path, record.context)


def _before(record: KubeconfigRecord) -> str:
    """The context that was current before; where that was of a cluster which is gone, the one before that."""
    files = [Path(record.current_path), Path(record.path)]
    *boxes, first = [record.previous_context, *record.earlier_contexts]
    there = (name for name in boxes if name != record.context and kubeconfig.has_context(files, name))
    return next(there, first)


def sweep(files: ClusterFiles) -> None:
    """Remove what a killed cluster of this name has left. To be called with its name claimed.

    Raises:
        ClusterError: something does not go.
    """
    record = files.read()
    if record is not None:
        for process in record.processes:
            if process.identity is not None:
                process.identity.signal(signal.SIGKILL)
        traces.remove(files.directory)
        files.make_room()  # on a disk that is full no kubeconfig can be changed
        if record.kubeconfig is not None:
            give_back(record.kubeconfig)
    files.clear()


def take_down(files: ClusterFiles, *, patience: float = 60.0) -> bool:
    """End a cluster from another process; says whether there was one.

    Raises:
        ClusterError: it does not end, or it is another user's.
    """
    record = files.read()
    if record is None:
        return False
    supervisor = record.supervisor.identity
    if supervisor is not None and supervisor.alive:
        try:
            supervisor.signal(signal.SIGTERM)
        except PermissionError as error:
            problem = f"process {supervisor.pid} of cluster {files.name!r} is another user's"
            raise ClusterError(f"{problem}; run this as the user who started the cluster") from error
        if not supervisor.wait_gone(patience):
            supervisor.signal(signal.SIGKILL)
            if not supervisor.wait_gone(5.0):
                raise ClusterError(f"process {supervisor.pid} of cluster {files.name!r} does not end")
    with files.claimed():
        sweep(files)
    return True
