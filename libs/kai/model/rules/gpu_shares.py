"""Which part of GPUs a pod asks for by its annotations.

Scheduler, binder and quota count a portion in hundredths; status tells it as it was written.
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
