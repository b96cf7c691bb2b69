"""What a server shows of itself: a certificate in files, read again when they change, without a restart."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

#: Changes whenever the files do.
Stamp = tuple[float, float]
#: How often files are looked at: those that are there, and those that are not there yet.
POLL_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where certificate chain and key are, in PEM."""

    certificate: Path
    key: Path

    @classmethod
    def in_directory(cls, directory: str) -> CertificateFiles:
        """As a Secret of type ``kubernetes.io/tls`` is mounted."""
        return cls(Path(directory) / "tls.crt", Path(directory) / "tls.key")

    def stamp(self) -> Stamp | None:
        """Changes whenever the files do; None while one is missing."""
        try:
            return self.certificate.stat().st_mtime, self.key.stat().st_mtime
        except OSError:
            return None


def server_context() -> ssl.SSLContext:
    """For a server, with no certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def renew(context: ssl.SSLContext, files: CertificateFiles, loaded: Stamp | None) -> Stamp | None:
    """Load the files if they are not those that are ``loaded``; what is loaded then.

    Connections that are open go on; new ones get the new certificate. Files that cannot be used change
    nothing.
    """
    stamp = files.stamp()
    if stamp is None or stamp == loaded:
        return loaded
    try:
        # A context that failed to load serves nobody any more, so one to throw away goes first.
        server_context().load_cert_chain(files.certificate, files.key)
        context.load_cert_chain(files.certificate, files.key)
    except (ssl.SSLError, OSError) as error:
        # Half of a rotation: the next look will find both files new.
        _log.warning("certificate not usable yet", file=str(files.certificate), error=str(error))
        return loaded
    if loaded is not None:
        _log.info("certificate renewed", file=str(files.certificate))
    return stamp


async def until_loaded(context: ssl.SSLContext, files: CertificateFiles, *, who: str) -> Stamp:
    """Wait until there are files to load; what is loaded then. ``who`` waits is told once, in the log."""
    told = False
    while True:
        stamp = renew(context, files, None)
        if stamp is not None:
            return stamp
        if not told:
            _log.warning(f"{who} waits for its certificate", file=str(files.certificate))
            told = True
        await asyncio.sleep(_WAIT_SECONDS)


async def keep_loaded(context: ssl.SSLContext, files: CertificateFiles, loaded: Stamp | None) -> None:
    """Load the files whenever they have changed, until cancelled."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        loaded = renew(context, files, loaded)
