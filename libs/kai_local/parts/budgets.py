"""What a PodDisruptionBudget asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def desired_healthy(spec: Mapping[str, Any], total: int) -> int:
    """How many of the ``total`` pods that the budget means have to be healthy."""
    if spec.get("maxUnavailable") is not None:
        return max(0, total - _share(spec["maxUnavailable"], total))
    return _share(spec.get("minAvailable", 1), total)


def _share(amount: int | str, total: int) -> int:
    """A number of pods, given as one or as a percentage (rounded up)."""
    if isinstance(amount, int):
        return amount
    return -(-int(amount.removesuffix("%")) * total // 100)
