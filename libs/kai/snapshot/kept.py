"""What an owner keeps from cycle to cycle to save work: nothing in it is needed to decide right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """A value of one type, under a name that is its owner's alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get(self, memory: dict[str, Any], stamp: object, make: Callable[[], T]) -> T:
        """The value, made anew where it was made for another ``stamp``."""
        known = memory.get(self.name)
        if known is None or known[0] != stamp:
            known = memory[self.name] = (stamp, make())
        value: T = known[1]
        return value
