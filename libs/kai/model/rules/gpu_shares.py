"""Which part of GPUs a pod asks for by its annotations, and what that is in devices.

Scheduler, binder and quota count in hundredths of each device: a portion as the nearest one, memory rounded
up. Whoever tells people (status, history, ``kai``) tells the exact part, as the original's status does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from kai.model import limits, names

_DECIMAL: Final = re.compile(r"\+?(?:[0-9]{1,32}\.?[0-9]{0,32}|\.[0-9]{1,32})(?:[eE][+-]?[0-9]{1,3})?")
_NOTHING: Final = Decimal(0)
#: A GPU in the parts in which queues are charged.
GPU_CENTI: Final = 100


@dataclass(frozen=True, slots=True)
class Share:
    """A portion of each of so many GPUs, above 0 and at most 1; or MiB of each, where ``portion`` is 0."""

    devices: int
    portion: Decimal = _NOTHING
    memory_mib: int = 0

    @property
    def portion_centi(self) -> int:
        """What counts of a portion: the nearest hundredth, the even one of two, but one at least."""
        if not self.portion:
            return 0
        return max(int((self.portion * GPU_CENTI).to_integral_value(rounding=ROUND_HALF_EVEN)), 1)

    def of_device(self, device_mib: int | None) -> Decimal | None:
        """Which part of each GPU it is, exactly, where one has ``device_mib``; None if that must be known."""
        if self.portion:
            return self.portion
        return Decimal(self.memory_mib) / device_mib if device_mib else None

    def gpus(self, device_mib: int | None) -> Decimal | None:
        """How many GPUs it is in all, exactly; None as of :meth:`of_device`."""
        part = self.of_device(device_mib)
        return None if part is None else part * self.devices


def centi_of_memory(memory_mib: int, device_mib: int) -> int:
    """What counts of an amount of memory of a GPU that has ``device_mib``: hundredths, rounded up."""
    return -(-memory_mib * GPU_CENTI // max(device_mib, 1))


def asked_share(annotations: Mapping[str, str]) -> Share | None:
    """What a pod asks for; None if it asks for no part of a GPU. An empty annotation says nothing.

    Of a portion and an amount of memory the portion counts; admission lets only one of them through.

    Raises:
        OutOfBounds: it cannot be read: the pod would run without what it asks for.
    """
    fraction, memory = annotations.get(names.GPU_FRACTION), annotations.get(names.GPU_MEMORY)
    count = annotations.get(names.GPU_FRACTION_NUM_DEVICES)
    devices = limits.SHARED_DEVICES.integer(count) if count else 1
    if fraction:
        return Share(devices, portion=_portion(fraction))
    return Share(devices, memory_mib=limits.GPU_MEMORY.integer(memory)) if memory else None


def _portion(text: str) -> Decimal:
    portion = Decimal(text) if _DECIMAL.fullmatch(text) else _NOTHING
    if not 0 < portion <= limits.GPU_FRACTION.most:
        raise limits.GPU_FRACTION.exceeded(text)
    return portion
