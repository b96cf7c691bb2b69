"""How a Redis is told who we are, and how we know that it is the right one."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis.asyncio.connection import ConnectionPool, SSLConnection, parse_url
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, InvalidResponse, RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from kai.model import flag_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisCredentials:
    """What a URL does not say. Files are read anew with each connection, as they may be renewed."""

    #: The authority (PEM) that signed Redis's certificate; empty: those that the system trusts.
    ca: str = ""
    #: The name in that certificate; empty: the host of the URL.
    server_name: str = ""
    #: Holds the password; empty: that of the URL, if there is one.
    password_file: str = ""

    def check(self, url: str) -> None:
        """Raises ValueError if the URL says otherwise, with what to do."""
        flag_rules.redis_is_told_once(
            url, ca=self.ca, server_name=self.server_name, password_file=self.password_file
        )

    def connection(self, url: str, **options: Any) -> redis.Redis:
        """A client of the Redis at ``url`` with ``options`` of its connections. Nothing is sent yet."""
        arguments: dict[str, Any] = {**options, **parse_url(url)}
        if self.password_file:
            arguments["credential_provider"] = _PasswordFile(self.password_file)
        if arguments.get("connection_class") is SSLConnection:
            arguments |= {
                "connection_class": _VerifiedConnection,
                "ca": self.ca,
                "server_name": self.server_name,
            }
        return redis.Redis.from_pool(ConnectionPool(**arguments))


class _PasswordFile(CredentialProvider):
    """Credentials from a file that may change."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_credentials(self) -> tuple[str]:
        try:
            return (Path(self._path).read_text().strip(),)
        except OSError as error:
            raise AuthenticationError(f"{self._path} cannot be read: {error.strerror}") from error

    async def get_credentials_async(self) -> tuple[str]:
        """The client asks for this one, and where it is missing warns in the log of each process."""
        return self.get_credentials()


class _VerifiedConnection(SSLConnection):
    """TLS with an authority of ours, and with a server that is not called as its host is."""

    def __init__(self, *, ca: str, server_name: str, **options: Any) -> None:
        self._ca, self._server_name = ca, server_name
        super().__init__(**options)

    def _connection_arguments(self) -> Mapping[str, Any]:
        arguments = dict(super()._connection_arguments())
        if self._ca:
            arguments["ssl"] = _trusting(self._ca)
        if self._server_name:
            arguments["server_hostname"] = self._server_name
        return arguments


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # it does not name the file
        raise RedisError(f"{ca} cannot be read as certificates: {error.strerror or error}") from error


def speaks_tls(connection: redis.Redis) -> bool:
    """Whether this client does."""
    return issubclass(connection.connection_pool.connection_class, SSLConnection)


def remedy(error: BaseException, *, tls: bool) -> str:
    """What to do about an error of a client, to be put behind it; empty where nothing is known."""
    chain = tuple(_causes(error))
    if _any(chain, AuthenticationError):
        return "; give the password of that Redis with --redis-password-file, or in --redis-url"
    if _any(chain, ssl.SSLCertVerificationError):
        return (
            "; --redis-ca must hold the authority that signed the certificate of that Redis, "
            "and --redis-server-name, or the host of --redis-url, a name in it"
        )
    if tls and _any(chain, ssl.SSLError, RedisTimeout, TimeoutError):
        return "; if that Redis speaks no TLS write redis:// in --redis-url"
    if not tls and (_any(chain, InvalidResponse) or "closed by server" in str(error)):
        return "; if that Redis speaks TLS write rediss:// in --redis-url"
    return ""


def _any(chain: tuple[BaseException, ...], *kinds: type[BaseException]) -> bool:
    return any(isinstance(one, kinds) for one in chain)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
