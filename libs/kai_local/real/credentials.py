"""``python -m kai_local.real.credentials FOLDER URL [ADDRESS NODE=ADDRESS...]``: keys of a control plane.

With real nodes also those by which they know it and it knows them.

A process of its own that ends when that is done, so that the one that watches over the cluster stays small.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

#: Files in the folder; ``kubeconfig`` is the administrator's.
AUTHORITY = "ca.crt"
SERVER_CERTIFICATE, SERVER_KEY = "server.crt", "server.key"
#: The API server signs the tokens of service accounts with the key and checks them by the certificate.
TOKEN_CERTIFICATE, TOKEN_KEY = "service-accounts.crt", "service-accounts.key"
KUBECONFIG = "kubeconfig"
#: What the API server shows to kubelets.
KUBELET_CLIENT_CERTIFICATE, KUBELET_CLIENT_KEY = "kubelet-client.crt", "kubelet-client.key"
KUBE_SCHEDULER_KUBECONFIG = "kube-scheduler.kubeconfig"

_NODES = "system:nodes"
#: To whom the cluster's own roles give what they need.
_USERS = ("kube-proxy", "kube-scheduler")
_NO_NODES: Mapping[str, str] = {}
_SERVER_NAMES = ("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def command_line(
    folder: Path, url: str, service_address: str = "", *, nodes: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The command that makes them.

    ``nodes``: real ones, addresses by name; their pods reach the server at ``service_address``.
    """
    told = [service_address, *(f"{name}={address}" for name, address in nodes.items())] if nodes else []
    return sys.executable, "-m", "kai_local.real.credentials", str(folder), url, *told


def main() -> None:
    """Make them."""
    folder, url, *others = sys.argv[1:]
    nodes = dict(told.split("=") for told in others[1:])
    make(Path(folder), url, others[:1], nodes)


def make(folder: Path, url: str, addresses: Sequence[str] = (), nodes: Mapping[str, str] = _NO_NODES) -> None:
    """Write authority, certificates, token keys and the administrator's kubeconfig, for our eyes only.

    ``addresses``: further ones of the server. ``nodes``: addresses by name; each gets a kubeconfig and a
    certificate, ``NAME.kubeconfig``, ``NAME.crt`` and ``NAME.key``.
    """
    from kai_local.apiserver.access.files import kubeconfig, write_private
    from kai_local.apiserver.access.pki import Authority

    authority = Authority.new("kai-real-ca")
    server = authority.server([urlsplit(url).hostname or "localhost", *_SERVER_NAMES, *addresses])
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
    if nodes:
        files |= {KUBELET_CLIENT_CERTIFICATE: admin.certificate, KUBELET_CLIENT_KEY: admin.key}
        users: dict[str, tuple[str, ...]] = dict.fromkeys(_USERS, ()) | dict.fromkeys(nodes, (_NODES,))
        for name, groups in users.items():
            user = f"system:node:{name}" if name in nodes else f"system:{name}"
            pair = authority.client(user, groups)
            text = kubeconfig("kai-real", url, authority.certificate, pair)
            files[f"{name}.kubeconfig"] = text.encode()
        for name, address in nodes.items():
            serving = authority.server([name, address])
            files |= {f"{name}.crt": serving.certificate, f"{name}.key": serving.key}
    for name, content in files.items():
        write_private(folder / name, content)


if __name__ == "__main__":
    main()
