"""The names of a cluster: CoreDNS, on this machine, where nodes and pods reach it."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from kai_local.processes import probes
from kai_local.processes.programs import Program

DOMAIN: Final = "cluster.local"
_READY_PORT: Final = 8181
# Names of others are nobody's: the pods of such a cluster reach nothing outside.
_CONFIGURATION = """\
.:53 {{
    bind {address}
    ready {address}:{ready}
    errors
    cache 5
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 5
    }}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def program(coredns: Path, *, folder: Path, kubeconfig: Path, address: IPv4Address) -> Program:
    """What answers at ``address``; its configuration is written to ``folder``."""
    file = folder / "Corefile"
    quoted = str(kubeconfig).replace('"', r"\"")
    told = _CONFIGURATION.format(address=address, ready=_READY_PORT, domain=DOMAIN, kubeconfig=f'"{quoted}"')
    file.write_text(told)
    ready = probes.http(f"http://{address}:{_READY_PORT}/ready")
    return Program("dns", (str(coredns), f"-conf={file}"), ready=ready, address=f"{address}:53")
