"""Which database an address means."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from kai.history.databases import Database
from kai.history.errors import InvalidUrl
from kai.history.postgresql import PostgresqlDriver
from kai.history.sqlite import SqliteDriver

#: Each would end the part in which it stands.
_ESCAPED: Final = "write / as %2F, ? as %3F, # as %23, [ as %5B and % as %25 in user, password and names"


def open_database(url: str) -> Database:
    """The database at ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST:PORT/NAME?sslmode=MODE``.

    Nothing is asked of it yet.

    Raises:
        InvalidUrl: it is neither.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # whose text may have the password in it
        raise InvalidUrl(f"the address of the history cannot be read; {_ESCAPED}") from None
    cut_off = "@" not in parts.netloc and "@" in parts.path + parts.query and parts.scheme != "sqlite"
    if parts.fragment or cut_off:
        raise InvalidUrl(f"the address of the history is cut off at a sign; {_ESCAPED}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "sqlite":
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path or options:
            raise InvalidUrl("write sqlite:///PATH, with four slashes for an absolute one")
        return Database(SqliteDriver(path), shown=f"file {path}")
    if parts.scheme in ("postgresql", "postgres"):
        driver = PostgresqlDriver.of(
            host=parts.hostname or "",
            port=port,
            database=unquote(parts.path.removeprefix("/")),
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            options=options,
        )
        return Database(driver, shown=f"database {driver.database} at {driver.host}:{driver.port}")
    raise InvalidUrl("write sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME")
