"""The network of a cluster's nodes: a bridge of this machine, behind each of whose ports is a node.

Addresses are of 198.18.0.0/15, which is set aside for trials and leads nowhere. A cluster has 4096 of them:
for its nodes, for Services, and for the pods of each node.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from kai_local.errors import ClusterError
from kai_local.node.commands import run
from kai_local.node.marks import Marks

#: Where the networks of all clusters are.
ALL_NETWORKS: Final = IPv4Network("198.18.0.0/15")
_CLUSTER_PREFIX, _PREFIX = 20, 24
_FIRST_NODE: Final = 10
_BRIDGE_RULES: Final = "/proc/sys/net/bridge/bridge-nf-call-iptables"
#: The upper half of a cluster's networks is that of pods.
MOST_NODES: Final = 8


@dataclass(frozen=True, slots=True)
class Network:
    """The addresses of one cluster. This machine has the first of the nodes' network."""

    whole: IPv4Network

    @property
    def _parts(self) -> list[IPv4Network]:
        return list(self.whole.subnets(new_prefix=_PREFIX))

    @property
    def nodes(self) -> IPv4Network:
        """That of the nodes and of this machine."""
        return self._parts[0]

    @property
    def services(self) -> IPv4Network:
        """The addresses that Services are given."""
        return self._parts[1]

    @property
    def all_pods(self) -> IPv4Network:
        """That of the pods of all nodes."""
        return list(self.whole.subnets())[1]

    def pods(self, index: int) -> IPv4Network:
        """That of the n-th node's pods."""
        return self._parts[MOST_NODES + index]

    @property
    def gateway(self) -> IPv4Address:
        """This machine, as nodes and pods reach it."""
        return self.nodes[1]

    def node(self, index: int) -> IPv4Address:
        """The n-th node."""
        return self.nodes[_FIRST_NODE + index]


def free_network(marks: Marks) -> Network:
    """One of which this machine has no address and no route yet, mostly the same for a cluster.

    Raises:
        ClusterError: all are taken.
    """
    shown = [*json.loads(run("ip", "-json", "address")), *json.loads(run("ip", "-json", "route"))]
    taken = [address for entry in shown for address in _addresses(entry)]
    candidates = list(ALL_NETWORKS.subnets(new_prefix=_CLUSTER_PREFIX))
    first = zlib.crc32(marks.name.encode()) % len(candidates)
    for candidate in candidates[first:] + candidates[:first]:
        if not any(address in candidate for address in taken):
            return Network(candidate)
    raise ClusterError(
        f"no network of {ALL_NETWORKS} is free: {len(candidates)} clusters have nodes on this machine"
    )


def _addresses(entry: dict[str, object]) -> list[IPv4Address]:
    told = [str(each.get("local", "")) for each in entry.get("addr_info", ()) or ()]  # type: ignore[attr-defined]
    told.append(str(entry.get("dst", "")).partition("/")[0])
    return [IPv4Address(text) for text in told if text.count(".") == 3]


def raise_bridge(marks: Marks, network: Network, count: int) -> None:
    """Give this machine its place in the network, and the ways to pods and Services."""
    bridge = marks.bridge
    run("ip", "link", "add", bridge, "type", "bridge")
    run("ip", "address", "add", f"{network.gateway}/{_PREFIX}", "dev", bridge)
    run("ip", "link", "set", bridge, "up")
    ways = {network.services: network.node(0)}
    ways |= {network.pods(index): network.node(index) for index in range(count)}
    for target, via in ways.items():
        run("ip", "route", "add", str(target), "via", str(via), "dev", bridge)


def plug_in(marks: Marks, index: int, pid: int) -> None:
    """Lead a port of the bridge into the network namespace of a process, as its ``eth0``."""
    port = marks.port(index)
    run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    run("ip", "link", "set", port, "master", marks.bridge, "up")


def inside_script(network: Network, index: int, count: int) -> str:
    """What a node does in its own namespace once it has ``eth0``."""
    others = [other for other in range(count) if other != index]
    lines = [
        "ip link set lo up",
        f"ip address add {network.node(index)}/{_PREFIX} dev eth0",
        "ip link set eth0 up",
        f"ip route add default via {network.gateway}",
        *(f"ip route add {network.pods(other)} via {network.node(other)}" for other in others),
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        # What goes from pod to pod over the node's bridge has to meet the rules of Services, too.
        f"test ! -e {_BRIDGE_RULES} || echo 1 > {_BRIDGE_RULES}",
    ]
    return "\n".join(lines)


def cni_configuration(network: Network, index: int) -> str:
    """How pods of the n-th node get their interface and address."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(network.pods(index))}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "kai", "plugins": [bridge, portmap]}, indent=2)
