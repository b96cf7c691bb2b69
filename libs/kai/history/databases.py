"""Databases that a store can be in, as far as they differ.

Statements are written once, in what SQLite and PostgreSQL both understand, with ``?`` for each value. Drivers
block, so whoever has an event loop calls from another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

from kai.history.errors import StoreUnavailable

T = TypeVar("T")
Value = str | int | float | bytes | None
Row = tuple[Any, ...]

#: Connections that are kept open between questions.
_IDLE: Final = 4


class Transaction(Protocol):
    """Statements that happen together or not at all."""

    def execute(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Carry out a statement; how many rows it changed."""
        ...

    def rows(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """What a question answers."""
        ...


class Driver(Protocol):
    """What opens connections to one kind of database."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What drivers of this kind raise."""
        ...

    @property
    def most_values(self) -> int:
        """Most values that one statement may have."""
        ...

    def connect(self) -> Any:
        """A connection by Python's DB API."""
        ...

    def begin(self, cursor: Any, *, writing: bool) -> None:
        """Begin a transaction; two that write the schema must not do so at once."""
        ...

    def written(self, statement: str) -> str:
        """A statement as this database takes its values."""
        ...

    def size(self, transaction: Transaction) -> int:
        """Bytes that the store takes."""
        ...

    def reclaim(self, connection: Any) -> None:
        """Give room that nothing needs any more back, where that has to be asked for."""
        ...

    def end(self, connection: Any) -> None:
        """Close a connection, whatever state it is in; others wait for nothing of it from then on."""
        ...


class Database:
    """A database with a few open connections; may be used by any number of threads."""

    def __init__(self, driver: Driver, *, shown: str) -> None:
        self._driver = driver
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        #: Where it is, without secrets.
        self.shown = shown

    @property
    def most_values(self) -> int:
        """Most values that one statement may have."""
        return self._driver.most_values

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What ``work`` finds, all of it at one moment.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        return self._run(work, writing=False)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Have ``work`` change something, wholly or not at all. It may be called twice.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        return self._run(work, writing=True)

    def size(self) -> int:
        """Bytes that the store takes; raises as :meth:`read` does."""
        return self.read(self._driver.size)

    def reclaim(self) -> None:
        """Give room that nothing needs any more back; raises as :meth:`read` does."""
        with self._told(), self._lent(fresh=False) as connection:
            self._driver.reclaim(connection)

    def close(self) -> None:
        """End the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._end(connection)

    def _run(self, work: Callable[[Transaction], T], *, writing: bool) -> T:
        """A connection that has waited may have been ended at its other side: then a fresh one is tried."""
        waited = bool(self._idle)
        try:
            with self._told():
                return self._once(work, writing=writing, fresh=False)
        except StoreUnavailable:
            if not waited:
                raise
        with self._told():
            return self._once(work, writing=writing, fresh=True)

    def _once(self, work: Callable[[Transaction], T], *, writing: bool, fresh: bool) -> T:
        with self._lent(fresh=fresh) as connection:
            cursor = connection.cursor()
            self._driver.begin(cursor, writing=writing)
            found = work(_Cursor(self._driver, cursor))
            connection.commit()
            return found

    @contextmanager
    def _lent(self, *, fresh: bool) -> Iterator[Any]:
        """A connection; one that something went wrong with is not used again."""
        if fresh:
            self.close()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._driver.connect()
        try:
            yield connection
        except BaseException:
            self._end(connection)
            raise
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        self._end(connection)

    def _end(self, connection: Any) -> None:
        with suppress(*self._driver.errors, OSError):
            self._driver.end(connection)

    @contextmanager
    def _told(self) -> Iterator[None]:
        told: tuple[type[Exception], ...] = (*self._driver.errors, OSError)
        try:
            yield
        except told as error:
            raise StoreUnavailable(f"history in {self.shown}: {reason_of(error)}") from error


class _Cursor:
    """A cursor of a driver as a :class:`Transaction`."""

    def __init__(self, driver: Driver, cursor: Any) -> None:
        self._driver = driver
        self._cursor = cursor

    def execute(self, statement: str, values: Sequence[Value] = ()) -> int:
        self._cursor.execute(self._driver.written(statement), tuple(values))
        return max(int(self._cursor.rowcount), 0)

    def rows(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        self._cursor.execute(self._driver.written(statement), tuple(values))
        return [tuple(row) for row in self._cursor.fetchall()]


def reason_of(error: Exception) -> str:
    """What an error says, in one line: PostgreSQL's are a mapping whose ``M`` is the message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # what stands first is only its number
    said = error.args[0] if error.args else ""
    text = said.get("M", said) if isinstance(said, dict) else said
    return " ".join(str(text).split()) or type(error).__name__
