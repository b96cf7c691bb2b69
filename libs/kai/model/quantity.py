"""Kubernetes quantities as exact integers.

A cluster holds a few dozen distinct quantity strings, so parsing is cached by string.
"""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

from kai.model.remembered import forgettable

_SUFFIXES: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)([numkMGTPE]|[KMGTPE]i)?",
)
#: No API server writes longer ones, nor larger exponents.
_LONGEST: Final = 64
_SHOWN: Final = 40


class InvalidQuantity(ValueError):
    """The text is not a Kubernetes quantity."""

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        super().__init__(f"{shown!r} is not a Kubernetes quantity; write for example 500m, 2 or 4Gi")


@forgettable
@lru_cache(maxsize=65536)
def parse(text: str) -> Decimal:
    """The exact value of a quantity in base units.

    Raises:
        InvalidQuantity: the text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise InvalidQuantity(text)
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def whole(text: str) -> int:
    """The value in base units, rounded up (memory in bytes, counts)."""
    return int(parse(text).to_integral_value(rounding=ROUND_CEILING))


def milli(text: str) -> int:
    """The value in thousandths, rounded up (CPU in millicores)."""
    return int((parse(text) * 1000).to_integral_value(rounding=ROUND_CEILING))


INT64_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")


def integer(text: str | None) -> int | None:
    """A decimal whole number within int64, as labels have it; None if the text is none."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -INT64_MAX - 1 <= value <= INT64_MAX else None


_BINARY: Final = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def render(value: Decimal, *, binary: bool = False) -> str:
    """The shortest usual text of a value: ``2``, ``1500m``, with ``binary`` also ``4Gi``.

    Rounded up to thousandths, which is as fine as a quantity of a pod gets; no greater than int64.
    """
    value = min(value, Decimal(INT64_MAX))
    milli = int((value * 1000).to_integral_value(rounding=ROUND_CEILING))
    number, rest = divmod(milli, 1000)
    if rest:
        return f"{milli}m"
    if binary and number:
        for suffix, unit in _BINARY:
            if number % unit == 0:
                return f"{number // unit}{suffix}"
    return str(number)
