"""Waiting longer after each failure, and never in step with others."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kai.model.pauses import doubled


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Exponential delays in seconds: ``initial``, doubled each time, at most ``maximum``.

    Each delay is shortened by up to ``jitter`` of itself, so that replicas spread out.
    """

    initial: float = 0.2
    maximum: float = 15.0
    jitter: float = 0.25
    failures: int = field(default=0, init=False)

    def next(self) -> float:
        """Count one more failure and return how long to wait for it."""
        delay = doubled(self.initial, self.failures, most=self.maximum)
        self.failures += 1
        return delay * (1.0 - self.jitter * random.random())  # noqa: S311 (spreading, not secrecy)

    def reset(self) -> None:
        """After a success: start again from ``initial``."""
        self.failures = 0
