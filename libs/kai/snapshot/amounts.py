"""Amounts that are charged, with their units in their names.

The unit comes last: ``gpu_centi`` are hundredths of GPUs, ``held_mib`` is MiB of one device. Where shares are
divided amounts are floats and GPUs whole devices (:data:`~kai.model.decisions.ResourceVector`); ``vector``
is the way there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from kai.model.decisions import ResourceVector
from kai.model.rules.gpu_shares import GPU_CENTI as GPU_CENTI


class Amounts(NamedTuple):
    """What queues are charged for pods: thousandths of a CPU, bytes, and hundredths of a GPU.

    Integers, so that what is added and taken off again leaves no trace.
    """

    cpu_millis: int
    memory_bytes: int
    gpu_centi: int

    def vector(self) -> ResourceVector:
        """The same with GPUs in devices."""
        return (self.cpu_millis, self.memory_bytes, self.gpu_centi / GPU_CENTI)


NOTHING: Final = Amounts(0, 0, 0)


@dataclass(slots=True, kw_only=True)
class Totals:
    """A sum of :class:`Amounts` that changes in place; its fields are written where it is kept."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpu_centi: int = 0

    def add(self, amounts: Amounts, *, times: int = 1) -> None:
        """So many times these amounts more; fewer where ``times`` is negative."""
        self.cpu_millis += amounts.cpu_millis * times
        self.memory_bytes += amounts.memory_bytes * times
        self.gpu_centi += amounts.gpu_centi * times

    def amounts(self) -> Amounts:
        """What it is now, as a value that stays."""
        return Amounts(self.cpu_millis, self.memory_bytes, self.gpu_centi)

    def vector(self) -> ResourceVector:
        """The same with GPUs in devices."""
        return (self.cpu_millis, self.memory_bytes, self.gpu_centi / GPU_CENTI)


class SharedDevice(msgspec.Struct, kw_only=True):
    """A device of a node that pods share; what each of them has of it is in MiB.

    It counts against its node by what it is at the moment, not by how it came to be so:

    * someone holds it: one whole GPU is not idle; if all of them are being released and nobody waits for it,
      one whole GPU is being released;
    * only waiters: one whole GPU of those being released is promised;
    * nobody, but a reservation pod is still there: one whole GPU is not idle, as its device is taken, and is
      being released, as the pod goes when nobody comes to use it.

    A device that somebody holds has a reservation pod, which takes one of the node's pod slots. Until that
    pod is there the device takes the slot.
    """

    held_mib: int = 0
    #: Of that what is being released.
    releasing_mib: int = 0
    #: Promised to pods that wait.
    pipelined_mib: int = 0
    reservation_pods: int = 0

    @property
    def unused(self) -> bool:
        """Whether only a reservation pod has it, if anybody: whoever comes may begin at once."""
        return not self.held_mib and not self.pipelined_mib

    @property
    def in_use(self) -> bool:
        """Whether somebody has a part of it and stays, or waits; else it counts as a whole one."""
        return self.held_mib != self.releasing_mib or self.pipelined_mib > 0

    def free_mib(self, device_mib: int) -> int:
        """What of it nobody has for good, of ``device_mib``; negative where it is overbooked."""
        return device_mib - self.held_mib + self.releasing_mib - self.pipelined_mib

    def joinable(self, device_mib: int, size_mib: int) -> bool:
        """Whether it is in use, and a part of ``size_mib`` fits beside, counting what is being released."""
        return self.in_use and self.free_mib(device_mib) >= size_mib

    def room_now(self, device_mib: int, size_mib: int) -> bool:
        """Whether somebody holds it, and a part of ``size_mib`` can begin beside at once."""
        return self.held_mib > 0 and device_mib - self.held_mib >= size_mib

    def whole_gpus(self) -> tuple[int, int]:
        """What it adds to the idle and to the releasing whole GPUs of its node."""
        taken = self.held_mib or self.reservation_pods
        return _whole(bool(taken), self.held_mib == self.releasing_mib, bool(self.pipelined_mib))

    def slots(self) -> tuple[int, int]:
        """What it adds to the idle and to the releasing pod slots of its node."""
        if self.reservation_pods:
            return 0, 0  # a pod that is there counts as one
        return _whole(bool(self.held_mib), self.held_mib == self.releasing_mib, bool(self.pipelined_mib))


class SharedClaim(msgspec.Struct, kw_only=True):
    """A GPU claim in use on a node: like a device that all its users share, as large as its ``gpus``."""

    gpus: int
    users: int = 0
    releasing_users: int = 0
    pipelined_users: int = 0

    def whole_gpus(self) -> tuple[int, int]:
        """What it adds to the idle and to the releasing whole GPUs of its node."""
        idle, releasing = _whole(self.users > 0, self.users == self.releasing_users, self.pipelined_users > 0)
        return idle * self.gpus, releasing * self.gpus


def _whole(taken: bool, leaving: bool, awaited: bool) -> tuple[int, int]:
    if taken:
        return -1, 1 if leaving and not awaited else 0
    return 0, -1 if awaited else 0
