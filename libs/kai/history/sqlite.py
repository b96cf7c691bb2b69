"""SQLite: a file, written by one process and read by many threads of it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from kai.history.databases import Transaction

#: Whoever writes may keep others waiting so long.
_BUSY_SECONDS: Final = 30.0
#: The file belongs to whoever writes it: it says who ran what.
_MODE: Final = 0o600
_PAGES_AT_ONCE: Final = 2000
#: As SQLite tells ``auto_vacuum``.
_INCREMENTAL: Final = 2


class _Connection(sqlite3.Connection):
    """A connection that knows which file it has open."""

    #: Device and number.
    file: tuple[int, int] | None = None


class SqliteDriver:
    """Connections to one file, which is made where there is none."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    most_values = 30_000

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> Any:
        """With a write-ahead log, so that who reads and who writes do not wait for each other."""
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _MODE))
        # Transactions are begun in words, so that one that writes says so at its beginning.
        connection = sqlite3.connect(
            self._path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        try:
            connection.file = self._file()
            # Before the first table is made: room of what was deleted is given back in steps. Said again it
            # would be written again, and whoever only reads would wait for who writes.
            (vacuum,) = connection.execute("PRAGMA auto_vacuum").fetchone()
            if vacuum != _INCREMENTAL:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            # A machine that loses power may lose the last second, never the file.
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def begin(self, cursor: Any, *, writing: bool) -> None:
        """Whoever writes has the file from here on; nobody goes on with one that was removed or replaced."""
        if cursor.connection.file != self._file():
            raise sqlite3.OperationalError("the file was taken away")
        cursor.execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    def _file(self) -> tuple[int, int] | None:
        """Which file is there now; None if there is none."""
        try:
            found = Path(self._path).stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def written(self, statement: str) -> str:
        """As it is."""
        return statement

    def size(self, transaction: Transaction) -> int:
        """All pages of the file."""
        ((pages,),) = transaction.rows("PRAGMA page_count")
        ((bytes_each,),) = transaction.rows("PRAGMA page_size")
        return int(pages) * int(bytes_each)

    def reclaim(self, connection: Any) -> None:
        """Cut the file where its end is free, in steps that others can write between."""
        while True:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if not free:
                break
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
            (left,) = connection.execute("PRAGMA freelist_count").fetchone()
            if left >= free:
                break
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def end(self, connection: Any) -> None:
        """Rolled back first: a cursor that somebody's error still holds keeps a closed connection's locks."""
        try:
            connection.rollback()
        finally:
            connection.close()
