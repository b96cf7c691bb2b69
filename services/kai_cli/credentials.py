"""What the command line shows the scheduler where that wants mutual TLS."""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import ApiError
from kai.kube.resources import SECRETS
from kai.wire.channel import TlsFiles
from kai.wire.errors import PeerUnavailable
from kai.wire.permissions import Role
from kai_cli.output import fail

#: Where the chart keeps the command line's certificate, for those who may read it.
SECRET: Final = f"{Role.KAI_CLI}-grpc-tls-secret"
_AUTHORITY, _CERTIFICATE, _KEY = "ca.crt", "tls.crt", "tls.key"


def in_folder(folder: Path, *, namespace: str) -> TlsFiles:
    """The files in a folder; ``namespace`` is that of the installation. One that cannot be read is told."""
    for name in (_AUTHORITY, _CERTIFICATE, _KEY):
        try:
            (folder / name).open("rb").close()
        except OSError as error:
            raise fail(f"--tls-dir: {folder / name}: {error.strerror}") from error
    return TlsFiles(
        ca=folder / _AUTHORITY,
        cert=folder / _CERTIFICATE,
        key=folder / _KEY,
        namespace=namespace,
    )


@asynccontextmanager
async def of_installation(client: KubeClient, *, namespace: str) -> AsyncIterator[TlsFiles | None]:
    """Those that are kept for the command line, while the block runs; None if we may read none.

    Raises:
        PeerUnavailable: there are some, and they cannot be used.
    """
    try:
        secret = await client.get(SECRETS, SECRET, namespace=namespace)
    except ApiError:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="kai-") as name:  # for our eyes only
        folder = Path(name)
        _write(secret.get("data") or {}, folder, f"secret {namespace}/{SECRET}")
        yield in_folder(folder, namespace=namespace)


def _write(data: Mapping[str, Any], folder: Path, source: str) -> None:
    for name in (_AUTHORITY, _CERTIFICATE, _KEY):
        try:
            (folder / name).write_bytes(base64.b64decode(data[name], validate=True))
        except (KeyError, binascii.Error) as error:
            raise PeerUnavailable(
                f"{source} has no usable {name}; mend it or name files with --tls-dir"
            ) from error
