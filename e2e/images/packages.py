"""Where packages of Python come from while images are built: from where this machine has them from."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LIST_SECONDS: Final = 60.0
_PASSED_ON: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
_CERTIFICATES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@contextmanager
def home() -> Iterator[Path]:
    """A home for root with what pip is told here, to be laid over that of a container.

    That folder is there in every base, so nothing of it stays in an image.
    """
    with tempfile.TemporaryDirectory() as folder:
        here, told = Path(folder), dict(_told())
        lines = [f"{setting} = {told[setting]}" for setting in _PASSED_ON if setting in told]
        named = (told.get("cert", ""), *(os.environ.get(name, "") for name in _CERTIFICATES))
        if found := next((path for path in named if path and Path(path).is_file()), None):
            (here / "ca.crt").write_bytes(Path(found).read_bytes())
            lines.append("cert = ~/ca.crt")
        (here / ".pip").mkdir()
        (here / ".pip" / "pip.conf").write_text("\n".join(("[global]", *lines, "")))
        yield here


def _told() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=_LIST_SECONDS,
        check=True,
    )
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        yield name.rpartition(".")[2], value.strip().strip("'\"")
