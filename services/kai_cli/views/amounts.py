"""Amounts as people read them."""

from __future__ import annotations

from kai.model import quantity

UNLIMITED = -1
_DAY = 86400


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


def lasting(seconds: float) -> str:
    """How long something lasted, in its two largest units."""
    days, rest = divmod(round(seconds), _DAY)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return "".join(f"{amount}{unit}" for amount, unit in parts[:2] if amount or unit == parts[0][1])
