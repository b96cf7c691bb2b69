"""``python -m kai_local.real.credentials FOLDER URL``: the keys of a real control plane.

A process of its own that ends when that is done, so that the one that watches over the cluster stays small.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

#: Files in the folder; ``kubeconfig`` is the administrator's.
AUTHORITY = "ca.crt"
SERVER_CERTIFICATE, SERVER_KEY = "server.crt", "server.key"
#: The API server signs the tokens of service accounts with the key and checks them by the certificate.
TOKEN_CERTIFICATE, TOKEN_KEY = "service-accounts.crt", "service-accounts.key"
KUBECONFIG = "kubeconfig"

_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def command_line(folder: Path, url: str) -> tuple[str, ...]:
    """The command that makes them."""
    return sys.executable, "-m", "kai_local.real.credentials", str(folder), url


def main() -> None:
    """Make them."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    make(folder, url)


def make(folder: Path, url: str) -> None:
    """Write authority, certificates, token keys and the administrator's kubeconfig, for our eyes only."""
    from kai_local.apiserver.access.files import kubeconfig, write_private
    from kai_local.apiserver.access.pki import Authority

    authority = Authority.new("kai-real-ca")
    server = authority.server([urlsplit(url).hostname or "localhost", *_SERVER_NAMES])
    tokens = authority.client("service-accounts")
    admin = authority.client("kubernetes-admin", ["system:masters"])
    files = {
        AUTHORITY: authority.certificate,
        SERVER_CERTIFICATE: server.certificate,
        SERVER_KEY: server.key,
        TOKEN_CERTIFICATE: tokens.certificate,
        TOKEN_KEY: tokens.key,
        KUBECONFIG: kubeconfig("kai-real", url, authority.certificate, admin).encode(),
    }
    for name, content in files.items():
        write_private(folder / name, content)


if __name__ == "__main__":
    main()
