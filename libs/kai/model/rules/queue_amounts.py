"""What the numbers of a Queue mean: the original's rule.

GPUs count in devices, CPUs in thousandths, memory in millions of bytes; any negative quota or limit is no
bound. Sums count the same but for memory, which they have in bytes; people read cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: How no bound is written.
UNLIMITED: Final = -1.0
#: Of queues that do not say.
PRIORITY: Final = 100
#: Bytes of one unit of memory.
MEMORY_BYTES: Final = 1_000_000
#: By resource, what one of a queue's units is in those of sums: devices, millicores, bytes.
UNITS: Final[Mapping[str, float]] = {"gpu": 1.0, "cpu": 1.0, "memory": float(MEMORY_BYTES)}
#: By resource, so many of a queue's units are so many devices, cores and bytes.
_SHOWN: Final[Mapping[str, tuple[int, int]]] = {"gpu": (1, 1), "cpu": (1000, 1), "memory": (1, MEMORY_BYTES)}


def priority(said: int | None) -> int:
    """The priority of a queue."""
    return PRIORITY if said is None else said


def bound(resource: str, said: float) -> float:
    """A quota or limit in devices, millicores or bytes; -1 is unlimited."""
    return UNLIMITED if said < 0 else said * UNITS[resource]


def shown(resource: str, said: float) -> float:
    """A quota or limit in devices, cores or bytes; -1 is unlimited."""
    units, base = _SHOWN[resource]
    return UNLIMITED if said < 0 else said * base / units


def written(resource: str, amount: float) -> float:
    """How a queue says so many devices, cores or bytes."""
    units, base = _SHOWN[resource]
    return amount * units / base


def borrowed(held: float, quota: float) -> float:
    """What is held beyond the quota, in the unit of both; nothing where there is no bound."""
    return 0.0 if quota < 0 else max(0.0, held - quota)
