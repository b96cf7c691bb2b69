"""Amounts of resources as people write them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kai.model.remembered import forgettable
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS

_BINARY: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20))
_DECIMAL: Final = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_COUNTED: Final = {CPU: "core", GPU: "GPU", PODS: "pod"}


@forgettable
@lru_cache(maxsize=4096)
def amount_text(column: int, amount: float, *, name: str = "", unit: int = 1) -> str:
    """``3 cores``, ``1 GPU``, ``16 GiB``.

    CPU is in thousandths, memory in bytes, GPUs and pods by count, anything else called ``name`` in parts of
    ``unit``. A negative amount is no bound.
    """
    if amount < 0:
        return "unlimited"
    if column == MEMORY:
        return _bytes(amount)
    noun = _COUNTED.get(column)
    if noun is None:
        return f"{amount / unit:g} {name}"
    number = f"{amount / 1000 if column == CPU else amount:.6g}"
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def _bytes(amount: float) -> str:
    """In binary units where that is even, else in decimal ones."""
    for name, size in _BINARY:
        if amount >= size and amount % size == 0:
            return f"{amount / size:g} {name}"
    for name, size in _DECIMAL:
        if amount >= size:
            return f"{amount / size:.4g} {name}"
    return f"{amount:g} bytes"
