"""Every write on disk before it is answered, so that a server that was killed goes on where it was.

One line of JSON for each: ``[group, plural, version, creator, object]``, or ``[group, plural, version, null,
[namespace, name]]`` for a removal. The first line is the version from which on changes are known. What the
kernel has taken survives the process; a last line that is cut off was answered to nobody.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Final

import msgspec
import structlog

from kai_local.apiserver.store.storage import Change, Collection, Key, Record, Store

#: A journal is written anew once it is this large, and several times as large as what is alive.
_COMPACT_FROM: Final = 32 * 2**20
_COMPACT_RATIO: Final = 4

_log = structlog.get_logger(__name__)


class JournalError(Exception):
    """A journal cannot be read. Names file, line and remedy."""


class _Entry(msgspec.Struct, array_like=True):
    group: str
    plural: str
    version: int
    creator: str | None
    object: msgspec.Raw


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Entry).decode


class Journal:
    """The file behind a store. ``restore`` first, then every change is noted."""

    def __init__(self, path: Path, store: Store, *, compact_from: int = _COMPACT_FROM) -> None:
        self._path = path
        self._store = store
        self._compact_from = compact_from
        self._file: IO[bytes] | None = None
        self._size = self._limit = 0

    def restore(self) -> None:
        """Bring the store to where the journal ends, and note what happens from now on.

        Raises:
            JournalError: something other than its last line is damaged.
            OSError: it cannot be read or written.
        """
        if self._path.exists():
            self._replay()
        self._begin()
        self._store.on_new_collection.append(self._attach)
        for key, collection in self._store.collections().items():
            self._attach(key, collection)

    def close(self) -> None:
        """Note nothing more."""
        if self._file is not None:
            self._file.close()

    # --- reading -------------------------------------------------------------------------------
    def _replay(self) -> None:
        with self._path.open("rb") as lines:
            number = 1
            try:
                self._store.begin_at(int(lines.readline()))
                for line in lines:
                    number += 1
                    if line.endswith(b"\n"):
                        self._redo(_decode(line))
            except (ValueError, KeyError, msgspec.MsgspecError) as error:
                problem = f"{self._path}, line {number} is damaged ({error})"
                raise JournalError(f"{problem}; remove the file to begin with an empty cluster") from error
        self._store.version = max(self._store.version, self._store.first)

    def _redo(self, entry: _Entry) -> None:
        collection = self._store.collection((entry.group, entry.plural))
        self._store.version = entry.version - 1
        if entry.creator is not None:
            collection.put(msgspec.json.decode(entry.object), entry.creator)
            return
        record = collection.get(*msgspec.json.decode(entry.object, type=Key))
        if record is None:
            raise KeyError(f"nothing of that name to remove: {bytes(entry.object).decode()}")
        collection.remove(record)

    # --- writing -------------------------------------------------------------------------------
    def _attach(self, key: Key, collection: Collection) -> None:
        collection.listeners.insert(0, partial(self._note, key))

    def _note(self, key: Key, change: Change) -> None:
        record = change.record
        if change.kind == "DELETED":
            gone = msgspec.Raw(_encode(record.key))
            self._write(_encode(_Entry(*key, record.version, None, gone)) + b"\n")
        else:
            self._write(_line(key, record))
        if self._size > self._limit:
            self._compact()

    def _compact(self) -> None:
        """Begin anew where there is room for it. Else the old file goes on, and who watches is still told."""
        try:
            self._begin()
        except OSError as error:
            self._limit = self._size + self._compact_from
            _log.warning("journal cannot be written anew", file=str(self._path), reason=error.strerror)

    def _begin(self) -> None:
        """Write what is alive into a new file, which takes the place of the old one."""
        fresh = self._path.with_suffix(".new")
        file = os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=2**20)
        try:
            file.write(b"%d\n" % self._store.version)
            for key, record in self._alive():
                file.write(_line(key, record))
            file.flush()
            fresh.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):  # what it could not write it tries to write once more
                file.close()
            fresh.unlink(missing_ok=True)
            raise
        self.close()
        self._size = file.tell()
        self._limit = max(self._compact_from, _COMPACT_RATIO * self._size)
        self._file = file

    def _alive(self) -> Iterator[tuple[Key, Record]]:
        records = [
            (key, record)
            for key, collection in self._store.collections().items()
            for record in collection.records()
        ]
        return iter(sorted(records, key=lambda each: each[1].version))

    def _write(self, line: bytes) -> None:
        assert self._file is not None, "restored before anything is written"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            # Memory is ahead of the journal now; a new process begins where the journal ends.
            _log.critical("journal cannot be written", file=str(self._path), reason=error.strerror)
            sys.exit(1)
        self._size += len(line)


def _line(key: Key, record: Record) -> bytes:
    return _encode(_Entry(*key, record.version, record.creator, msgspec.Raw(record.raw))) + b"\n"
