"""PostgreSQL, through a driver in Python alone: what it encrypts is encrypted by Python's own ``ssl``."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pg8000.dbapi
from pg8000.exceptions import DatabaseError, InterfaceError

from kai.history.databases import Transaction
from kai.history.errors import InvalidUrl

_PORT: Final = 5432
#: A server that says nothing for so long is not waited for; it is told to give up before that.
_SILENCE_SECONDS: Final = 30
_STATEMENT_SECONDS: Final = 25
#: Held by whoever changes the schema: any number that nobody else uses in this database.
_SCHEMA_LOCK: Final = 0x6B61695F68
_OPTIONS: Final = frozenset({"sslmode", "sslrootcert"})
_MODES: Final = ("disable", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlDriver:
    """Connections to one database of a server."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    #: One of ``_MODES``: what the server has to show.
    mode: str
    #: The file of the authority that signed what it shows; empty: those that the system trusts.
    authority: str
    errors: tuple[type[Exception], ...] = (DatabaseError, InterfaceError)
    most_values: int = 30_000

    @classmethod
    def of(
        cls,
        *,
        host: str,
        port: int | None,
        database: str,
        user: str,
        password: str,
        options: Mapping[str, str],
    ) -> PostgresqlDriver:
        """From the parts of an address.

        Raises:
            InvalidUrl: one is missing or cannot be understood.
        """
        for part, said in (("HOST", host), ("USER", user), ("NAME", database)):
            if not said:
                raise InvalidUrl(f"{part} is missing; write postgresql://USER:PASSWORD@HOST:PORT/NAME")
        if unknown := sorted(options.keys() - _OPTIONS):
            raise InvalidUrl(f"{unknown[0]} is not known; there are {', '.join(sorted(_OPTIONS))}")
        driver = cls(
            host=host,
            port=port or _PORT,
            database=database,
            user=user,
            password=password,
            mode=options.get("sslmode", "verify-full"),
            authority=options.get("sslrootcert", ""),
        )
        if driver.mode not in _MODES:
            raise InvalidUrl(f"sslmode={driver.mode} is not known; there are {', '.join(_MODES)}")
        try:
            driver.tls()
        except InterfaceError as error:
            raise InvalidUrl(str(error)) from None
        return driver

    def connect(self) -> Any:
        """A connection on which no statement takes for ever."""
        tls = self.tls()
        return pg8000.dbapi.connect(
            user=self.user,
            password=self.password or None,
            host=self.host,
            port=self.port,
            database=self.database,
            ssl_context=tls if tls is not None else False,
            timeout=_SILENCE_SECONDS,
            application_name="kai-insight",
            startup_params={"statement_timeout": str(_STATEMENT_SECONDS * 1000)},
        )

    def tls(self) -> ssl.SSLContext | None:
        """What makes a connection secret: the server has to show a certificate for its name unless told less.

        The authority is read anew each time, as its file may be replaced.

        Raises:
            InterfaceError: it cannot be read.
        """
        if self.mode == "disable":
            return None
        try:
            context = ssl.create_default_context(cafile=self.authority or None)
        except OSError as error:  # those of ssl as well; none names the file
            raise InterfaceError(f"sslrootcert={self.authority}: {error}") from error
        if self.mode in ("require", "verify-ca"):
            context.check_hostname = False
        if self.mode == "require":
            context.verify_mode = ssl.CERT_NONE
        return context

    def begin(self, cursor: Any, *, writing: bool) -> None:
        """The driver begins by itself; a question sees one moment, whatever others write meanwhile."""
        if not writing:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return
        # One writer at a time: two that make the schema at once would both fail, and one replica writes.
        cursor.execute(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")

    def written(self, statement: str) -> str:
        """With the driver's sign for values."""
        return statement.replace("?", "%s")

    def size(self, transaction: Transaction) -> int:
        """Our tables with their indices."""
        ((size,),) = transaction.rows(
            "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
            "WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace "
            "AND left(c.relname, 4) = 'kai_'"
        )
        return int(size)

    def reclaim(self, connection: Any) -> None:
        """The server does that by itself (autovacuum)."""

    def end(self, connection: Any) -> None:
        """The server rolls back what was begun."""
        connection.close()
