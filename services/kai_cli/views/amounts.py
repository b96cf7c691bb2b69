"""Amounts as people read them."""

from __future__ import annotations

from kai.model import quantity

UNLIMITED = -1


def number(value: float) -> str:
    """A number without needless digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def count(number: int, what: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def gpus(value: float) -> str:
    """GPU devices; -1 is unlimited."""
    return "unlimited" if value == UNLIMITED else number(value)


def cores(milli: float) -> str:
    """CPU cores of millicores; -1 is unlimited."""
    return "unlimited" if milli == UNLIMITED else number(milli / 1000)


def gibibytes(size: float) -> str:
    """GiB of bytes; -1 is unlimited."""
    return "unlimited" if size == UNLIMITED else f"{number(size / 2**30)}Gi"


def base_units(text: str | None) -> float:
    """A quantity in base units; an absent one is zero."""
    return float(quantity.parse(text)) if text else 0.0
