"""Where a cluster keeps its files, what it says about itself, and whose name it is.

Everything of the cluster ``NAME`` lies in ``$XDG_STATE_HOME/kai/NAME`` (``~/.local/state/kai/NAME``). The
supervising process holds a lock on ``NAME.lock`` beside it for as long as it lives, so a name is taken
exactly while somebody uses it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kai_local.errors import ClusterError
from kai_local.processes import homes
from kai_local.processes.records import ProcessRecord

DEFAULT_NAME = "local"
#: How long the name may still be held by a cluster that cleans up after its folder was removed.
_HANDING_OVER_SECONDS = 1.0
_LOOK_AT_LOCK_SECONDS = 0.02
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


class KubeconfigRecord(msgspec.Struct):
    """What was changed for the user: an entry in ``path``, the current context in ``current_path``.

    Where the context before was that of another cluster in a box, ``earlier_contexts`` are those before that,
    for when it is gone.
    """

    context: str
    path: str
    current_path: str
    previous_context: str = ""
    earlier_contexts: list[str] = []


class ClusterRecord(msgspec.Struct, omit_defaults=True):
    """What a cluster says about itself in ``cluster.json``."""

    name: str
    phase: str
    created_at: float
    supervisor: ProcessRecord
    server: str = ""
    nodes: int = 0
    gpus_per_node: int = 0
    kubeconfig: KubeconfigRecord | None = None
    processes: list[ProcessRecord] = []


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """The paths of one cluster."""

    name: str
    directory: Path

    @classmethod
    def of(cls, name: str, environment: Mapping[str, str] = os.environ) -> ClusterFiles:
        """The paths of the cluster of this name.

        Raises:
            ClusterError: it cannot be a name.
        """
        if not _NAME.fullmatch(name):
            problem = f"cluster name {name!r} cannot be used"
            raise ClusterError(f"{problem}; take up to 40 lower-case letters, digits and dashes")
        return cls(name, state_root(environment) / name)

    @property
    def context(self) -> str:
        """The name under which it stands in kubeconfigs."""
        return f"kai-{self.name}"

    @property
    def logs(self) -> Path:
        """Folder of the log files."""
        return self.directory / "logs"

    @property
    def api_server(self) -> Path:
        """Folder of the API server."""
        return self.directory / "apiserver"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig that the API server writes."""
        return self.api_server / "kubeconfig"

    @property
    def machine_record(self) -> Path:
        """Which processes run in place of the chart's pods: a list of :class:`ProcessRecord`."""
        return self.directory / "machine.json"

    @property
    def _record(self) -> Path:
        return self.directory / "cluster.json"

    @property
    def _lock(self) -> Path:
        return self.directory.with_name(f"{self.name}.lock")

    def read(self) -> ClusterRecord | None:
        """What the cluster last said about itself, ``None`` if there is none.

        Raises:
            ClusterError: it cannot be read.
        """
        try:
            record = msgspec.json.decode(self._record.read_bytes(), type=ClusterRecord)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ClusterError(_unreadable(error)) from error
        except msgspec.DecodeError as error:
            raise ClusterError(f"{self._record} is damaged ({error}); remove {self.directory}") from error
        record.processes += self._read_machine()
        return record

    def _read_machine(self) -> list[ProcessRecord]:
        try:
            return msgspec.json.decode(self.machine_record.read_bytes(), type=list[ProcessRecord])
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ClusterError(_unreadable(error)) from error
        except msgspec.DecodeError as error:
            raise ClusterError(
                f"{self.machine_record} is damaged ({error}); remove {self.directory}"
            ) from error

    def write(self, record: ClusterRecord) -> None:
        """Say something about the cluster; readers see the old or the new, never a part."""
        fresh = self._record.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(record))
        fresh.replace(self._record)

    def make(self) -> None:
        """Make the folder, for our eyes only."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)

    def make_room(self) -> None:
        """Remove everything but what the cluster has said about itself, for what needs room before that goes.

        To be called with the lock held, when its processes have ended.
        """
        for path in self.directory.glob("*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path != self._record:
                with suppress(OSError):
                    path.unlink()

    def clear(self) -> None:
        """Remove everything. To be called with the lock held."""
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def removed(self) -> bool:
        """Whether a cluster that has said something about itself was removed, as by ``rm -r``."""
        return not self._record.exists()

    @contextmanager
    def claimed(self) -> Iterator[Claim]:
        """Own the name.

        Raises:
            ClusterError: somebody else owns it.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        late = time.monotonic() + _HANDING_OVER_SECONDS
        while True:
            with self._lock.open("a") as lock:
                claim = Claim(self._lock, lock.fileno())
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() < late:
                        time.sleep(_LOOK_AT_LOCK_SECONDS)
                        continue
                    problem = f"there is a cluster {self.name!r} already"
                    remedy = f"end it with `kai local down --name {self.name}` or take another --name"
                    raise ClusterError(f"{problem}; {remedy}") from None
                if claim.lost:
                    continue  # the owner before us removed the file between our opening and locking it
                try:
                    yield claim
                finally:
                    if not claim.lost:
                        self._lock.unlink(missing_ok=True)
                return


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that is ours for as long as the file that we locked is the one that others find."""

    path: Path
    descriptor: int

    @property
    def lost(self) -> bool:
        """Whether the file was removed: the name is nobody's then, or another's."""
        try:
            return not os.path.samestat(self.path.stat(), os.fstat(self.descriptor))
        except FileNotFoundError:
            return True


def _unreadable(error: OSError) -> str:
    """What to say, and to do where another user has started the cluster."""
    remedy = "; run this as the user who started the cluster" if isinstance(error, PermissionError) else ""
    return f"{error.filename} cannot be read: {error.strerror}{remedy}"


def state_root(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that holds all clusters of this user."""
    return homes.folder("XDG_STATE_HOME", ".local/state", environment) / "kai"


def known_clusters(environment: Mapping[str, str] = os.environ) -> list[ClusterFiles]:
    """All clusters that have left files, by name."""
    try:
        found = sorted(state_root(environment).iterdir())
    except OSError:  # there is none, or it is another user's
        return []
    return [ClusterFiles(path.name, path) for path in found if _has_record(path)]


def _has_record(directory: Path) -> bool:
    try:
        return (directory / "cluster.json").exists()
    except OSError:
        return False


def of_context(context: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The name of the cluster that stands in kubeconfigs under ``context``; the usual one if that is empty.

    None where the context is that of another cluster, about which none of ours says anything.
    """
    if not context:
        return DEFAULT_NAME
    return next((files.name for files in known_clusters(environment) if files.context == context), None)


def earlier_contexts(context: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What was current before ``context``, if that is of a cluster in a box, and so on back."""
    files = next((files for files in known_clusters(environment) if files.context == context), None)
    try:
        record = files.read() if files is not None else None
    except ClusterError:  # its own matter
        record = None
    if record is None or record.kubeconfig is None:
        return []
    return [record.kubeconfig.previous_context, *record.kubeconfig.earlier_contexts]
