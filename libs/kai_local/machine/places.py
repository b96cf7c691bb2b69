"""Addresses of the processes: the same for the pods of a Deployment that follow one another."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from zlib import crc32

_HIGHEST = 254
_POD_NETWORK = int(IPv4Address("10.245.0.0"))
_POD_ADDRESSES = 2**16 - 2


def pod_address(uid: str) -> str:
    """The address of a pod in the network of pods: the same for as long as the pod lives, whoever runs it.

    The API server takes no other one for a pod that has one.
    """
    return str(IPv4Address(_POD_NETWORK + crc32(uid.encode()) % _POD_ADDRESSES + 1))


@dataclass(slots=True)
class Places:
    """Gives out places and takes them back. A place is that of an application and a number.

    The first place of an application is known before anybody has it, so that others can be told its address.
    """

    network: str = field(default_factory=lambda: f"127.{random.randint(1, 254)}.{random.randint(1, 254)}")  # noqa: S311
    _numbers: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _taken: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def first_address(self, namespace: str, application: str) -> str:
        """Where the only pod of an application listens, or will."""
        return f"{self.network}.{self._number(namespace, application, 1)}"

    def take(self, key: str, namespace: str, application: str) -> str:
        """The first free place of an application, for the pod ``key``."""
        slot = 1
        while (namespace, application, slot) in self._taken:
            slot += 1
        self._taken[namespace, application, slot] = key
        number = self._number(namespace, application, slot)
        return f"{self.network}.{number}"

    def give_back(self, key: str) -> None:
        """The pod has gone."""
        self._taken = {place: holder for place, holder in self._taken.items() if holder != key}

    def _number(self, namespace: str, application: str, slot: int) -> int:
        """Every place has a number of its own; those of the free ones are used again when none is left."""
        wanted = (namespace, application, slot)
        if wanted not in self._numbers and len(self._numbers) == _HIGHEST:
            free = next(place for place in self._numbers if place not in self._taken)
            self._numbers[wanted] = self._numbers.pop(free)
        return self._numbers.setdefault(wanted, len(self._numbers) + 1)
