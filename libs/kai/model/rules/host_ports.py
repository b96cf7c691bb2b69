"""Ports of a node that pods listen on: Kubernetes keeps each for one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kai.model.objects import Pod
from kai.model.requests import is_sidecar

#: Address, protocol, number.
Port = tuple[str, str, int]

#: Who listens there listens on every address of the node.
ANYWHERE: Final = "0.0.0.0"


def host_ports_of(pod: Pod) -> tuple[Port, ...]:
    """Those that a pod asks for, sorted, each once."""
    ports: set[Port] = set()
    # Other init containers listen for a while only, and Kubernetes keeps no port for them.
    sidecars = [each for each in pod.spec.init_containers or () if is_sidecar(each)]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                ports.add((port.host_ip or ANYWHERE, port.protocol or "TCP", number))
    return tuple(sorted(ports))


class HostPorts:
    """Ports laid out so that two pods are held against each other at the cost of the one that has fewer."""

    __slots__ = ("_addresses", "_ports")

    def __init__(self, ports: Iterable[Port] = ()) -> None:
        #: By protocol and number.
        self._addresses: dict[tuple[str, int], set[str]] = {}
        for address, protocol, number in ports:
            self._addresses.setdefault((protocol, number), set()).add(address)
        #: A set remembers the hashes of what is in it, a dict's keys are hashed again for each question.
        self._ports = frozenset(self._addresses)

    def collide(self, other: HostPorts) -> bool:
        """Whether two pods with these ports cannot be on one node: addresses tell apart the same number."""
        if self._ports.isdisjoint(other._ports):
            return False
        return any(
            _meet(self._addresses[port], other._addresses[port]) for port in self._ports & other._ports
        )


def _meet(mine: set[str], theirs: set[str]) -> bool:
    return ANYWHERE in mine or ANYWHERE in theirs or not mine.isdisjoint(theirs)


NO_PORTS: Final = HostPorts()
