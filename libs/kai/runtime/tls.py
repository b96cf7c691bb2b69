"""Settings of services that talk to each other over gRPC."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from kai.runtime.settings import ServiceSettings
from kai.wire.channel import TlsFiles


class TlsSettings(ServiceSettings):
    """Where the certificates between our processes are: all three files, or none for plain text."""

    tls_ca: str = Field("", description="authority of the certificates between our processes")
    tls_cert: str = Field("", description="our certificate, which names our role")
    tls_key: str = Field("", description="its key")

    @model_validator(mode="after")
    def _tls_files_go_together(self) -> Self:
        given = [bool(self.tls_ca), bool(self.tls_cert), bool(self.tls_key)]
        if any(given) and not all(given):
            raise ValueError("--tls-ca, --tls-cert and --tls-key go together: give all three or none")
        return self

    @property
    def tls(self) -> TlsFiles | None:
        """Files for TLS between our processes; None for plain text."""
        if not self.tls_ca:
            return None
        return TlsFiles(
            ca=Path(self.tls_ca),
            cert=Path(self.tls_cert),
            key=Path(self.tls_key),
            namespace=self.namespace,
        )
