"""``usageDBConfig``: where past use of queues is read from, and how it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from kai.config.arguments import ConfigError
from kai.config.usage_params import InvalidUsageParams, UsageParams, WindowType
from kai.model import spelling

_WHERE: Final = "usageDBConfig"
_KEYS: Final = ("clientType", "connectionString", "connectionStringEnvVar", "usageParams")
#: Of the original's own tests.
_OF_TESTS: Final = ("fake", "fake-with-history")


class UsageClient(StrEnum):
    """Who keeps the history."""

    #: The queue-controller writes it there; this is so where nothing is said.
    REDIS = "redis"
    #: It scrapes the queue-controller.
    PROMETHEUS = "prometheus"


#: Beginnings of connections.
_SCHEMES: Final = {
    UsageClient.REDIS: ("redis", "rediss", "unix"),
    UsageClient.PROMETHEUS: ("http", "https"),
}
#: Of URLs that name none.
_PORTS: Final = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}


class NoPrometheus(ConfigError):
    """One is to be asked, and nobody says where it is."""

    def __init__(self) -> None:
        super().__init__(
            f"{_WHERE}.clientType is prometheus, and there is none to ask: name one in "
            f"{_WHERE}.connectionString, or set prometheus.enabled or prometheus.externalPrometheusUrl of "
            "the Config; usage is kept without one where clientType is redis"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDatabase:
    """What was configured. At most one of ``connection`` and ``connection_variable`` is not empty."""

    client: UsageClient = UsageClient.REDIS
    #: A URL; empty: the installation knows.
    connection: str = ""
    #: The environment variable that holds it.
    connection_variable: str = ""
    params: UsageParams = field(default_factory=UsageParams)
    #: What was written and has no effect, with the reason.
    notes: tuple[str, ...] = field(default=(), compare=False)
    #: As it was written.
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, document: Any) -> UsageDatabase:
        """Read the JSON form; what is absent has its default.

        Raises:
            ConfigError: a key is unknown, or a value cannot be used.
        """
        if not isinstance(document, Mapping):
            raise ConfigError(f"{_WHERE} is {document!r}; it must be a mapping of keys")
        for key in document:
            if key not in _KEYS:
                raise ConfigError(spelling.unknown("key", str(key), _KEYS, where=f" in {_WHERE}"))
        client = _client(document.get("clientType"))
        connection, variable = _text(document, "connectionString"), _text(document, "connectionStringEnvVar")
        if connection and variable:
            raise ConfigError(
                f"{_WHERE}.connectionString and {_WHERE}.connectionStringEnvVar say the same; give one"
            )
        params = _params(document.get("usageParams"))
        return cls(
            client=client,
            connection=connection and url_of(client, connection, where=f"{_WHERE}.connectionString"),
            connection_variable=variable,
            params=params,
            notes=tuple(_without_effect(client, params, document.get("usageParams") or {})),
            written=document,
        )

    @property
    def port(self) -> int | None:
        """The port of the connection; None where none is told, or where it is a file."""
        parts = urlsplit(self.connection)
        return parts.port or _PORTS.get(parts.scheme)

    @property
    def document(self) -> dict[str, Any]:
        """As it was written, but for a password in the connection."""
        found = dict(self.written)
        if self.connection:
            found["connectionString"] = without_password(self.connection)
        return found


def connected(document: Mapping[str, Any], *, managed: str = "", external: str = "") -> dict[str, Any]:
    """``usageDBConfig`` as a scheduler gets it: with the connection that its installation knows.

    What says a connection stays as it is, and so does what is kept in Redis, of which a flag tells the
    scheduler.

    Args:
        document: as somebody wrote it.
        managed: the URL of the installation's own Prometheus; empty if it has none.
        external: that of one elsewhere; empty if none is named. It counts where ``managed`` is empty.

    Raises:
        NoPrometheus: there is none to ask.
        ConfigError: it cannot be used.
    """
    database = UsageDatabase.read(document)
    if database.client is not UsageClient.PROMETHEUS or database.connection or database.connection_variable:
        return dict(document)
    if not (found := managed or external):
        raise NoPrometheus
    url = url_of(UsageClient.PROMETHEUS, found, where="prometheus.externalPrometheusUrl")
    return {**document, "connectionString": url}


def managed_prometheus(namespace: str) -> str:
    """The URL of the Prometheus that an installation in this namespace runs itself."""
    return f"http://usage-prometheus.{namespace}.svc.cluster.local:9090"


def url_of(client: UsageClient, text: str, *, where: str) -> str:
    """A connection, checked; that of a Prometheus may lack ``http://``.

    Raises:
        ConfigError: it is no URL of this client; ``where`` names who said it.
    """
    schemes = _SCHEMES[client]
    url = text if "://" in text or client is UsageClient.REDIS else f"http://{text}"
    example = "redis://host:6379/0" if client is UsageClient.REDIS else "http://host:9090"
    parts = _parts(url)
    reachable = parts is not None and (parts.hostname or (parts.scheme == "unix" and parts.path))
    if parts is None or parts.scheme not in schemes or not reachable:
        raise ConfigError(f"{where} is {without_password(text)!r}; write {example}")
    if client is UsageClient.PROMETHEUS and (parts.query or parts.fragment):
        raise ConfigError(
            f"{where} is {without_password(text)!r}; write {example}, without what follows ? or #"
        )
    return url


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def without_password(url: str) -> str:
    """The same URL as it may be shown."""
    before, at, after = url.rpartition("@")
    scheme, slashes, user = before.rpartition("//")
    if not at:
        return url
    return f"{scheme}{slashes}{user.partition(':')[0]}:…@{after}" if ":" in user else url


def _client(value: Any) -> UsageClient:
    if value is None or value == "":
        return UsageClient.REDIS
    if value in _OF_TESTS:
        raise ConfigError(
            f"{_WHERE}.clientType {value!r} is for tests of the original; write prometheus or redis"
        )
    try:
        return UsageClient(value)
    except ValueError:
        raise ConfigError(
            spelling.unknown("client", str(value), list(UsageClient), where=f" in {_WHERE}.clientType")
        ) from None


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str | None):
        raise ConfigError(f"{_WHERE}.{key} is {value!r}; it must be a text")
    return (value or "").strip()


def _params(value: Any) -> UsageParams:
    if value is None:
        return UsageParams()
    if not isinstance(value, Mapping):
        raise ConfigError(f"{_WHERE}.usageParams is {value!r}; it must be a mapping of keys")
    try:
        return UsageParams.parse(value)
    except InvalidUsageParams as error:
        raise ConfigError(f"{_WHERE}.{error}") from error


def _without_effect(client: UsageClient, params: UsageParams, given: Mapping[str, Any]) -> list[str]:
    """What was said of another type of window, or of another client."""
    of_window = {
        "windowSize": (params.window_type is not WindowType.CRON, "is over when cronString is due"),
        "tumblingWindowStartTime": (params.window_type is WindowType.TUMBLING, "does not tumble"),
        "cronString": (params.window_type is WindowType.CRON, "is not over by the clock"),
    }
    notes = [
        f"{_WHERE}.usageParams.{key} has no effect: a window of type {params.window_type} {why}"
        for key, (counts, why) in of_window.items()
        if given.get(key) and not counts
    ]
    if client is UsageClient.REDIS:
        notes += [
            f"{_WHERE}.usageParams.extraParams.{key} has no effect: only a Prometheus is asked for metrics"
            for key in params.prometheus.changed()
        ]
    return notes
