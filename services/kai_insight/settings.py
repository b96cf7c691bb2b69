"""What insight can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from kai.history.addresses import open_database
from kai.history.databases import Database
from kai.history.errors import InvalidUrl
from kai.model import flag_rules
from kai.model.flag_values import OptionalListen
from kai.runtime import Duration, Listen
from kai.runtime.listeners import ListenerSettings
from kai.runtime.settings import SettingsError

#: An address in a file is no longer than this.
_LONGEST_URL: Final = 4096


class InsightSettings(ListenerSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    history_url: str = Field(
        "sqlite:///kai-history.db",
        description="where the history is: sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME",
    )
    history_url_file: str = Field("", description="file that says it instead, read at the start")
    retention: Duration = Field(30 * 86400.0, gt=0, description="how long what is over is kept")
    queue_interval: Duration = Field(60.0, ge=1, description="time between two records of what queues hold")
    write_interval: Duration = Field(1.0, gt=0, description="time between two writes to the store")
    most_waiting: int = Field(
        100_000, ge=1, description="records that may wait for a store that does not answer"
    )

    replay_retention: Duration = Field(
        2 * 3600.0, ge=0, description="how long cycles can be decided again; 0: they are not recorded"
    )
    replay_bytes: int = Field(
        1 << 30, ge=1, description="bytes of recorded cycles that are kept at most, packed"
    )
    replay_check: bool = Field(
        True, description="decide recorded cycles again as they come, and count what differs"
    )

    verdict_interval: Duration = Field(
        10.0,
        ge=0,
        description="time between two looks at why pod groups wait; none with 0, or without --replay-check",
    )
    verdict_pods: int = Field(
        20_000, ge=0, description="pods of a cluster up to which these looks are taken; copies take memory"
    )

    answer_pods: int = Field(
        50_000,
        ge=0,
        description="pods of a cluster up to which whoever looks is told what a copy of it has to be made "
        "for: why one workload waits, and what would follow from a change",
    )

    grpc_listen: Listen = Field(":9091", description="host:port of questions about the history")
    http_listen: OptionalListen = Field(
        "",
        description="host:port of the page and of questions over HTTP, with the files of --tls-cert; without "
        "TLS a loopback address only; empty: not over HTTP",
    )
    advertise_host: str = Field(
        "", description="host that others reach us by; default that of --grpc-listen, else our pod's address"
    )

    @property
    def no_live_state(self) -> str:
        """Why there is no cluster to look at; empty where there will be one."""
        if not self.replay_check:
            return (
                "insight runs with --replay-check=false, so it does not know the cluster as it is now; "
                "switch it on to look at it"
            )
        if not self.replay_retention:
            return (
                "insight runs with --replay-retention=0, so it follows no cycles and does not know the "
                "cluster as it is now; keep some to look at it"
            )
        return ""

    @model_validator(mode="after")
    def _tokens_go_over_tls(self) -> Self:
        flag_rules.tokens_go_over_tls(self.http_listen, tls=bool(self.tls_ca))
        return self

    def check(self) -> None:
        """Look at the address of the store; the store itself may come later.

        Raises:
            SettingsError: it cannot be one, or its file cannot be read.
        """
        self.database().close()

    def database(self) -> Database:
        """Where the history is; nothing is asked of it yet.

        Raises:
            SettingsError: the address cannot be one, or its file cannot be read.
        """
        given = "--history-url-file" if self.history_url_file else "--history-url"
        try:
            return open_database(self._url())
        except InvalidUrl as error:
            raise SettingsError(f"{given}: {error}") from None

    def _url(self) -> str:
        if not self.history_url_file:
            return self.history_url
        try:
            text = Path(self.history_url_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"--history-url-file {self.history_url_file} cannot be read: {error}"
            ) from None
        return text[:_LONGEST_URL].strip()
