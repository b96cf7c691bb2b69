"""Files that clients need: certificates and kubeconfig, readable by their owner only."""

import base64
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from kai_local.apiserver.access.pki import Pair


def write_private(path: Path, data: bytes) -> None:
    """Write the file whole or not at all, mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


@contextmanager
def as_paths(pair: Pair) -> Iterator[tuple[str, str]]:
    """The pair as files, for libraries that read nothing else; gone when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        write_private(certificate, pair.certificate)
        write_private(key, pair.key)
        yield str(certificate), str(key)


def kubeconfig(context: str, url: str, authority: bytes, pair: Pair) -> str:
    """A kubeconfig with one context, everything inline."""

    def inline(data: bytes) -> str:
        return base64.b64encode(data).decode()

    user = f"{context}-admin"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": context, "cluster": {"server": url, "certificate-authority-data": inline(authority)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": inline(pair.certificate),
                    "client-key-data": inline(pair.key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
        "current-context": context,
    }
    return yaml.safe_dump(config, sort_keys=False)
